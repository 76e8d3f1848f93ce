"""Ids: where they come from, so that the same content has the same id on every provider.

Ids are version 5 UUIDs over a canonical JSON array; the arrays of the four nouns differ in length, so
no two nouns can share one. ``n`` counts how often the same content was recorded anew after it had been
retired: the lowest number never used in the store, forgotten ones included.
"""

from __future__ import annotations

import hashlib
import uuid

import orjson

from rawthink_core.text import identity_key, same_text

NAMESPACE = uuid.UUID("6f0b7c1e-5d7a-5b0e-9f39-2d1b8a4c7e55")
_SUCCESSOR = uuid.UUID("a3c1f7de-0c5e-5f44-8a7b-91b6f2d0c3aa")


def _uuid5(namespace: uuid.UUID, name: bytes) -> str:
    # `uuid.uuid5` written out (RFC 9562, section 5.5): a third of the time, and a batch mints thousands. They
    # are not cached, because a cache would keep texts that `forget` has to erase.
    digits = hashlib.sha1(namespace.bytes + name, usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def _mint(*parts: str | int | None) -> str:
    return _uuid5(NAMESPACE, orjson.dumps(parts))


def entity_id(space: str, name: str) -> str:
    """Return the id of the entity that is first called ``name`` in ``space``."""
    return _mint(space, identity_key(name))


def observation_id(space: str, entity: str, kind: str, text: str, valid_from: str | None, n: int) -> str:
    """Return the id of an observation (``entity`` is an id; ``valid_from`` is ISO 8601 in UTC)."""
    return _mint(space, entity, kind, same_text(text), valid_from, n)


def relation_id(space: str, source: str, kind: str, target: str, n: int) -> str:
    """Return the id of a relation between two entity ids."""
    return _mint(space, source, target, kind, n)


def passage_id(space: str, session: str, key: str, n: int) -> str:
    """Return the id of the ``n``-th text under ``key`` in ``session``."""
    return _mint(space, session, key, n)


def successor_id(target: str) -> str:
    """Return the id of what replaces ``target``: of two racing revisions, both claim the same id."""
    return _uuid5(_SUCCESSOR, target.encode())


def derived_batch_id(*parts: str) -> str:
    """Return a batch id that is the same each time for the same parts (an import that is run again)."""
    return _uuid5(NAMESPACE, orjson.dumps(("batch", parts)))


def canonical_id(text: str) -> str:
    """Return an id as stores keep it: what has the form of a UUID in lower case, all else as it stands."""
    return text.lower() if looks_like_id(text) else text


def looks_like_id(text: str) -> bool:
    """Tell whether ``text`` has the form of an id (36 characters, hexadecimal with hyphens)."""
    if len(text) != 36:  # noqa: PLR2004 - the length of a UUID's text
        return False
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
