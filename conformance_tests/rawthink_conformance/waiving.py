"""Waivers: which requirements a provider does not keep yet, each with a reason, in code or in a TOML file.

::

    text.long = "the service cuts at 100 kB; asked for more in #42"
    host.stdout = "its engine greets at start-up"
"""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from rawthink_conformance.requirements import REQUIREMENTS
from rawthink_core.errors import ConfigError, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def read_waivers(path: Path) -> dict[str, str]:
    """Return the waivers of a file, ids mapped to reasons. Raises ConfigError, which names file and entry."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"the waiver file {path} can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the waiver file {path} is no TOML: {error}") from error
    waivers: dict[str, Any] = dict(_flat(data))
    if wrong := [waived for waived, reason in waivers.items() if not isinstance(reason, str)]:
        raise ConfigError(f'{path}: {wrong[0]} must be a reason in quotes: {wrong[0]} = "why"')
    try:
        check_waivers(waivers)
    except InvalidRequest as error:
        raise ConfigError(f"{path}: {error}") from None
    return waivers


def check_waivers(waivers: Mapping[str, str]) -> None:
    """Raise InvalidRequest where a waiver names no requirement (saying the nearest) or gives no reason."""
    for waived, reason in waivers.items():
        if waived not in REQUIREMENTS:
            raise InvalidRequest(f"no requirement is called {waived!r}{_meant(waived)}")
        if not reason.strip():
            raise InvalidRequest(f"the waiver of {waived!r} needs a reason")


def _meant(waived: str) -> str:
    near = get_close_matches(waived.replace("_", "."), REQUIREMENTS, n=1, cutoff=0)
    return f"; did you mean {near[0]!r}?" if near else ""


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
