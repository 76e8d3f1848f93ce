"""What all tests share: nothing that the person who runs them has set reaches the code under test."""

from __future__ import annotations

import os

import pytest

SEED = ("MEMORY_FILE_PATH", "QDRANT_URL", "QDRANT_PATH", "QDRANT_API_KEY", "OLLAMA_URL", "OLLAMA_MODEL")


@pytest.fixture(autouse=True)
def nobodys_settings(monkeypatch):
    for name in os.environ:
        if name.startswith("RAWTHINK_") or name in SEED:
            monkeypatch.delenv(name)
