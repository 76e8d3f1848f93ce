"""How a local store is, row by row, and how to mend it: what `rawthink doctor` shows and does."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rawthink_core.errors import RawThinkError, StoreTooNew
from rawthink_core.operations import Check, Health, Maintain, MaintainReceipt
from rawthink_local.adoption import FILE
from rawthink_local.journal import NAME, Journal

if TYPE_CHECKING:
    from pathlib import Path

    from rawthink_local.lexical import Lexical
    from rawthink_local.store import Store

_FIX = "rawthink doctor --fix"
_MANY = 5


def examine(folder: Path, store: Store | None, lexical: Lexical | None) -> Health:
    """Return the state of a store. Never raises; ``store`` is None where it could not be opened."""
    checks = [_folder(folder)]
    if store is not None:
        try:
            store.look()
            checks += [_journal(store), *_damage(store), *_foreign(store), _set_aside(folder), _rows(store)]
            if lexical is not None:
                checks.append(_search(lexical))
        except RawThinkError as error:
            checks.append(Check(name="journal", status="fail", detail=str(error)))
    elif folder.exists():
        checks.append(_unopened(folder))
    worst = {check.status for check in checks}
    status = "down" if store is None else "degraded" if worst & {"fail", "warn"} else "ok"
    return Health(status=status, location=str(folder), checks=tuple(c for c in checks if c.detail))


def _folder(folder: Path) -> Check:
    if not folder.exists():
        return Check(name="folder", status="fail", detail=f"{folder} does not exist", fix="rawthink init")
    if not folder.is_dir():
        return Check(
            name="folder",
            status="fail",
            detail=f"{folder} is a file, not a folder",
            fix="choose another vault",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        return Check(
            name="folder",
            status="warn",
            detail=f"{folder} can't be written: the memory can be read only",
            fix=f"chmod u+rwx '{folder}'",
        )
    return Check(name="folder", status="ok", detail=str(folder))


def _unopened(folder: Path) -> Check:
    try:
        Journal(folder).header()
    except StoreTooNew as error:
        return Check(name="journal", status="fail", detail=str(error), fix="pip install --upgrade rawthink")
    except RawThinkError as error:
        return Check(name="journal", status="fail", detail=str(error))
    return Check(name="journal", status="fail", detail="the store is not open")


def _journal(store: Store) -> Check:
    if not store.journal.exists():
        return Check(name="journal", status="ok", detail="nothing recorded yet; created by the first record")
    header = store.journal.header()
    size = store.index.end
    detail = f"{store.journal.path}, {size:,} bytes, zone {header.timezone}"
    if not header.store:
        return Check(
            name="journal", status="warn", detail=f"{detail}; its header is missing (dates are read in UTC)"
        )
    return Check(name="journal", status="ok", detail=detail)


def _damage(store: Store) -> list[Check]:
    damage = store.index.damage()
    checks = [
        Check(
            name="damaged line",
            status="fail",
            detail=f"{NAME} at byte {item.position}, {item.length} bytes: {item.why}",
            fix=_FIX,
        )
        for item in damage[:_MANY]
    ]
    if len(damage) > _MANY:
        more = f"{len(damage) - _MANY} more damaged lines"
        checks.append(Check(name="damaged line", status="fail", detail=more, fix=_FIX))
    if store.index.torn:
        checks.append(
            Check(
                name="torn tail",
                status="note",
                detail="a crash cut the last write off; the next sets it aside. No confirmed write is lost",
                fix=_FIX,
            )
        )
    return checks


def _foreign(store: Store) -> list[Check]:
    adoption = store.adoption
    if adoption is None or not adoption.path.exists():
        return []
    adoption.changed()
    graph, settled = adoption.graph, adoption.settled
    if graph is None or settled is None:
        return []
    what = (
        f"{len(graph.entities)} entities, {graph.observations} observations, {len(graph.relations)} relations"
    )
    checks: list[Check] = []
    if not settled.rows:
        checks.append(
            Check(
                name="foreign file",
                status="note",
                detail=f"{adoption.path} holds no memory graph; left alone",
            )
        )
    elif not store.adopted:
        detail = f"{adoption.path}: {what}; read in place, adopted by the first record, never written"
        checks.append(Check(name="foreign file", status="ok", detail=detail))
    elif store.adopted_digest() == graph.sha256:
        detail = f"{adoption.path}: {what}; adopted, never written"
        checks.append(Check(name="foreign file", status="ok", detail=detail))
    else:
        checks.append(
            Check(
                name="foreign file",
                status="warn",
                detail=f"{adoption.path} has changed since it was adopted: its own server still writes it",
                fix=f"rawthink import '{adoption.path}'",
            )
        )
    checks += _dialect(store, FILE)
    return checks


def _dialect(store: Store, name: str) -> list[Check]:
    adoption = store.adoption
    if adoption is None or adoption.graph is None or adoption.settled is None:
        return []
    graph, settled = adoption.graph, adoption.settled
    checks = [
        Check(
            name="foreign file",
            status="warn",
            detail=f"{name} line {problem.line} {problem.what}" if problem.line else f"{name} {problem.what}",
            fix="it is left alone; mend it there",
        )
        for problem in graph.problems[:_MANY]
    ]
    if len(graph.problems) > _MANY:
        more = f"{len(graph.problems) - _MANY} more places that can't be used"
        checks.append(Check(name="foreign file", status="warn", detail=more))
    counts = [
        (graph.merged, "entities merged with one of the same name"),
        (
            len(settled.stubs),
            f"entities that relations mention and nothing defines ({', '.join(settled.stubs[:3])}…)",
        ),
        (settled.retyped, "types read as the nearest of ours, the original kept"),
        (settled.undated, "items without a date, dated by the file"),
    ]
    checks += [
        Check(name="foreign file", status="note", detail=f"{number} {what}")
        for number, what in counts
        if number
    ]
    if graph.unused:
        keys = ", ".join(f"{key} ({count}×)" for key, count in graph.unused.most_common(_MANY))
        checks.append(Check(name="foreign file", status="note", detail=f"keys without a place here: {keys}"))
    return checks


def _set_aside(folder: Path) -> Check:
    kept = sorted(folder.glob(f"{NAME}.damaged-*"))
    if not kept:
        return Check(name="set aside", status="ok", detail="")
    names = ", ".join(path.name for path in kept[:_MANY])
    return Check(
        name="set aside",
        status="note",
        detail=f"damaged bytes kept in {names}",
        fix="look at them, then delete them",
    )


def _rows(store: Store) -> Check:
    place = store.index.file or "memory"
    return Check(name="row index", status="ok", detail=f"{store.index.born_count():,} items ({place})")


def _search(lexical: Lexical) -> Check:
    try:
        behind = lexical.catch_up()
    except RawThinkError as error:
        return Check(name="search", status="fail", detail=str(error), fix="pip install 'rawthink[local]'")
    if behind is not None:
        return Check(name="search", status="note", detail=f"{behind}; answers are incomplete until then")
    return Check(
        name="search", status="ok", detail=f"{lexical.size():,} points, up to date ({lexical.place()})"
    )


def maintain(store: Store, lexical: Lexical | None, request: Maintain) -> MaintainReceipt:
    """Repair or re-index a store and say what was done."""
    done: list[str] = []
    if request.repair:
        kept = store.repair()
        done += [f"set {what} aside in {path}" for what, path in kept]
    if request.reindex:
        store.index.rebuild()
        done.append("built the row index anew")
        if lexical is not None:
            lexical.reindex()
            done.append("deleted the search index; the next search builds it")
    return MaintainReceipt(done=tuple(done))
