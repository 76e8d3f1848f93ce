"""The local provider's search index on a Qdrant server: what `edge` is in a folder.

A collection serves all processes of one store, so its marker is read anew before it is trusted. It holds ids,
term weights, vectors and filter fields, never text. IDF is counted over one space alone, by the server.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rawthink_local.engine import DENSE, LEXICAL, PLACE, IndexDamaged
from rawthink_local.remotepoints import SPACE, RemoteTranslator
from rawthink_local.server import check_version, exists_already, explaining

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rawthink_local.edge import Marker
    from rawthink_local.fields import FieldFilter, IndexPoint, Match, Terms

_T = TypeVar("_T")

_SCHEMA: Final = 1
_MARKER: Final = "7f0c4f1a-5d0e-5a52-9d0b-3f3f0b6f6a01"  # no space, no vector: in no search and no statistic
_STEP: Final = 64  # points a request: about 2 MB with vectors; a server takes 32


class RemoteIndex:
    """An open collection. Synchronous; safe to use from many threads, one writer at a time."""

    def __init__(self, client: Any, models: Any, url: str, name: str, dimensions: int) -> None:
        self._client = client
        self._models = models
        self._to = RemoteTranslator(models)
        self._url = url
        self._name = name
        self._dimensions = dimensions
        self._held: dict[str, Any] = {}

    @classmethod
    def open(cls, client: Any, url: str, name: str, dimensions: int = 0) -> RemoteIndex:
        """Open a collection, or make it where there is none.

        Raises `IndexDamaged` where it is of another version or vector size: `delete` it, then open again;
        a BackendError where the server is down, slow, too old, or refuses the key.
        """
        from qdrant_client import models  # noqa: PLC0415 - imported late

        check_version(client, url)
        index = cls(client, models, url, name, dimensions)
        if not index._exists():
            index._make()
        held = index.look()
        if not held and index.size():
            raise IndexDamaged(f"The collection {name} at {url} holds points and no marker")
        if not held:
            index._index_fields()  # whoever made it may have been cut short
        return index._checked()

    @classmethod
    def open_filled(cls, client: Any, url: str, name: str, dimensions: int = 0) -> RemoteIndex | None:
        """Open a collection that has its marker, whoever writes to it at present; None where there is none.

        Raises what `open` raises.
        """
        from qdrant_client import models  # noqa: PLC0415 - imported late

        check_version(client, url)
        index = cls(client, models, url, name, dimensions)
        return index._checked() if index._exists() and index.look() else None

    def _checked(self) -> RemoteIndex:
        held, url, name, dimensions = self._held, self._url, self._name, self._dimensions
        if held and (held.get("schema"), held.get("dimensions")) != (_SCHEMA, dimensions):
            raise IndexDamaged(f"The collection {name} at {url} is of another version")
        if not held and self._size_of_vectors() != dimensions:
            raise IndexDamaged(f"The collection {name} at {url} was made for another model")
        return self

    def _exists(self) -> bool:
        with explaining(self._url, "be asked for the collection"):
            return bool(self._client.collection_exists(self._name))

    def _make(self) -> None:
        with explaining(self._url, "make the collection"):
            try:
                self._client.create_collection(self._name, **self._to.collection(self._dimensions))
            except Exception as error:
                if not exists_already(error):
                    raise

    def _index_fields(self) -> None:
        with explaining(self._url, "index the fields of the collection"):
            for field, kind in self._to.indexed().items():
                self._client.create_payload_index(self._name, field, field_schema=kind, wait=True)

    def _size_of_vectors(self) -> int:
        with explaining(self._url, "describe the collection"):
            vectors = self._client.get_collection(self._name).config.params.vectors or {}
        return int(vectors[DENSE].size) if DENSE in vectors else 0

    def look(self) -> bool:
        """Read the marker anew: another process may have written; tell whether there is one.

        Raises IndexLost where all is gone.
        """
        with explaining(self._url, "read its marker"):
            found = self._client.retrieve(self._name, [_MARKER], with_payload=True)
        self._held = dict(found[0].payload or {}) if found else {}
        return bool(self._held)

    def apply(
        self, points: Iterable[IndexPoint], deletes: Iterable[str], marker: Mapping[str, str | int]
    ) -> None:
        """Delete, then write, then set the marker: cut short, it leaves the old marker, never a false one."""
        models = self._models
        for ids in _steps(deletes):
            with explaining(self._url, "delete points"):
                selected = models.PointIdsList(points=ids)
                self._client.delete(self._name, points_selector=selected, wait=True)
        for group in _steps(points):
            self._write([self._to.point(point) for point in group])
        held = {"marker": dict(marker), "schema": _SCHEMA, "dimensions": self._dimensions}
        self._write([models.PointStruct(id=_MARKER, vector={}, payload=held)])
        self._held = held

    def _write(self, points: list[Any]) -> None:
        with explaining(self._url, "write points"):
            self._client.upsert(self._name, points, wait=True)

    def marker(self) -> Marker | None:
        """Return the marker of the last commit applied, as it was last read; None where there is none yet."""
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
        """Return ids, scores and places of the best matches in ``space``: see `EdgeIndex.search`."""
        if not terms[0]:
            return []
        corpus = self._models.IdfCorpusParams(corpus=self._to.filter(space))
        params = self._models.SearchParams(idf=corpus)
        return self._query(self._to.vector(terms), LEXICAL, params, space, filters, limit, places=places)

    def nearest(
        self,
        vector: Sequence[float],
        *,
        space: str,
        filters: Sequence[FieldFilter] = (),
        limit: int,
        places: bool = True,
    ) -> list[Match]:
        """Return ids, similarities and places of the nearest items: see `EdgeIndex.nearest`."""
        if not self._dimensions:
            return []
        params = self._models.SearchParams(exact=True)
        return self._query([list(vector)], DENSE, params, space, filters, limit, places=places)

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
        self,
        asked: Any,
        using: str,
        params: Any,
        space: str,
        filters: Sequence[FieldFilter],
        limit: int,
        *,
        places: bool,
    ) -> list[Match]:
        if limit < 1:
            return []
        chosen = self._to.filter(space, filters)
        with explaining(self._url, "search"):
            answer = self._client.query_points(
                self._name,
                query=asked,
                using=using,
                query_filter=chosen,
                search_params=params,
                limit=limit,
                with_payload=[PLACE] if places else False,
            )
        seats = ((hit, (hit.payload or {}).get(PLACE)) for hit in answer.points)
        hits = [(str(hit.id), hit.score, tuple(seat) if seat else None) for hit, seat in seats]
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))  # so that no other space decides among equals

    def waiting(self, limit: int) -> list[tuple[str, str]]:
        """Return space and id of points that wait for their vectors, at most so many."""
        with explaining(self._url, "list points"):
            points, _ = self._client.scroll(
                self._name, scroll_filter=self._to.waiting(), limit=limit, with_payload=[SPACE]
            )
        return [(point.payload[SPACE], str(point.id)) for point in points]

    def waiting_count(self) -> int:
        """Count the points that wait for their vectors."""
        return self._count(self._to.waiting())

    def _count(self, condition: Any = None) -> int:
        with explaining(self._url, "count"):
            return int(self._client.count(self._name, count_filter=condition, exact=True).count)

    def size(self) -> int:
        """Count the points of all spaces."""
        return self._count() - bool(self._held)

    def pack(self) -> bool:
        """Do nothing: a server packs by itself."""
        return False

    @property
    def changed(self) -> bool:
        """Whether anything waits to be flushed: nothing, a server confirms what it has logged."""
        return False

    def flush(self) -> None:
        """Do nothing, see `changed`."""

    def close(self) -> None:
        """Do nothing: the connection is the place's."""


def collections_of(client: Any, url: str) -> list[str]:
    """Return the names of all collections that our key lets us see."""
    with explaining(url, "list its collections"):
        return [str(found.name) for found in client.get_collections().collections]


def delete_collection(client: Any, url: str, name: str) -> bool:
    """Delete a collection with all its points, if it is there; tell whether it was."""
    with explaining(url, "delete the collection"):
        if there := bool(client.collection_exists(name)):
            client.delete_collection(name)
    return there


def _steps(items: Iterable[_T]) -> Iterator[list[_T]]:
    remaining = iter(items)
    while step := list(itertools.islice(remaining, _STEP)):
        yield step
