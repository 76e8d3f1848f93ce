"""From plain values to a Qdrant server's: points, vectors, conditions, and what a collection is like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rawthink_local.engine import DENSE, FACETS, LEXICAL, PLACE
from rawthink_local.fields import INTEGERS, FieldFilter, check_fields, facets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_local.fields import IndexPoint, Terms

SPACE: Final = "space"


class RemoteTranslator:
    """Speaks the language of the client's models."""

    def __init__(self, models: Any) -> None:
        self._models = models

    def collection(self, dimensions: int) -> dict[str, Any]:
        """Return what a new collection is made with: vectors as the local index has them."""
        models = self._models
        # No graph over the vectors: it would find only about the nearest, and each space is looked at whole.
        plain = models.HnswConfigDiff(m=0)
        dense = models.VectorParams(
            size=max(dimensions, 1),
            distance=models.Distance.DOT,
            multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
            datatype=models.Datatype.FLOAT16,
        )
        words = models.SparseVectorParams(modifier=models.Modifier.IDF)
        return {
            "vectors_config": {DENSE: dense} if dimensions else {},
            "sparse_vectors_config": {LEXICAL: words},
            "hnsw_config": plain,
        }

    def indexed(self) -> dict[str, Any]:
        """Return the fields that a server indexes, the space as the one that keeps tenants apart."""
        models = self._models
        tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        number = models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=False, range=True)
        words = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD)
        return {SPACE: tenant, FACETS: words, **dict.fromkeys(INTEGERS, number)}

    def point(self, point: IndexPoint) -> Any:
        """Return a point. Raises ValueError for a field that the index does not have."""
        fields = point.fields
        check_fields(fields)
        held: dict[str, Any] = {field: fields[field] for field in INTEGERS if field in fields}
        held[SPACE] = fields[SPACE]
        held[FACETS] = facets(fields)
        if point.place is not None:
            held[PLACE] = list(point.place)
        # An empty sparse vector would count as a text in the IDF of its space; no vector does not.
        vectors: dict[str, Any] = {LEXICAL: self.vector(point.terms)} if point.terms[0] else {}
        if point.vectors:
            vectors[DENSE] = [list(vector) for vector in point.vectors]
        return self._models.PointStruct(id=point.id, vector=vectors, payload=held)

    def vector(self, terms: Terms) -> Any:
        """Return term ids and weights as a sparse vector. Raises ValueError where they do not pair."""
        ids, weights = terms
        if not len(ids) == len(set(ids)) == len(weights):
            raise ValueError(f"{len(ids)} term ids, {len(set(ids))} of them distinct, {len(weights)} weights")
        return self._models.SparseVector(indices=list(ids), values=list(weights))

    def filter(self, space: str, filters: Sequence[FieldFilter] = ()) -> Any:
        """Return the condition that all filters hold in a space."""
        check_fields(asked.field for asked in filters)
        models = self._models
        here = models.FieldCondition(key=SPACE, match=models.MatchValue(value=space))
        return models.Filter(must=[here, *(self._condition(asked) for asked in filters)])

    def waiting(self) -> Any:
        """Return the condition that a point waits for its vectors, in any space."""
        return self._models.Filter(must=[self._condition(FieldFilter("vector", any_of=("waiting",)))])

    def _condition(self, asked: FieldFilter) -> Any:
        models = self._models
        if asked.any_of is not None:
            words = [f"{asked.field}={word}" for word in asked.any_of]
            return models.FieldCondition(key=FACETS, match=models.MatchAny(any=words))
        test = models.FieldCondition(key=asked.field, range=models.Range(gte=asked.gte, lt=asked.lt))
        if not asked.or_missing:
            return test
        missing = models.IsEmptyCondition(is_empty=models.PayloadField(key=asked.field))
        return models.Filter(should=[missing, test])
