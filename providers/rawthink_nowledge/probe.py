"""Finds out how a server behaves where its documents are silent.

A probe writes a few memories of its own, looks, and deletes them. It runs when somebody asks for it
(``rawthink conform nowledge``) and keeps the answers in the user's state folder, for that version of the
server. Only one is relied on: `FLOOR`, what the server's scores are worth. The others are for people.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import orjson

from rawthink_core.errors import BackendError, RawThinkError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rawthink_core.clock import IdSource
    from rawthink_nowledge.api import Api

FLOOR: Final = "score of another wording"
_STATES: Final = ("active", "all", "superseded", "archived")
_LOOKS: Final = 10  # for what was just written, in the server's search
_PAUSE: Final = 0.5
# A text, the same in other words, and a question about something else: none shares a word with another.
_WORDINGS: Final = (
    ("The heron nests in March.", "when do wading birds breed", "which invoice is overdue"),
    ("Our database runs out of disk space.", "storage full", "favourite piano sonata"),
    ("She is allergic to peanuts.", "food intolerance", "bicycle brake repair"),
)


def answers_of(state: Path | None, url: str, version: str) -> Mapping[str, str]:
    """Return what was found out about a version of a server; nothing where nobody has asked."""
    if state is None:
        return {}
    try:
        found: Any = orjson.loads(_file(state, url).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    known = found.get("answers") if isinstance(found, dict) and found.get("version") == version else None
    return {str(name): str(value) for name, value in known.items()} if isinstance(known, dict) else {}


def keep(state: Path | None, url: str, version: str, answers: Mapping[str, str]) -> None:
    """Keep answers, for this user alone."""
    if state is None:
        return
    file = _file(state, url)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file.touch(mode=0o600)
    file.write_bytes(orjson.dumps({"url": url, "version": version, "answers": dict(answers)}))


def floor_of(answers: Mapping[str, str]) -> float | None:
    """Return the score from which on the server means it, where that was found out."""
    try:
        return float(answers[FLOOR].split()[-1])
    except (KeyError, ValueError, IndexError):
        return None


def _file(state: Path, url: str) -> Path:
    return state / "nowledge" / f"{hashlib.blake2b(url.encode(), digest_size=8).hexdigest()}.json"


async def probe(api: Api, space: str, ids: IdSource) -> dict[str, str]:
    """Ask the open questions; return what was seen. Raises a BackendError, having cleaned up."""
    written: list[str] = []
    try:
        return await _probe(api, space, ids, written)
    finally:
        for memory in written:
            with suppress(RawThinkError):
                await api.delete(memory)


async def _probe(api: Api, space: str, ids: IdSource, written: list[str]) -> dict[str, str]:
    async def make(**fields: Any) -> dict[str, Any]:
        body = {
            "content": "a probe of RAWThink, deleted at once",
            "space_id": space,
            "source": "rawthink",
            **fields,
        }
        memory = await api.create(body)
        written.append(memory["id"])
        return memory

    found: dict[str, str] = {}
    wanted = ids.new()
    first = await make(id=wanted, importance=0.9, metadata={"xm_probe": "1", "xm_kept": "1"})
    found["ids of clients"] = "taken" if first["id"] == wanted else "ignored"
    if first["id"] == wanted:
        await make(id=wanted, metadata={"xm_probe": "2"})
        again = await _seen(api, wanted)
        metadata = again.get("metadata") or {}
        found["metadata of an upsert"] = "merged" if "xm_kept" in metadata else "replaced"
        found["fields that an upsert omits"] = "kept" if again.get("importance") == 0.9 else "reset"  # noqa: PLR2004 - as written
    await api.patch(first["id"], {"labels": ["rawthink-probe"]})
    labels = (await _seen(api, first["id"])).get("label_ids") or []
    found["labels in PATCH"] = (
        "taken" if any("rawthink-probe" in str(label) for label in labels) else "ignored"
    )
    second = await make(metadata={"xm_probe": "3"})
    try:
        answer = await api.supersede(first["id"], second["id"], "a probe", space)
    except BackendError as error:
        found["supersede"] = f"refused ({type(error).__name__})"
    else:
        keys = " ".join(sorted(answer)) if isinstance(answer, dict) else type(answer).__name__
        found["supersede"] = f"answered with {keys or 'an empty object'}"
        for state in _STATES:
            found[f"list of {state}"] = await _listed(api, space, state, first["id"])
    told = [(await make(content=text), text, same, other) for text, same, other in _WORDINGS]
    found[FLOOR] = await _floor(api, space, [(memory["id"], *texts) for memory, *texts in told])
    return found


async def _floor(api: Api, space: str, told: list[tuple[str, str, str, str]]) -> str:
    """Say what the server's search makes of other wordings and of other things, and what lies between."""
    for _ in range(_LOOKS):
        if all([await _score(api, space, memory, text) for memory, text, _, _ in told]):
            break
        await asyncio.sleep(_PAUSE)
    else:
        return "not found out, for what was just written is not searched yet"
    near = [await _score(api, space, memory, same) for memory, _, same, _ in told]
    far = [await _score(api, space, memory, other) for memory, _, _, other in told]
    if min(near) <= max(far):
        return f"not told apart from other things ({min(near):.2f}, {max(far):.2f})"
    between = (min(near) + max(far)) / 2
    return f"{min(near):.2f} or more, of other things {max(far):.2f} at most; so from {between:.2f}"


async def _score(api: Api, space: str, memory: str, question: str) -> float:
    hits = await api.search(question, space)
    return next((hit.score for hit in hits if hit.memory["id"] == memory), 0.0)


async def _seen(api: Api, memory: str) -> dict[str, Any]:
    return await api.get(memory) or {}


async def _listed(api: Api, space: str, state: str, superseded: str) -> str:
    """Say whether a list in some state shows what was superseded."""
    try:
        page = await api.page(space, 0, state=state)
    except BackendError as error:
        return f"refused ({type(error).__name__})"
    return (
        "shows superseded ones"
        if any(m["id"] == superseded for m in page.memories)
        else "hides superseded ones"
    )
