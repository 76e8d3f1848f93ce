"""What the tests of the LanceDB provider share: worlds, memories, stores, and what lies in their files."""

from __future__ import annotations

import uuid
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from rawthink_core.clock import ManualClock
from rawthink_core.commits import Commit
from rawthink_core.embedding import NoEmbedder
from rawthink_core.graph import Rules
from rawthink_core.memory import Memory
from rawthink_core.operations import Batch, parse
from rawthink_core.provider import World
from rawthink_core.vocabulary import DEFAULT_VOCABULARY
from rawthink_lancedb.parts import open_parts
from rawthink_lancedb.provider import LanceProvider
from rawthink_lancedb.settings import LanceSettings

SPACE = "home"
START = datetime(2026, 1, 1, tzinfo=UTC)
RULES = Rules(DEFAULT_VOCABULARY, ZoneInfo("UTC"))
EVERY = ("active", "ended", "invalidated")


def world_at(root, embedder=None, clock=None):
    """Return a world whose folders all lie below ``root``; the store's is ``root/vault/lancedb``."""
    return World(
        path=root / "vault",
        embedder=embedder or NoEmbedder(),
        clock=clock or ManualClock(START),
        timezone="UTC",
        cache=root / "cache",
        state=root / "state",
    )


def thing(name, **more):
    return {"name": name, "entity_type": "thing", "domain": "software", **more}


def batch(batch_id=None, space=SPACE, **parts):
    return parse(Batch, {"id": batch_id or str(uuid.uuid4()), "scope": {"space": space}, **parts})


def note(name, *texts, batch_id=None, space=SPACE):
    """Return a batch that says something of a thing."""
    said = [{"entity": name, "text": text} for text in texts]
    return batch(batch_id, space, entities=[thing(name)], observations=said)


def turns(*texts, space=SPACE, session="talk", batch_id=None, **more):
    """Return a batch of passages."""
    return batch(batch_id, space, passages=[{"session": session, "text": text, **more} for text in texts])


@contextmanager
def store_at(root, clock=None, **settings):
    """Open the store below ``root`` without a provider: everything happens in the caller's thread."""
    parts = open_parts(LanceSettings(**settings), world_at(root, clock=clock))
    try:
        yield parts.store
    finally:
        parts.close()


@asynccontextmanager
async def memory_at(root, embedder=None, space=SPACE, settings=None, clock=None, **more):
    """Open the store below ``root`` as an application does."""
    provider = LanceProvider(settings or LanceSettings(**more), world_at(root, embedder, clock))
    memory = Memory(provider, space=space)
    await memory.provider.open()
    try:
        yield memory
    finally:
        await memory.close()


async def say(memory, name, *texts):
    """Say something of a thing; return the ids of what was said."""
    receipt = await memory.record(
        entities=[thing(name)], observations=[{"entity": name, "text": text} for text in texts]
    )
    return receipt.ids("observation")


async def tell(memory, *texts, session="talk", **more):
    """Record turns of a session; return their ids."""
    passages = [{"session": session, "text": text, **more} for text in texts]
    return (await memory.record(passages=passages)).ids("passage")


async def finds(memory, question, **filters):
    """Return the texts that a question finds."""
    return [hit.text for hit in (await memory.search(question, **filters)).items]


def texts_in(store, space=SPACE):
    """Return the texts of all rows, in the order of time."""
    return [row["text"] for commit in store.commits(space) for row in commit.rows if "text" in row]


def commit(number, *rows, space=SPACE):
    """Return a commit of a passage or of given rows."""
    at = f"2026-01-01T00:00:{number % 60:02d}.{number // 60:06d}Z"
    made = rows or (
        {
            "op": "passage",
            "id": str(uuid.UUID(int=number)),
            "session": "s",
            "ordinal": number,
            "key": f"k{number}",
            "text": f"turn {number}",
        },
    )
    return Commit(f"c{number}", at, space, tuple(made), None, "0" * 32)


def files_with(folder, *words):
    """Return the files that hold any of some words."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    holds = [path for path in files if any(word.encode() in path.read_bytes() for word in words)]
    return [str(path.relative_to(folder)) for path in holds]
