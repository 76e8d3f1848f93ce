"""Forgetting: out of the files of a store, and what becomes of the text wherever else it may be."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import orjson

from rawthink_core.commits import Commit, encode, forgetting
from rawthink_core.errors import BackendError
from rawthink_core.operations import Place
from rawthink_core.reading import meant
from rawthink_core.searching import text_of
from rawthink_local import files as file_system
from rawthink_local.files import explained
from rawthink_local.lines import read_line
from rawthink_local.returned import brought_back, goes
from rawthink_local.vectors import forget_vectors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rawthink_core.operations import Forget
    from rawthink_core.rows import State
    from rawthink_local.adoption import Adoption
    from rawthink_local.lookup import RowIndex
    from rawthink_local.parts import Parts
    from rawthink_local.returned import Order
    from rawthink_local.searchindex import SearchIndex
    from rawthink_local.store import Store

    Gone: TypeAlias = Mapping[
        str, Mapping[str, Order | None]
    ]  # space, item, the commit from which on it stays

_CHUNK = 12  # bytes of a text that betray it in a damaged line

# --- the journal and the log of files -----------------------------------------------------------


class Erased(NamedTuple):
    """What was erased, what was not found, and whether something was erased from the log of files."""

    states: list[State]
    missing: list[str]
    filed: bool = False


def forget(store: Store, request: Forget) -> Erased:
    """Erase items from the journal and the log of files. Raises StoreDamaged where lines of either are.

    The log of files comes first: what a kill leaves in the journal alone is there for the next attempt.
    """
    space = request.scope.space
    with store.writing():
        store.index.refuse_damage()
        if (pending := store.look()) is not None:
            store.append(pending, ())
        chosen, missing = store.read(space, lambda view: meant(view, request, lambda: _items(store, space)))
        if not chosen:
            return Erased([], missing)
        mark = forgetting(store.world.ids.new(), store.next_instant(), space, chosen)
        gone: Gone = {space: dict.fromkeys(chosen)}
        filed = store.index.filed
        if filed is not None and store.read(space, lambda view: view.in_files(chosen.keys())):
            rewrite(filed, lines_without(filed, gone))
        else:
            filed = None
        rewrite(store.index.main, chain(lines_without(store.index.main, gone), [encode(mark)]))
    return Erased(list(chosen.values()), missing, filed is not None)


def _items(store: Store, space: str) -> set[str]:
    return {row["id"] for commit in store.commits(space) for row in commit.rows}


def lines_without(index: RowIndex, gone: Gone) -> Iterator[bytes]:
    """Yield the lines of all commits of a log without what is gone, by space."""
    for line in index.lines():
        commit = read_line(line)
        if not isinstance(commit, Commit):
            continue  # the header is written anew; damaged lines were refused before
        order, items = (commit.at, commit.id), gone.get(commit.space, {})
        told = {row["id"] for row in commit.rows if row["op"] != "forgotten"}
        ids = {item for item in told if item in items and goes(order, items[item])}
        yield encode(without(commit, ids)) if ids else line.data + b"\n"


def without(commit: Commit, gone: Collection[str]) -> Commit:
    """Return a commit without the rows of erased items, but for those that say so."""
    rows = tuple(row for row in commit.rows if row["id"] not in gone or row["op"] == "forgotten")
    return Commit(commit.id, commit.at, commit.space, rows, commit.by, commit.request)


def erase_returned(store: Store) -> int:
    """Erase what a merge or an export brought of items that are forgotten. Under the lock; tells how much."""
    store.index.catch_up()
    back, filed = brought_back(store), store.index.filed
    if back is None:
        return 0
    if filed is not None and back.filed_rows:
        rewrite(filed, lines_without(filed, back.gone))
    if back.rows:
        rewrite(store.index.main, lines_without(store.index.main, back.gone))
    return back.rows + back.filed_rows


def rewrite(index: RowIndex, lines: Iterable[bytes]) -> None:
    """Put a log of the next generation, with these lines, in place of a log. Under the lock."""
    header = index.journal.header()
    index.journal.rewrite(replace(header, generation=header.generation + 1), lines)
    index.refresh()


# --- everywhere else ----------------------------------------------------------------------------


def places_of(parts: Parts, gone: Erased) -> list[Place]:
    """Erase what is derived from forgotten items and say of each place what became of it there."""
    store, erased = parts.store, gone.states
    places = [Place(place="journal", outcome="erased", note=str(store.journal.path))]
    if gone.filed:
        places.append(Place(place="file passages", outcome="erased", note=str(store.passages.path)))
    note = "holds no text; built anew from the journal"
    places.append(Place(place="row index", outcome="erased", note=note))
    places.append(_replicas(parts.search))
    places += _vectors(store, erased)
    parts.activity.forget(state.id for state in erased)
    places.append(Place(place="activity", outcome="erased"))
    places += _set_aside([*store.journal.aside(), *store.passages.aside()], erased)
    if store.adoption is not None and _holds(store.adoption, {state.id for state in erased}):
        note = f"{store.adoption.path} belongs to another server and is never written; delete it there"
        places.append(Place(place="foreign file", outcome="kept", note=note))
    places += [
        Place(place="vault file", outcome="kept", note=f"{path} holds the text as well; delete it there")
        for path in sorted({state.row["origin"]["path"] for state in erased if state.row.get("origin")})
    ]
    if (tree := _work_tree(store.journal.folder)) is not None:
        note = f"{tree} is a git repository; its history may hold the text (git filter-repo removes it)"
        places.append(Place(place="git history", outcome="kept", note=note))
    return places


def _replicas(search: SearchIndex) -> Place:
    try:
        busy, note = search.forget()
    except BackendError as error:
        return Place(place="search index", outcome="pending", note=f"holds no text; {error}")
    if busy:
        note = f"{busy} other process(es) hold a replica (no text in it) until their next search"
        return Place(place="search index", outcome="pending", note=note)
    return Place(place="search index", outcome="erased", note=note)


def _vectors(store: Store, erased: Sequence[State]) -> list[Place]:
    try:
        found = forget_vectors(store.derived, [text_of(state) for state in erased])
    except BackendError as error:
        return [Place(place="kept vectors", outcome="pending", note=f"hold no text; {error}")]
    return [Place(place="kept vectors", outcome="erased")] if found else []


def _holds(adoption: Adoption, ids: Collection[str]) -> bool:
    try:
        return adoption.holds(ids)
    except BackendError:
        return adoption.path.exists()  # it can't be read, so it may


def _set_aside(files: Sequence[Path], erased: Sequence[State]) -> list[Place]:
    """Erase from the files of damaged lines every line that may hold a part of forgotten text, or its id.

    Such a line is torn or damaged anywhere, so it goes as soon as it shares some bytes with the text.
    """
    if not files:
        return []
    whole = {state.id.encode() for state in erased}
    chunks: set[bytes] = set()
    for state in erased:
        for text in text_of(state).split("\n"):
            for form in {text.encode(), orjson.dumps(text)[1:-1]} - {b""}:
                whole.add(form)
                chunks |= {form[i : i + _CHUNK] for i in range(0, len(form) - _CHUNK + 1, _CHUNK)}
    places = []
    for path in files:
        with explained("erasing from", path):
            lines = path.read_bytes().split(b"\n")
            kept = [line for line in lines if not _betrays(line, whole, chunks)]
            if len(kept) != len(lines):
                file_system.replace(path, [b"\n".join(kept)])
                places.append(Place(place="set-aside lines", outcome="erased", note=str(path)))
    return places


def _betrays(line: bytes, whole: set[bytes], chunks: set[bytes]) -> bool:
    if any(form in line for form in whole):
        return True
    if any(line[i : i + _CHUNK] in chunks for i in range(len(line) - _CHUNK + 1)):
        return True
    _, opened, begun = line.rpartition(b'":"')  # torn within the first bytes of a text
    return bool(opened and begun) and any(form.startswith(begun) for form in whole)


def _work_tree(folder: Path) -> Path | None:
    """Return the git work tree that a folder lies in."""
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)
