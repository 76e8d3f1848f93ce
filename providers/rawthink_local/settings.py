"""The settings of the local provider, and the plugin that its entry point names."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class LocalSettings(BaseModel):
    """Where a local store lies and how it behaves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
