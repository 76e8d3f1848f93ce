"""How a LanceDB store is, row by row, and how to mend it: what `rawthink doctor` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rawthink_core.errors import AuthenticationFailed, ConfigError, RawThinkError, StoreTooNew
from rawthink_core.operations import Check, Health
from rawthink_lancedb.catalogue import Catalogue
from rawthink_lancedb.parts import address_of, engine_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rawthink_core.provider import World
    from rawthink_lancedb.parts import Parts
    from rawthink_lancedb.settings import LanceSettings
    from rawthink_lancedb.store import Space, Store

_UPGRADE: Final = "pip install --upgrade rawthink"
_AGAIN: Final = "mend what it says, then look again"
_MANY: Final = 20  # spaces that get a row


def examine(
    settings: LanceSettings,
    world: World,
    parts: Parts | None,
    embedder: Check | None,
    waiting: Callable[[], int] | None,
) -> Health:
    """Return the state of a store, creating nothing. Never raises; ``parts`` is None where it is not open.

    ``embedder`` is what a probe of it has shown; ``waiting`` counts what has no vectors yet.
    """
    location = address_of(settings, world)
    if parts is None:
        return _unopened(settings, world, location)
    try:
        checks = _opened(parts)
        pending = waiting() if waiting is not None else 0
    except RawThinkError as error:
        checks, pending = [_failed(error)], 0
    if embedder is not None:
        checks.append(embedder)
    worst = {check.status for check in checks}
    status = "down" if "fail" in worst else "degraded" if "warn" in worst else "ok"
    return Health(status=status, location=location, checks=tuple(checks), pending_embeddings=pending)


def _unopened(settings: LanceSettings, world: World, location: str) -> Health:
    exists = True
    try:
        engine = engine_of(settings, world)
        check = _behind_file(location) if engine.folder is not None and _in_the_way(engine.folder) else None
        if check is None and engine.folder is not None and not engine.folder.is_dir():
            exists, check = False, _none(location)
        if check is None:
            engine.open()
            try:
                catalogue = Catalogue(engine)
                exists = catalogue.exists()
                if exists:
                    catalogue.header()
            finally:
                engine.close()
            check = _closed() if exists else _none(location)
    except RawThinkError as error:
        check = _failed(error)
    return Health(status="down", location=location, checks=(check,), exists=exists)


def _in_the_way(folder: Path) -> bool:
    return any(place.is_file() for place in (folder, *folder.parents))


def _behind_file(location: str) -> Check:
    detail = f"{location} can't be a store: a file lies where a folder belongs"
    return Check(name="store", status="fail", detail=detail, fix="choose another uri, or move the file away")


def _none(location: str) -> Check:
    return Check(
        name="store", status="fail", detail=f"there is no store in {location} yet", fix="rawthink init"
    )


def _closed() -> Check:
    return Check(name="store", status="fail", detail="the store is not open", fix="open it first")


def _failed(error: Exception) -> Check:
    fix = _AGAIN
    if isinstance(error, StoreTooNew):
        fix = _UPGRADE
    elif isinstance(error, AuthenticationFailed):
        fix = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or options_file"
    elif isinstance(error, ConfigError):
        fix = "correct the setting"
    return Check(name="store", status="fail", detail=str(error), fix=fix)


def _opened(parts: Parts) -> list[Check]:
    store = parts.store
    header = store.catalogue.header()
    spaces = store.spaces()
    detail = f"{store.engine.uri}, {len(spaces)} space(s), zone {header.timezone}"
    checks = [Check(name="store", status="ok", detail=detail)]
    if store.versioned is not None:
        detail = f"{store.versioned}: what is forgotten stays in them"
        fix = "a lifecycle rule of the bucket deletes old versions"
        checks.append(Check(name="bucket", status="note", detail=detail, fix=fix))
    for space in spaces[:_MANY]:
        checks += _space(store, space)
    if len(spaces) > _MANY:
        checks.append(Check(name="space", status="note", detail=f"{len(spaces) - _MANY} more are not listed"))
    return checks


def _space(store: Store, space: Space) -> list[Check]:
    log, index = space.log, space.index
    log.look()
    ledger = log.ledger
    detail = f"{log.space}: {ledger.commits:,} commits, {ledger.items:,} items ({log.table.name})"
    checks = [Check(name="space", status="ok", detail=detail)]
    if ledger.erasures and (left := log.count_of(log.erased())):
        detail = f"{log.space}: {left} row(s) of forgotten items are still in the files; no verb yields them"
        checks.append(Check(name="forgotten text", status="warn", detail=detail, fix="rawthink doctor --fix"))
    if (behind := index.look()) is not None:
        checks.append(
            Check(name="search index", status="note", detail=f"{log.space}: {behind}; a search builds it")
        )
    if index.trouble is not None:
        fix = "rawthink reindex, if it comes again"
        checks.append(Check(name="upkeep", status="warn", detail=f"{log.space}: {index.trouble}", fix=fix))
    if store.kept is not None and index.table.found() and (waiting := index.waiting_count()):
        detail = f"{log.space}: {waiting:,} item(s) wait for their vectors; they are found by words meanwhile"
        checks.append(Check(name="vectors", status="note", detail=detail))
    return checks
