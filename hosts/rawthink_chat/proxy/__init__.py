"""`rawthink proxy`: a chat API of OpenAI's format with a memory beside it."""
