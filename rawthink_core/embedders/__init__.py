"""The embedders that ship: `ollama`, `openai`, `offline`, and `auto`, which takes what there is."""
