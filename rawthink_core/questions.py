"""The questions that rows answer, as 64-bit keys: what a provider's index of rows goes by.

A key is a hash: it leads to candidates, and whoever asks looks at each row that comes back. Nothing that
could be read as text is in a key.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from rawthink_core.text import identity_key, same_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rawthink_core.rows import Row


def key(kind: str, space: str, *parts: object) -> int:
    """Return the key of a question within one space."""
    data = "\x1f".join((kind, space, *map(str, parts))).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big", signed=True)


def questions(space: str, row: Row) -> Iterator[int]:
    """Yield the keys of the questions that a row is part of the answer to."""
    op = row["op"]
    if op == "same":
        return
    yield key("id", space, row["id"])
    match op:
        case "observation":
            yield key("about", space, row["entity"])
            yield key("said", space, row["entity"], same_text(row["text"]))
            if row["kind"] in ("decided", "because"):
                yield key("decision", space, row["entity"])
        case "relation":
            yield key("link", space, row["source"], row["type"], row["target"])
            yield key("touch", space, row["source"])
            yield key("touch", space, row["target"])
        case "passage":
            yield key("slot", space, row["session"], row["key"])
            yield key("place", space, row["session"], row["ordinal"])
            yield key("session", space, row["session"])
            if origin := row.get("origin"):
                yield key("origin", space, origin["path"])
        case "entity":
            for name in (row["name"], *row.get("aliases", ())):
                yield key("name", space, identity_key(name))
        case "field" if row["field"] == "name":
            yield key("name", space, identity_key(row["value"]))
        case "field" if row["field"] == "aliases":
            for name in row["value"]:
                yield key("name", space, identity_key(name))
