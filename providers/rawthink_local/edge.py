"""The local provider's search index: one Qdrant Edge shard in one folder, spoken to in plain values.

Holds ids, term weights and filter fields, never text; derived from the journal, so that any folder may be
deleted and built again. The only module that touches `qdrant_edge`. Its habits, measured with 0.9:

- A call keeps Python's global lock until it returns: a process with an event loop goes by `serving`.
- A full disk, met through a memory map, ends the process with SIGBUS. Free space is asked for first.
- A shard without its write-ahead log loads, and ignores updates. A folder is copied whole or not at all.
- Only read-only segments open quickly and stay out of the heap. ``pack`` makes them.
"""

from __future__ import annotations

import errno
import importlib
import itertools
import json
import shutil
import threading
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from rawthink_core.errors import BackendUnavailable
from rawthink_local.fields import INTEGERS, KEYWORDS, FieldFilter, IndexPoint, Terms, check_fields
from rawthink_local.files import FOLDER_MODE, explained, make_folder, replace, tighten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

Marker: TypeAlias = "dict[str, str | int]"
_T = TypeVar("_T")

_STAMP: Final = "index.json"  # written after the first marker: without it a folder holds nothing finished
_SCHEMA: Final = {"schema": 1, "engine": "qdrant-edge 0.9", "fields": [*KEYWORDS, *INTEGERS]}
_LEXICAL: Final = "lexical"
_MARKER: Final = "7f0c4f1a-5d0e-5a52-9d0b-3f3f0b6f6a01"  # no space, no vector: in no search and no statistic
_STEP: Final = 256  # points a call: about 16 ms
_FLUSH_EVERY: Final = 5_000  # points: what opening repeats after a kill, about 0.3 s
_PACK_KIB: Final = 20_000  # in a writable segment when it is packed: about 25,000 points of 81 terms
_RESERVE: Final = 128 << 20  # bytes that must be free on the disk
_BYTES_A_POINT: Final = 2_048  # on the disk, with 81 terms
_SYSTEM: Final = (errno.EACCES, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EROFS)
_BLAMELESS: Final = ("not initialized", *(f"(os error {code})" for code in _SYSTEM))  # else the files are bad


class IndexDamaged(BackendUnavailable):
    """The folder holds no index that can be trusted. Delete it and build again from the journal."""


class IndexBusy(BackendUnavailable):
    """Another process, or another object of this one, has the folder open."""


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

    def __init__(self, folder: Path, engine: Any, shard: Any) -> None:
        self._folder = folder
        self._engine = engine
        self._shard = shard
        self._writing = threading.RLock()
        self._closed = False
        self._unflushed = 0
        found = _guard("read its marker", shard.retrieve, [_MARKER], True, False)
        self._held: dict[str, Any] = dict(found[0].payload) if found else {}

    @classmethod
    def open(cls, folder: Path) -> EdgeIndex:
        """Open the index in ``folder``, or make one where there is none that got as far as a marker.

        Raises `IndexDamaged` when it is of another version, cannot be read, or lost points; `IndexBusy` when
        it is open elsewhere; `BackendUnavailable` when the engine is not installed or the disk is full.
        Making costs 0.15 s; opening 0.1 s at 1,000 points, at 400,000 0.7 s packed and 5 s unpacked; after a
        kill up to 0.4 s more.
        """
        engine = _engine()
        make_folder(folder)
        folder.chmod(FOLDER_MODE)
        _check_schema(folder)
        _check_disk(folder)
        index = cls(folder, engine, (_load if has_index(folder) else _create)(engine, folder / "shard"))
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
                made = [self._point(point) for point in group]
                self._update("write points", operation.upsert_points(made), len(made))
            self._hold(dict(marker), self.size())
            if not has_index(self._folder):
                with explained("marking", self._folder):
                    replace(self._folder / _STAMP, [json.dumps(_SCHEMA).encode()])
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
        kinds: bool = True,
    ) -> list[tuple[str, float, str]]:
        """Return ids, scores and kinds of the best matches in ``space``, best first; "" for a kind not asked.

        A score is the sum over shared terms of query weight × stored weight × IDF, counted over this space
        alone. Filters act before the cut; which of equals at the cut stay is the engine's choice. No terms,
        no hits. Raises `BackendUnavailable`. 25 terms cost 1 ms at 10,000 points, 4 at 100,000, 13 at
        400,000.
        """
        if not terms[0] or limit < 1:
            return []
        engine = self._engine
        request = engine.QueryRequest(
            limit=limit,
            query=engine.Query.Nearest(self._vector(terms), using=_LEXICAL),
            filter=self._filter(space, filters),
            params=engine.SearchParams(idf=engine.IdfParams(corpus=self._filter(space))),
            with_payload=["kind"] if kinds else False,
        )
        hits = _guard("search", self._shard.query, request)
        return [(str(hit.id), hit.score, hit.payload.get("kind", "") if kinds else "") for hit in hits]

    def count(self, space: str, filters: Sequence[FieldFilter] = ()) -> int:
        """Count exactly the points of ``space`` that pass. Costs 0.2 µs for each of them."""
        request = self._engine.CountRequest(filter=self._filter(space, filters))
        return int(_guard("count", self._shard.count, request))

    def size(self) -> int:
        """Count the points of all spaces, at once at any size."""
        return int(_guard("count", self._shard.info).points_count) - bool(self._held)

    def pack(self) -> bool:
        """Fold what was added into read-only segments where that is worth it; tell whether anything was done.

        For builds, after every thousand points or so, and now and then in a long life: without it memory and
        the time to open grow. It looks in 1 ms and acts with every 25,000 points, or when a fifth of a
        segment is deleted: 2 s then, 6 s at 400,000 points, all else in the process standing still. A kill
        meanwhile loses nothing. Raises `BackendUnavailable`, also where the disk has no room for a copy.
        """
        with self._writing:
            _check_disk(self._folder, _BYTES_A_POINT * self.size())
            if packed := bool(_guard("pack", self._shard.optimize)):
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
            _guard("flush", self._shard.flush)
            self._unflushed = 0

    def close(self) -> None:
        """Flush and let go of the folder. May be called again; searching or writing then fails."""
        with self._writing:
            if not self._closed:
                self._closed = True
                _guard("close", self._shard.close)
                tighten(self._folder)

    def _hold(self, marker: Marker, size: int) -> None:
        held = {"marker": marker, "size": size}
        point = self._engine.Point(_MARKER, {}, held)
        self._update("mark", self._engine.UpdateOperation.upsert_points([point]))
        self._held = held

    def _update(self, doing: str, operation: Any, points: int = 1) -> None:
        _check_disk(self._folder)
        _guard(doing, self._shard.update, operation)
        self._unflushed += points

    def _point(self, point: IndexPoint) -> Any:
        check_fields(point.fields)
        # An empty sparse vector would count as a text in the IDF of its space; no vector does not.
        vectors = {_LEXICAL: self._vector(point.terms)} if point.terms[0] else {}
        return self._engine.Point(point.id, vectors, dict(point.fields))

    def _vector(self, terms: Terms) -> Any:
        ids, weights = terms
        if not len(ids) == len(set(ids)) == len(weights):  # edge would take it, and answer one way or another
            raise ValueError(f"{len(ids)} term ids, {len(set(ids))} of them distinct, {len(weights)} weights")
        return self._engine.SparseVector(list(ids), list(weights))

    def _filter(self, space: str, filters: Sequence[FieldFilter] = ()) -> Any:
        check_fields(asked.field for asked in filters)
        conditions = (FieldFilter("space", any_of=(space,)), *filters)
        return self._engine.Filter(must=[self._condition(condition) for condition in conditions])

    def _condition(self, asked: FieldFilter) -> Any:
        engine = self._engine
        words = asked.any_of
        if words is not None:
            match = engine.MatchValue(words[0]) if len(words) == 1 else engine.MatchAny(list(words))
            test = engine.FieldCondition(asked.field, match=match)
        else:
            test = engine.FieldCondition(asked.field, range=engine.RangeFloat(gte=asked.gte, lt=asked.lt))
        if not asked.or_missing:
            return test
        return engine.Filter(should=[engine.IsEmptyCondition(asked.field), test])


def _engine() -> Any:
    try:
        return importlib.import_module("qdrant_edge")
    except ImportError as error:
        raise BackendUnavailable("Searching needs qdrant-edge: pip install 'rawthink[local]'") from error


def _create(engine: Any, place: Path) -> Any:
    with explained("making the search index in", place):
        if place.exists():  # a making that was cut short
            shutil.rmtree(place)
        place.mkdir(FOLDER_MODE)
    shard = _guard("be made", engine.EdgeShard.create, str(place), _config(engine))
    mapped = engine.Memory.Cached
    kinds: dict[str, Any] = dict.fromkeys(KEYWORDS, engine.KeywordIndexParams(memory=mapped))
    kinds |= dict.fromkeys(INTEGERS, engine.IntegerIndexParams(lookup=False, range=True, memory=mapped))
    for field, kind in kinds.items():
        _guard("be made", shard.update, engine.UpdateOperation.create_field_index(field, kind))
    return shard


def _load(engine: Any, place: Path) -> Any:
    shutil.rmtree(place / "temp_segments", ignore_errors=True)  # a packing that was cut short
    return _guard("be opened", engine.EdgeShard.load, str(place), _config(engine))


def _config(engine: Any) -> Any:
    # Room for later: a dense vector is added to a living shard by UpdateOperation.create_dense_vector.
    words = engine.EdgeSparseVectorParams(modifier=engine.Modifier.Idf, memory=engine.Memory.Cached)
    return engine.EdgeConfig(
        sparse_vectors={_LEXICAL: words},
        payload_memory=engine.Memory.Cold,
        id_tracker_memory=engine.Memory.Cached,
        optimizers=engine.EdgeOptimizersConfig(
            indexing_threshold=_PACK_KIB, default_segment_number=8, max_segment_size=10_000_000
        ),
    )


def _check_schema(folder: Path) -> None:
    try:
        same = not has_index(folder) or json.loads((folder / _STAMP).read_bytes()) == _SCHEMA
    except (OSError, ValueError) as error:
        raise IndexDamaged(f"The search index in {folder} cannot be read: {error}") from error
    if not same:
        raise IndexDamaged(f"The search index in {folder} is of another version")


def _check_disk(folder: Path, needed: int = 0) -> None:
    with explained("asking for free space in", folder):
        free = shutil.disk_usage(folder).free
    if free < needed + _RESERVE:
        had = f"{free >> 20} MB free, {needed + _RESERVE >> 20} needed"
        raise BackendUnavailable(f"The disk that holds {folder} is nearly full: {had}. Nothing was written")


def _steps(items: Iterable[_T]) -> Iterator[list[_T]]:
    remaining = iter(items)
    while step := list(itertools.islice(remaining, _STEP)):
        yield step


def _guard(doing: str, call: Callable[..., Any], *args: Any) -> Any:
    # Edge raises bare exceptions, and panics that are no `Exception`.
    try:
        return call(*args)
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        reason = str(error).strip().partition("\n")[0][:300]
        if "WouldBlock" in reason:
            raise IndexBusy("The search index is in use by another process") from error
        blameless = any(sign in reason for sign in _BLAMELESS)
        kind = BackendUnavailable if blameless else IndexDamaged
        raise kind(f"The search index could not {doing}: {reason}") from error
