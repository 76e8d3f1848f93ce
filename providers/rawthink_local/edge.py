"""The local provider's search index: one Qdrant Edge shard in one folder, spoken to in plain values.

Holds ids, term weights and filter fields, never text; derived from the journal, so that any folder may be
deleted and built again. The only module that touches `qdrant_edge`. Its habits, measured with 0.9:

- A call keeps Python's global lock until it returns: a process with an event loop goes by `serving`.
- A full disk, met through a memory map, ends the process with SIGBUS. Free space is asked for first.
- A shard without its write-ahead log loads, and ignores updates. A folder is copied whole or not at all.
- Only read-only segments open quickly and stay out of the heap. ``pack`` makes them.
- Each field that it indexes adds 10 ms to making a folder and 4 ms to opening it. So all words of a point are
  one field, and a number is indexed when a search first asks for it.
"""

from __future__ import annotations

import itertools
import json
import shutil
import threading
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from rawthink_local.engine import (
    DENSE,
    FACETS,
    LEXICAL,
    PLACE,
    IndexDamaged,
    check_disk,
    create_shard,
    guard,
    load_engine,
    load_shard,
)
from rawthink_local.fields import INTEGERS, FieldFilter, IndexPoint, Match, Terms
from rawthink_local.files import FOLDER_MODE, explained, make_folder, replace, tighten
from rawthink_local.translator import Translator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

Marker: TypeAlias = "dict[str, str | int]"
_T = TypeVar("_T")

_STAMP: Final = "index.json"  # written after the first marker: without it a folder holds nothing finished
_SCHEMA: Final[dict[str, str | int]] = {"schema": 7, "engine": "qdrant-edge 0.9"}
_MARKER: Final = "7f0c4f1a-5d0e-5a52-9d0b-3f3f0b6f6a01"  # no space, no vector: in no search and no statistic
_STEP: Final = 256  # points a call: about 16 ms
_FLUSH_EVERY: Final = 5_000  # points: what opening repeats after a kill, about 0.3 s
_BYTES_A_POINT: Final = 2_048  # on the disk, with 81 terms


def has_index(folder: Path) -> bool:
    """Tell, without opening it, whether ``folder`` holds an index with a marker."""
    return (folder / _STAMP).is_file()


def delete_index(folder: Path) -> None:
    """Delete ``folder``; what an interruption leaves of it does not count as an index."""
    with explained("deleting", folder):
        (folder / _STAMP).unlink(missing_ok=True)
        if folder.exists():
            shutil.rmtree(folder)


class EdgeIndex:
    """An open index. Synchronous; one writer at a time, readers beside it, from any threads."""

    def __init__(self, folder: Path, engine: Any, shard: Any, dimensions: int) -> None:
        self._folder = folder
        self._dimensions = dimensions
        self._engine = engine
        self._to = Translator(engine)
        self._shard = shard
        self._writing = threading.RLock()
        self._closed = False
        self._unflushed = 0
        self._indexed = set(guard("be described", shard.info).payload_schema)
        found = guard("read its marker", shard.retrieve, [_MARKER], True, False)
        self._held: dict[str, Any] = dict(found[0].payload) if found else {}

    @classmethod
    def open(cls, folder: Path, dimensions: int = 0) -> EdgeIndex:
        """Open the index in ``folder``, or make one where there is none that got as far as a marker.

        With ``dimensions`` its points may have vectors of that size. Raises `IndexDamaged` when it is of
        another version or size, cannot be read, or lost points; `IndexBusy` when
        it is open elsewhere; `BackendUnavailable` when the engine is not installed or the disk is full.
        Making costs 20 ms; opening 10 ms at 1,000 points, at 400,000 0.7 s packed and 5 s unpacked; after a
        kill up to 0.4 s more.
        """
        engine = load_engine()
        make_folder(folder)
        folder.chmod(FOLDER_MODE)
        _check_schema(folder, dimensions)
        check_disk(folder)
        make = load_shard if has_index(folder) else create_shard
        index = cls(folder, engine, make(engine, folder / "shard", dimensions), dimensions)
        if (lost := index._held.get("size", 0) - index.size()) > 0:
            index.close()
            raise IndexDamaged(f"The search index in {folder} lost {lost} of its points")
        return index

    def apply(
        self,
        points: Iterable[IndexPoint],
        deletes: Iterable[str],
        marker: Mapping[str, str | int],
    ) -> None:
        """Delete, then write, then set the marker: one commit, or a long catch-up in pieces.

        A point that exists is replaced whole, its old words included. A process killed in between leaves the
        old marker and some of the new points, never the new marker without them; the same again completes it.
        A power cut may lose what was not flushed, which ``open`` notices by count. Raises
        `BackendUnavailable`, also when the disk is nearly full. Four points cost 0.7 ms at any size, many
        65 µs each and a flush with every 5,000th.
        """
        operation = self._engine.UpdateOperation
        gone = list(deletes)
        with self._writing:
            if gone and self._held:  # else, killed after the deletes, ``open`` would miss them
                self._hold(self._held["marker"], self.size() - len(gone))
            for ids in _steps(gone):
                self._update("delete points", operation.delete_points(ids), len(ids))
            for group in _steps(points):
                made = [self._to.point(point) for point in group]
                self._update("write points", operation.upsert_points(made), len(made))
            self._hold(dict(marker), self.size())
            if not has_index(self._folder):
                with explained("marking", self._folder):
                    replace(self._folder / _STAMP, [json.dumps(_stamp(self._dimensions)).encode()])
            if self._unflushed >= _FLUSH_EVERY:
                self.flush()

    def marker(self) -> Marker | None:
        """Return the marker of the last commit applied, as it was given; None where there is none yet."""
        held: Marker | None = self._held.get("marker")
        return None if held is None else dict(held)

    def search(
        self,
        terms: Terms,
        *,
        space: str,
        filters: Sequence[FieldFilter] = (),
        limit: int,
        places: bool = True,
    ) -> list[Match]:
        """Return ids, scores and, if asked, places of the best matches in ``space``, best first.

        A score is the sum over shared terms of query weight × stored weight × IDF, counted over this space
        alone. Filters act before the cut; which of equals at the cut stay is the engine's choice. No terms,
        no hits. Raises `BackendUnavailable`. 25 terms cost 1 ms at 10,000 points, 4 at 100,000, 13 at
        400,000.
        """
        if not terms[0]:
            return []
        engine = self._engine
        params = engine.SearchParams(idf=engine.IdfParams(corpus=self._to.filter(space)))
        asked = engine.Query.Nearest(self._to.vector(terms), using=LEXICAL)
        return self._query(asked, params, space, filters, limit, places=places)

    def nearest(
        self,
        vector: Sequence[float],
        *,
        space: str,
        filters: Sequence[FieldFilter] = (),
        limit: int,
        places: bool = True,
    ) -> list[Match]:
        """Return ids, similarities and places of the items nearest to a vector of unit length, best first.

        An item counts by the nearest of its windows; one without vectors is not found. Looks at all that
        pass: 1 ms at 10,000 points of 384 numbers, 10 ms at 100,000. Raises `BackendUnavailable`.
        """
        if not self._dimensions:
            return []
        engine = self._engine
        asked = engine.Query.Nearest(list(vector), using=DENSE)
        return self._query(asked, engine.SearchParams(), space, filters, limit, places=places)

    def both(
        self,
        terms: Terms,
        vector: Sequence[float],
        *,
        space: str,
        filters: Sequence[FieldFilter] = (),
        limit: int,
        places: bool = True,
    ) -> tuple[list[Match], list[Match]]:
        """Return what `search` finds and what `nearest` finds."""
        words = self.search(terms, space=space, filters=filters, limit=limit, places=places)
        return words, self.nearest(vector, space=space, filters=filters, limit=limit, places=places)

    def _query(
        self, asked: Any, params: Any, space: str, filters: Sequence[FieldFilter], limit: int, *, places: bool
    ) -> list[Match]:
        if limit < 1:
            return []
        self._index_numbers(filters)
        request = self._engine.QueryRequest(
            limit=limit,
            query=asked,
            filter=self._to.filter(space, filters),
            params=params,
            with_payload=[PLACE] if places else False,
        )
        hits = guard("search", self._shard.query, request)
        if not places:
            return [(str(hit.id), hit.score, None) for hit in hits]
        seats = ((hit, hit.payload.get(PLACE)) for hit in hits)
        return [(str(hit.id), hit.score, tuple(seat) if seat else None) for hit, seat in seats]

    def waiting(self, limit: int) -> list[tuple[str, str]]:
        """Return space and id of points that wait for their vectors, at most so many."""
        request = self._engine.ScrollRequest(limit=limit, filter=self._to.waiting(), with_payload=[FACETS])
        points, _ = guard("be listed", self._shard.scroll, request)
        return [(_space_of(point.payload[FACETS]), str(point.id)) for point in points]

    def waiting_count(self) -> int:
        """Count the points that wait for their vectors."""
        return self._count(self._to.waiting())

    def _count(self, condition: Any) -> int:
        return int(guard("count", self._shard.count, self._engine.CountRequest(filter=condition)))

    def size(self) -> int:
        """Count the points of all spaces, at once at any size."""
        return int(guard("count", self._shard.info).points_count) - bool(self._held)

    def pack(self) -> bool:
        """Fold what was added into read-only segments where that is worth it; tell whether anything was done.

        For builds, after every thousand points or so, and now and then in a long life: without it memory and
        the time to open grow. It looks in 1 ms and acts with every 25,000 points, or when a fifth of a
        segment is deleted: 2 s then, 6 s at 400,000 points, all else in the process standing still. A kill
        meanwhile loses nothing. Raises `BackendUnavailable`, also where the disk has no room for a copy.
        """
        with self._writing:
            check_disk(self._folder, _BYTES_A_POINT * self.size())
            if packed := bool(guard("pack", self._shard.optimize)):
                self.flush()
                tighten(self._folder)
            return packed

    @property
    def changed(self) -> bool:
        """Whether anything was written since the last flush."""
        return self._unflushed > 0

    def flush(self) -> None:
        """Bring everything to the disk, so that a power cut loses none of it. 40–350 ms after changes."""
        with self._writing:
            guard("flush", self._shard.flush)
            self._unflushed = 0

    def close(self) -> None:
        """Flush and let go of the folder. May be called again; searching or writing then fails."""
        with self._writing:
            if not self._closed:
                self._closed = True
                guard("close", self._shard.close)
                tighten(self._folder)

    def _hold(self, marker: Marker, size: int) -> None:
        held = {"marker": marker, "size": size}
        point = self._engine.Point(_MARKER, {}, held)
        self._update("mark", self._engine.UpdateOperation.upsert_points([point]))
        self._held = held

    def _update(self, doing: str, operation: Any, points: int = 1) -> None:
        check_disk(self._folder)
        guard(doing, self._shard.update, operation)
        self._unflushed += points

    def _index_numbers(self, filters: Sequence[FieldFilter]) -> None:
        """Let the engine index the numbers asked for: once, 0.3 s at 100,000 points."""
        for field in {asked.field for asked in filters if asked.any_of is None} - self._indexed:
            if field in INTEGERS:
                kind = self._engine.IntegerIndexParams(
                    lookup=False, range=True, memory=self._engine.Memory.Cached
                )
                with self._writing:
                    self._update("index", self._engine.UpdateOperation.create_field_index(field, kind))
                    self._indexed.add(field)


def _stamp(dimensions: int) -> dict[str, str | int]:
    return {**_SCHEMA, "dimensions": dimensions}


def _check_schema(folder: Path, dimensions: int) -> None:
    try:
        same = not has_index(folder) or json.loads((folder / _STAMP).read_bytes()) == _stamp(dimensions)
    except (OSError, ValueError) as error:
        raise IndexDamaged(f"The search index in {folder} cannot be read: {error}") from error
    if not same:
        raise IndexDamaged(f"The search index in {folder} is of another version")


def _space_of(words: Sequence[str]) -> str:
    return next(word for word in words if word.startswith("space=")).removeprefix("space=")


def _steps(items: Iterable[_T]) -> Iterator[list[_T]]:
    remaining = iter(items)
    while step := list(itertools.islice(remaining, _STEP)):
        yield step
