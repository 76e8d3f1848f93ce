"""The local provider: a JSONL journal that is the truth, and a search index on Qdrant Edge beside it."""
