"""What people give on a command line, turned into what the memory takes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rawthink_core.memory import Memory
    from rawthink_core.model import Entity


def read_bytes(source: str) -> bytes:
    """Return the bytes of a file, or of stdin for ``-``. Raises UsageError where it can't be read."""
    if source == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(source).expanduser().read_bytes()
    except OSError as error:
        raise click.UsageError(f"{source} can't be read: {error.strerror}") from None


def read_text(word: str) -> str:
    """Return a word as it is, or for ``-`` what stdin holds, without its last line break."""
    if word != "-":
        return word
    try:
        return read_bytes("-").decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"stdin is not UTF-8 text (at byte {error.start})") from None


def read_json(source: str) -> Any:
    """Return the JSON value of a file, or of stdin for ``-``. Raises UsageError that names the line."""
    try:
        return json.loads(read_bytes(source).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{source} is not UTF-8 text (at byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise click.UsageError(f"{source} is not JSON: {error.msg} in line {error.lineno}") from None


def split_relation(text: str) -> dict[str, str]:
    """Return the type and target of ``TYPE: TARGET``. Only the first colon counts."""
    kind, colon, target = text.partition(":")
    if not colon or not kind.strip() or not target.strip():
        raise click.UsageError(
            f"--relation {text!r}: write it as 'TYPE: TARGET', as in 'depends_on: api/cache'"
        )
    return {"type": kind.strip(), "target": target.strip()}


def split_fields(pairs: Iterable[str]) -> dict[str, Any]:
    """Return the fields of ``NAME=VALUE`` pairs. ``aliases`` may stand more than once and become a list."""
    fields: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip().replace("-", "_")
        name = {"type": "entity_type", "alias": "aliases"}.get(name, name)
        if not equals:
            raise click.UsageError(f"--field {pair!r}: write it as NAME=VALUE, as in domain=music")
        if name == "aliases":
            fields.setdefault(name, [])
            fields[name] += [value] if value else []
        elif name in fields:
            raise click.UsageError(f"--field {name} stands twice")
        else:
            fields[name] = _switch(value) if name == "pinned" else value
    return fields


def _switch(value: str) -> Any:
    return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(
        value.lower(), value
    )


async def entity_with_id(memory: Memory, text: str) -> Entity | None:
    """Return the entity whose id was given, None where that is no id of an entity here: then it is a name."""
    from rawthink_core.identity import looks_like_id  # noqa: PLC0415 - with the rest of the core
    from rawthink_core.model import Entity  # noqa: PLC0415 - see above

    if not looks_like_id(text):
        return None
    found = await memory.get(text)
    return next((item for item in found.items if isinstance(item, Entity)), None)
