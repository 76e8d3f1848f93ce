"""The settings of the LanceDB provider: where its store lies, and what it may take."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

_SECRET: Final = re.compile(r"secret|token|password|access_key|account_key|sas|credential", re.IGNORECASE)


class LanceSettings(BaseModel):
    """Where a LanceDB store lies and how it behaves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uri: str | None = Field(
        default=None,
        min_length=1,
        title="Address",
        description="Folder, or s3://bucket/prefix; by default the folder `lancedb` in the vault",
    )
    options: dict[str, str] = Field(
        default_factory=dict,
        title="Storage options",
        description="Region, endpoint and the like; secrets go into the environment or a file",
    )
    options_file: str | None = Field(
        default=None,
        title="File of options",
        description="TOML file with more storage options, secrets among them; readable by you alone",
    )
    lock_seconds: float = Field(
        default=20.0, gt=0, title="Lock", description="Seconds to wait for others that write"
    )
    timeout_seconds: float = Field(
        default=30.0, gt=0, title="Time-out", description="Seconds that one call of the store may take"
    )
    keep_seconds: float = Field(
        default=30.0,
        ge=0,
        title="Old versions",
        description="Seconds for which replaced files stay, for others that still read them",
    )
    gather_every: int = Field(
        default=32, ge=2, title="Gathering", description="Writes after which small files become one"
    )
    exact_up_to: int = Field(
        default=20_000,
        ge=256,
        title="Exact up to",
        description="Items with vectors up to which each is compared; beyond, an index of vectors is built",
    )

    @field_validator("uri")
    @classmethod
    def _no_secret_in_address(cls, uri: str | None) -> str | None:
        if uri is not None and "://" in uri and "@" in urlsplit(uri).netloc:
            raise ValueError("must not hold a user or a password; put them into the environment or a file")
        return uri

    @field_validator("options")
    @classmethod
    def _no_secret_in_options(cls, options: dict[str, str]) -> dict[str, str]:
        if found := sorted(name for name in options if _SECRET.search(name)):
            raise ValueError(
                f"must not hold {', '.join(found)}: a secret goes into the environment "
                "(AWS_SECRET_ACCESS_KEY and the like) or into the file that options_file names"
            )
        return options
