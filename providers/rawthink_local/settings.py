"""The settings of the local provider, and the plugin that its entry point names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr


def _address(url: str) -> str:
    parts = urlsplit(url)  # raises ValueError by itself for a bad host
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address like http://127.0.0.1:6333")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must be an address alone; a key belongs into QDRANT_API_KEY or api_key_file")
    if parts.port == 0:  # which also refuses a port that is no number
        raise ValueError("must have a port above 0")
    return url.rstrip("/")


class LocalSettings(BaseModel):
    """Where a local store lies and how it behaves."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    path: str | None = Field(
        default=None, title="Folder", description="Folder of the store; by default the vault itself"
    )
    memory_file: str | None = Field(
        default=None,
        title="Graph file",
        description="Another server's graph to read in place; by default memory.jsonl in the folder",
    )
    memory_space: str = Field(
        default="default",
        min_length=1,
        title="Space of it",
        description="The space in which its memories are",
    )
    lock_seconds: float = Field(
        default=20.0, gt=0, title="Lock", description="Seconds to wait for another process that writes"
    )
    url: Annotated[str, AfterValidator(_address)] | None = Field(
        default=None,
        title="Qdrant server",
        description="Qdrant server that holds the search index; by default each process has its own",
    )
    api_key: SecretStr | None = Field(
        default=None, title="Key", description="Key of that server; better in QDRANT_API_KEY or a file"
    )
    api_key_file: Path | None = Field(
        default=None, title="Key file", description="File that holds the key and nothing else"
    )
    timeout: int = Field(
        default=5, ge=1, title="Timeout", description="Seconds until that server must have answered"
    )
