"""The settings of the Nowledge provider, and where each comes from: ours, the environment, the vendor's file.

Address, key and Space are looked for one by one in `[providers.nowledge]`, then in the variables of Nowledge
Mem's own programs (``NMEM_API_URL``, ``NMEM_API_KEY``, ``NMEM_SPACE_ID`` or ``NMEM_SPACE``), then in its
``~/.nowledge-mem/config.json``. With none of it the server of this machine is meant, without a key.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from rawthink_core.embedders.endpoint import Key
from rawthink_core.errors import AuthenticationFailed, ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_URL: Final = "http://127.0.0.1:14242"
DEFAULT_SPACE: Final = "default"
GUESSED_FLOOR: Final = 0.65  # nobody has measured what scores a server gives to what is not meant


def _address(url: str) -> str:
    parts = urlsplit(url)  # raises ValueError by itself for a bad host
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"must be an address like {DEFAULT_URL}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must be an address alone; a key belongs into NMEM_API_KEY or api_key_file")
    if parts.port == 0:  # which also refuses a port that is no number
        raise ValueError("must have a port above 0")
    return url.rstrip("/")


def _space_ids(spaces: dict[str, str]) -> dict[str, str]:
    if blank := [name for name, space in spaces.items() if not space.strip()]:
        raise ValueError(f"the Space of {blank[0]!r} must not be blank")
    return spaces


class NowledgeSettings(BaseModel):
    """Which server, with which key, and which of its Spaces."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Annotated[str, AfterValidator(_address)] | None = Field(
        default=None, title="Address", description="Address of the server; by default NMEM_API_URL"
    )
    api_key: SecretStr | None = Field(
        default=None, title="Key", description="Key of the server; better in NMEM_API_KEY or a file"
    )
    api_key_file: Path | None = Field(
        default=None, title="Key file", description="File that holds the key and nothing else"
    )
    spaces: Annotated[dict[str, str], AfterValidator(_space_ids)] = Field(
        default={}, title="Spaces", description="Which Space of the server each of our spaces lies in"
    )
    other_spaces: str | None = Field(
        default=None,
        min_length=1,
        title="Other spaces",
        description="Space for those that `spaces` does not name; by default they are refused",
    )
    store: str = Field(
        default="main",
        min_length=1,
        max_length=100,
        title="Store",
        description="Tells several memories of RAWThink on one server apart",
    )
    server_search: bool = Field(
        default=True,
        title="Search by meaning",
        description="Ask the server's own search too, which knows what words mean",
    )
    min_score: float | None = Field(
        default=None,
        ge=0,
        le=1,
        title="Floor",
        description="Score of the server from which on a hit counts that shares no word; by default what "
        f"`rawthink conform nowledge` found out, else {GUESSED_FLOOR}, a guess",
    )
    threads: bool = Field(
        default=False, title="Threads", description="Also add each chat turn to a thread of its session"
    )
    connections: int = Field(
        default=4, ge=1, le=16, title="Connections", description="Requests that run at the same time"
    )
    connect_seconds: float = Field(
        default=1.0, gt=0, title="Connecting", description="Seconds until it must accept a connection"
    )
    read_seconds: float = Field(
        default=10.0, gt=0, title="Reading", description="Seconds until it must have answered a question"
    )
    write_seconds: float = Field(
        default=30.0, gt=0, title="Writing", description="Seconds until it must have confirmed a write"
    )


@dataclass(frozen=True, slots=True)
class Where:
    """The server that is meant: its address, its key (in no repr), and the Space of our ``default``."""

    url: str
    key: _Key
    space: str
    file: Path


@dataclass(frozen=True, slots=True)
class _Key:
    """A key where it was found. Printing it shows nothing."""

    given: SecretStr | None = None
    place: Key = field(default_factory=Key)

    def read(self) -> str | None:
        """Return the key, None where there is none. Raises AuthenticationFailed, without it."""
        if self.given is None:
            return self.place.read()
        key = self.given.get_secret_value().strip()
        if key and not (key.isascii() and key.isprintable()):
            raise AuthenticationFailed("the key of Nowledge Mem holds characters that no key has")
        return key or None


def where(settings: NowledgeSettings, environ: Mapping[str, str] | None = None) -> Where:
    """Return the server that is meant. Raises ConfigError, which names the place but never the key."""
    environ = os.environ if environ is None else environ
    folder = environ.get("NMEM_CLI_CONFIG_DIR") or "~/.nowledge-mem"
    file = Path(folder).expanduser() / "config.json"
    theirs = _read(file)
    space = environ.get("NMEM_SPACE_ID") or environ.get("NMEM_SPACE") or theirs.get("space") or DEFAULT_SPACE
    return Where(_url(settings, environ, theirs, file), _key(settings, environ, theirs), space.strip(), file)


def _url(
    settings: NowledgeSettings, environ: Mapping[str, str], theirs: Mapping[str, str], file: Path
) -> str:
    if settings.url is not None:
        return settings.url
    for place, url in (("NMEM_API_URL", environ.get("NMEM_API_URL")), (f"{file}: apiUrl", theirs.get("url"))):
        if url and url.strip():
            try:
                return _address(url.strip())
            except ValueError as error:
                raise ConfigError(f"{place} {error}") from None
    return DEFAULT_URL


def _key(settings: NowledgeSettings, environ: Mapping[str, str], theirs: Mapping[str, str]) -> _Key:
    if settings.api_key_file is not None:
        return _Key(place=Key(file=settings.api_key_file))
    if settings.api_key is not None:
        return _Key(settings.api_key)
    if "NMEM_API_KEY" in environ:  # present but empty: explicitly no key
        return _Key(SecretStr(environ["NMEM_API_KEY"]))
    return _Key(SecretStr(theirs["key"])) if theirs.get("key") else _Key()


_NAMES = {"url": ("apiUrl", "api_url"), "key": ("apiKey", "api_key"), "space": ("space", "spaceId")}


def _read(file: Path) -> dict[str, str]:
    """Return what the vendor's file says of address, key and Space; nothing where it is not there."""
    try:
        body: Any = orjson.loads(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{file} can't be read: {error.strerror}") from None
    except orjson.JSONDecodeError:
        raise ConfigError(f"{file} is no JSON; Nowledge Mem's own programs write it") from None
    if not isinstance(body, dict):
        raise ConfigError(f"{file} holds no object; Nowledge Mem's own programs write it")
    found: dict[str, str] = {}
    for name, keys in _NAMES.items():
        value = next((body[key] for key in keys if body.get(key)), None)
        if isinstance(value, str):
            found[name] = value
        elif value is not None:
            raise ConfigError(f"{file}: {keys[0]} must be a text")
    return found
