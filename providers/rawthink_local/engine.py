"""Qdrant Edge itself: loading it, making and opening a shard, and what its failures mean.

Only this module and `edge`, which holds an open shard, know the engine.
"""

from __future__ import annotations

import errno
import importlib
import shutil
from typing import TYPE_CHECKING, Any, Final

from rawthink_core.errors import BackendUnavailable
from rawthink_local.files import FOLDER_MODE, explained

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LEXICAL: Final = "lexical"  # the sparse vector
DENSE: Final = "dense"  # one vector for each window of the text; the nearest of them counts
PLACE: Final = "place"  # the field that holds session, ordinal and speaker of a passage
FACETS: Final = "facets"  # the field that holds all words of a point

_PACK_KIB: Final = 20_000  # in a writable segment when it is packed: about 25,000 points of 81 terms
_RESERVE: Final = 128 << 20  # bytes that must be free on the disk
_SYSTEM: Final = (errno.EACCES, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EROFS)
_BLAMELESS: Final = ("not initialized", *(f"(os error {code})" for code in _SYSTEM))  # else the files are bad


class IndexDamaged(BackendUnavailable):
    """The folder holds no index that can be trusted. Delete it and build again from the journal."""


class IndexBusy(BackendUnavailable):
    """Another process, or another object of this one, has the folder open."""


def load_engine() -> Any:
    """Return the engine's module. Raises `BackendUnavailable` where it is not installed."""
    try:
        return importlib.import_module("qdrant_edge")
    except ImportError as error:
        raise BackendUnavailable("Searching needs qdrant-edge: pip install 'rawthink[local]'") from error


def create_shard(engine: Any, place: Path, dimensions: int) -> Any:
    """Return a new, empty shard in a folder of its own, in whose place nothing is kept."""
    with explained("making the search index in", place):
        if place.exists():  # a making that was cut short
            shutil.rmtree(place)
        place.mkdir(FOLDER_MODE)
    shard = guard("be made", engine.EdgeShard.create, str(place), _config(engine, dimensions))
    words = engine.KeywordIndexParams(memory=engine.Memory.Cached)
    guard("be made", shard.update, engine.UpdateOperation.create_field_index(FACETS, words))
    return shard


def load_shard(engine: Any, place: Path, dimensions: int) -> Any:
    """Return the shard that lies in a folder."""
    shutil.rmtree(place / "temp_segments", ignore_errors=True)  # a packing that was cut short
    return guard("be opened", engine.EdgeShard.load, str(place), _config(engine, dimensions))


def _config(engine: Any, dimensions: int) -> Any:
    # No graph over the vectors: building one stands still for minutes at 100,000, looking at all takes 10 ms.
    plain = engine.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000)
    windows = engine.MultiVectorConfig(engine.MultiVectorComparator.MaxSim)
    dense = engine.EdgeVectorParams(
        max(dimensions, 1),
        engine.Distance.Dot,
        multivector_config=windows,
        datatype=engine.VectorStorageDatatype.Float16,
        memory=engine.Memory.Cold,  # else every file is filled up to the 32 MB that it is made with
    )
    words = engine.EdgeSparseVectorParams(modifier=engine.Modifier.Idf, memory=engine.Memory.Cold)
    return engine.EdgeConfig(
        vectors={DENSE: dense} if dimensions else None,
        sparse_vectors={LEXICAL: words},
        hnsw_config=plain,
        payload_memory=engine.Memory.Cold,
        id_tracker_memory=engine.Memory.Cached,
        optimizers=engine.EdgeOptimizersConfig(
            indexing_threshold=_PACK_KIB, default_segment_number=8, max_segment_size=10_000_000
        ),
    )


def check_disk(folder: Path, needed: int = 0) -> None:
    """Refuse to write where the disk has not this many bytes free, and some to spare."""
    with explained("asking for free space in", folder):
        free = shutil.disk_usage(folder).free
    if free < needed + _RESERVE:
        had = f"{free >> 20} MB free, {needed + _RESERVE >> 20} needed"
        raise BackendUnavailable(f"The disk that holds {folder} is nearly full: {had}. Nothing was written")


def guard(doing: str, call: Callable[..., Any], *args: Any) -> Any:
    """Call the engine, which raises bare exceptions, and panics that are no `Exception`: give them a kind."""
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
