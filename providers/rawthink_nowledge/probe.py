"""Finds out how a server behaves where its documents are silent. Nothing else depends on the answers.

A probe writes a few memories of its own, looks, and deletes them. It runs when somebody asks for it
(``rawthink conform nowledge``), once a server version, and keeps the answers in the user's state folder.
"""

from __future__ import annotations

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

_STATES: Final = ("active", "all", "superseded", "archived")


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
        found["upsert, metadata"] = "merged" if "xm_kept" in metadata else "replaced"
        found["upsert, omitted fields"] = "kept" if again.get("importance") == 0.9 else "reset"  # noqa: PLR2004 - as written
    await api.patch(first["id"], {"labels": ["rawthink-probe"]})
    labels = (await _seen(api, first["id"])).get("label_ids") or []
    found["PATCH, labels"] = "taken" if any("rawthink-probe" in str(label) for label in labels) else "ignored"
    second = await make(metadata={"xm_probe": "3"})
    try:
        await api.supersede(first["id"], second["id"], "a probe", space)
    except BackendError as error:
        found["supersede"] = f"refused ({type(error).__name__})"
    else:
        for state in _STATES:
            found[f"list, state={state}"] = await _listed(api, space, state, first["id"])
    return found


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
