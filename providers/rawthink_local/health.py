"""How a local store is, row by row, and how to mend it: what `rawthink doctor` shows and does."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

from rawthink_core.commits import Commit
from rawthink_core.errors import RawThinkError, StoreTooNew
from rawthink_core.operations import Check, Health
from rawthink_local.coverage import search, vectors
from rawthink_local.journal import ATTRIBUTES, NAME, Journal
from rawthink_local.lines import Moved, read_line
from rawthink_local.merging import merged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rawthink_core.foreign import ForeignGraph, Settled
    from rawthink_local.parts import Parts
    from rawthink_local.store import Store

_FIX = "rawthink doctor --fix"
_UPGRADE = "pip install --upgrade rawthink"
_AGAIN = "mend what it says, then look again"
_MANY = 5


def examine(
    folder: Path,
    parts: Parts | None,
    foreign: Path,
    embedder: Check | None = None,
    waiting: Callable[[], int] | None = None,
) -> Health:
    """Return the state of a store, creating nothing. Never raises; ``parts`` is None where it is not open.

    ``foreign`` is the graph file of another server that would be read in place; ``embedder`` what a probe of
    it has shown; ``waiting`` counts what has no vectors yet.
    """
    store = parts.store if parts is not None else None
    if store is None and (missing := _no_store(folder, foreign)) is not None:
        return Health(status="down", location=str(folder), checks=(missing,), exists=False)
    checks = [_folder(folder)]
    if store is not None:
        try:
            store.index.check()
            store.look()
            checks += [_journal(store), *_passages(store), *_damage(store), *merged(store), *_foreign(store)]
            checks += [_set_aside(store), _attributes(store), _rows(store)]
            if parts is not None:
                checks += [search(parts.search), *vectors(parts.search), *parts.search.checks()]
        except StoreTooNew as error:
            checks.append(Check(name="journal", status="fail", detail=str(error), fix=_UPGRADE))
        except (RawThinkError, Moved, sqlite3.Error, OSError) as error:
            checks.append(Check(name="journal", status="fail", detail=str(error), fix=_AGAIN))
            store = None
        if embedder is not None:
            checks.append(embedder)
    elif folder.is_dir():
        checks.append(_unopened(folder))
    worst = {check.status for check in checks}
    status = "down" if store is None else "degraded" if worst & {"fail", "warn"} else "ok"
    return Health(
        status=status,
        location=str(folder),
        checks=tuple(c for c in checks if c.detail),
        pending_embeddings=waiting() if waiting is not None and parts is not None else 0,
    )


def _no_store(folder: Path, foreign: Path) -> Check | None:
    """Return a row that says that there is nothing to open yet, or None where there may be something."""
    try:
        if foreign.exists() or Journal(folder).exists() or (folder.exists() and not folder.is_dir()):
            return None
    except (RawThinkError, OSError):
        return None
    detail = f"there is no store in {folder} yet: no {NAME}, and no graph file to read in place ({foreign})"
    return Check(name="store", status="fail", detail=detail, fix="rawthink init")


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
        return Check(name="journal", status="fail", detail=str(error), fix=_UPGRADE)
    except RawThinkError as error:
        return Check(name="journal", status="fail", detail=str(error), fix=_AGAIN)
    return Check(name="journal", status="fail", detail="the store is not open", fix="open it first")


def _journal(store: Store) -> Check:
    if not store.journal.exists():
        return Check(name="journal", status="ok", detail="nothing recorded yet; created by the first record")
    header = store.journal.header()
    size = store.index.end
    detail = f"{store.journal.path}, {size:,} bytes, zone {header.timezone}"
    if not header.store:
        detail += "; its header is missing (dates are read in UTC)"
        return Check(name="journal", status="warn", detail=detail, fix=_FIX)
    return Check(name="journal", status="ok", detail=detail)


def _passages(store: Store) -> list[Check]:
    """Say how large the log of files is, where there is one."""
    filed = store.index.filed
    if filed is None or not filed.end:
        return []
    commits = sum(isinstance(read_line(line), Commit) for line in filed.lines())
    detail = f"{store.passages.path}, {filed.end:,} bytes, {commits:,} commits of files"
    return [Check(name="file passages", status="ok", detail=detail)]


def _damage(store: Store) -> list[Check]:
    checks: list[Check] = []
    for part in store.index.parts:
        name, damage = part.journal.path.name, part.damage()
        told = [f"{name} at byte {item.position}, {item.length} bytes: {item.why}" for item in damage[:_MANY]]
        if len(damage) > _MANY:
            told.append(f"{len(damage) - _MANY} more damaged lines in {name}")
        checks += [Check(name="damaged line", status="fail", detail=detail, fix=_FIX) for detail in told]
        if part.torn:
            what = f"a crash cut the last write to {name} off; the next sets it aside"
            detail = f"{what}. No confirmed write is lost"
            checks.append(Check(name="torn tail", status="note", detail=detail, fix=_FIX))
    return checks


def _foreign(store: Store) -> list[Check]:
    adoption = store.adoption
    if adoption is None or not adoption.path.exists():
        return []
    if not adoption.path.is_file():
        return [
            Check(
                name="foreign file",
                status="note",
                detail=f"{adoption.path} is no file; left alone",
            )
        ]
    adoption.read()
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
    elif (adopted := store.adopted()) is None:
        detail = f"{adoption.path}: {what}; read in place, adopted by the first record, never written"
        checks.append(Check(name="foreign file", status="ok", detail=detail))
    elif adopted.request == graph.sha256:
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
    return checks + _dialect(adoption.path.name, graph, settled)


def _dialect(name: str, graph: ForeignGraph, settled: Settled) -> list[Check]:
    """Count what a foreign file has of its own, and name what can't be used."""
    checks = [
        Check(
            name="foreign file",
            status="warn" if settled.rows else "note",
            detail=f"{name} line {problem.line} {problem.what}" if problem.line else f"{name} {problem.what}",
            fix="it is left alone; mend it there",
        )
        for problem in graph.problems[:_MANY]
    ]
    if len(graph.problems) > _MANY:
        more = f"{len(graph.problems) - _MANY} more places that can't be used"
        checks.append(Check(name="foreign file", status="warn", detail=more, fix="mend them there"))
    counts = [
        (graph.merged, "entities merged with one of the same name"),
        (
            len(settled.stubs),
            f"entities that relations mention and nothing defines ({_some(settled.stubs)})",
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


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + ("…" if len(names) > 3 else "")  # noqa: PLR2004 - what a row has room for


def _attributes(store: Store) -> Check:
    """Say where git would not merge the journal line by line."""
    path = store.journal.folder / ".gitattributes"
    try:
        known = not store.journal.exists() or f"{NAME} " in path.read_text("utf-8", "replace")
    except OSError:
        known = False
    if known:
        return Check(name="git merge", status="ok", detail="")
    detail = f"{path} does not say how git merges the journal; two clones would conflict"
    return Check(name="git merge", status="note", detail=detail, fix=f"add the line: {ATTRIBUTES.strip()}")


def _set_aside(store: Store) -> Check:
    kept = [*store.journal.aside(), *store.passages.aside()]
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
    place = store.index.main.file or "memory"
    return Check(name="row index", status="ok", detail=f"{store.index.born_count():,} items ({place})")
