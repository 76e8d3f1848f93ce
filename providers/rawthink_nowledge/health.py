"""How a Nowledge Mem server is, and the store on it. Asks only; works on a server that does not answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rawthink_core.embedders.connection import is_loopback
from rawthink_core.errors import AuthenticationFailed, RawThinkError
from rawthink_core.operations import Check, Health
from rawthink_nowledge.probe import answers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rawthink_core.provider import World
    from rawthink_nowledge.api import Api
    from rawthink_nowledge.provider import NowledgeProvider
    from rawthink_nowledge.room import Room
    from rawthink_nowledge.settings import NowledgeSettings

_RUST = (0, 10)
_MEND = "rawthink doctor --fix"


def numbers(version: Any) -> tuple[int, ...]:
    """Return a version as numbers, empty where it is none."""
    parts = str(version or "").lstrip("v").split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()


async def examine(
    provider: NowledgeProvider,
    api: Api,
    rooms: Mapping[str, Room],
    settings: NowledgeSettings,
    world: World,
) -> Health:
    """Return how all of it is."""
    try:
        api.client.open()
        said = await api.health()
    except RawThinkError as error:
        return _down(provider, "server", error, "start Nowledge Mem, or set NMEM_API_URL to where it listens")
    checks = list(_server(said))
    try:
        known = await api.spaces()
        page = await api.page(provider.spaces["default"], 0, 1)
    except AuthenticationFailed as error:
        return _down(provider, "key", error, "set NMEM_API_KEY to a key of this server", checks)
    except RawThinkError as error:
        return _down(
            provider,
            "store",
            error,
            "look at the server's own log; check [providers.nowledge.spaces]",
            checks,
        )
    total = f"{page.total} memories" if page.total is not None else "memories"
    checks.append(
        Check(name="store", status="ok", detail=f"store {settings.store} beside {total} of its Space")
    )
    checks += _key_in_the_clear(provider, await asyncio.to_thread(provider.place.key.read))
    checks += _spaces(provider, known, settings)
    for room in rooms.values():
        checks += await asyncio.to_thread(list, _room(room))
    if found := await asyncio.to_thread(
        answers_of, world.state, provider.place.url, str(said.get("version"))
    ):
        told = "; ".join(f"{name}: {value}" for name, value in found.items())
        checks.append(Check(name="behaviour", status="note", detail=f"as probed: {told}"))
    degraded = any(check.status in ("warn", "fail") for check in checks)
    status = "degraded" if degraded else "ok"
    return Health(status=status, location=provider.info.location, checks=tuple(checks))


def _down(
    provider: NowledgeProvider, name: str, error: RawThinkError, fix: str, before: Sequence[Check] = ()
) -> Health:
    row = Check(name=name, status="fail", detail=str(error), fix=fix)
    return Health(status="down", location=provider.info.location, checks=(*before, row))


def _server(said: Mapping[str, Any]) -> Iterator[Check]:
    version, status = said.get("version"), said.get("status")
    detail = f"Nowledge Mem {version}, {status}"
    if status in ("ok", "healthy", None):
        yield Check(name="server", status="ok", detail=detail)
    else:
        yield Check(name="server", status="note", detail=f"{detail}; it may still be starting")
    if (found := numbers(version)) and found < _RUST:
        yield Check(
            name="generation", status="note", detail="an older server: superseding may be unknown to it"
        )
    embedding = said.get("embedding")
    if isinstance(embedding, dict) and (embedding.get("degraded") or embedding.get("reindex_needed")):
        detail = "the server's own search knows words only, or lags; ours does not depend on it"
        yield Check(name="server search", status="note", detail=detail)


def _key_in_the_clear(provider: NowledgeProvider, key: str | None) -> list[Check]:
    parts = urlsplit(provider.place.url)
    if not key or parts.scheme == "https" or is_loopback(parts.hostname or ""):
        return []
    detail = f"the key travels unencrypted to {parts.hostname}"
    return [Check(name="key", status="note", detail=detail, fix="use https, where the server offers it")]


def _spaces(
    provider: NowledgeProvider, known: list[dict[str, Any]] | None, settings: NowledgeSettings
) -> Iterator[Check]:
    if known is None:
        return
    there = {str(space.get(name)) for space in known for name in ("id", "key")} | {"default"}
    wanted = {*provider.spaces.values(), *([settings.other_spaces] if settings.other_spaces else [])}
    for space in sorted(wanted - there):
        yield Check(
            name="spaces",
            status="warn",
            detail=f"the server has no Space {space!r}",
            fix="create it in Nowledge Mem, or mend [providers.nowledge.spaces]",
        )


def _room(room: Room) -> Iterator[Check]:
    """Yield what is to be said of one Space, as far as it was read already."""
    space, life = room.follower.space, room.lifecycle
    if unreadable := room.mirror.unreadable:
        why = next(iter(unreadable.values()))
        detail = f"{len(unreadable)} memories of Space {space} can't be read: {why}"
        yield Check(name="unreadable", status="warn", detail=detail, fix="look at them in Nowledge Mem")
    if changed := sum(entry.changed for entry in room.mirror.entries()):
        detail = f"{changed} memories of Space {space} were edited on the server; what was recorded counts"
        yield Check(
            name="edited", status="note", detail=detail, fix="say what changed with `rawthink revise`"
        )
    if life.waiting:
        detail = f"{len(life.waiting)} retired memories of Space {space} look current in Nowledge Mem itself"
        yield Check(name="retired", status="warn", detail=detail, fix=_MEND)
    if life.refused:
        detail = (
            f"{len(life.refused)} retired memories look current there: {next(iter(life.refused.values()))}"
        )
        yield Check(name="retired", status="note", detail=detail)
    if not life.supported:
        yield Check(name="retired", status="note", detail="this server can't mark memories as superseded")
