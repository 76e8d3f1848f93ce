"""From plain values to the engine's: points, vectors, conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rawthink_local.engine import DENSE, FACETS, LEXICAL, PLACE
from rawthink_local.fields import ACTIVE, INTEGERS, FieldFilter, alive, check_fields, facets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_local.fields import IndexPoint, Terms

_ACTIVE: Final = FieldFilter("status", any_of=(ACTIVE,))


class Translator:
    """Speaks the language of one engine."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def point(self, point: IndexPoint) -> Any:
        """Return a point. Raises ValueError for a field that the index does not have."""
        fields = point.fields
        check_fields(fields)
        held: dict[str, Any] = {field: fields[field] for field in INTEGERS if field in fields}
        if point.place is not None:
            held[PLACE] = list(point.place)
        held[FACETS] = facets(fields)
        # An empty sparse vector would count as a text in the IDF of its space; no vector does not.
        vectors: dict[str, Any] = {LEXICAL: self.vector(point.terms)} if point.terms[0] else {}
        if point.vectors:
            vectors[DENSE] = [list(vector) for vector in point.vectors]
        return self._engine.Point(point.id, vectors, held)

    def vector(self, terms: Terms) -> Any:
        """Return term ids and weights as a sparse vector. Raises ValueError where they do not pair."""
        ids, weights = terms
        if not len(ids) == len(set(ids)) == len(weights):  # edge would take it, and answer one way or another
            raise ValueError(f"{len(ids)} term ids, {len(set(ids))} of them distinct, {len(weights)} weights")
        return self._engine.SparseVector(list(ids), list(weights))

    def filter(self, space: str, filters: Sequence[FieldFilter] = ()) -> Any:
        """Return the condition that all filters hold in a space."""
        check_fields(asked.field for asked in filters)
        rest = [asked for asked in filters if asked != _ACTIVE]
        words = alive(space) if len(rest) < len(filters) else f"space={space}"
        here = self._engine.FieldCondition(FACETS, match=self._engine.MatchValue(words))
        return self._engine.Filter(must=[here, *(self._condition(condition) for condition in rest)])

    def waiting(self) -> Any:
        """Return the condition that a point waits for its vectors, in any space."""
        return self._engine.Filter(must=[self._condition(FieldFilter("vector", any_of=("waiting",)))])

    def _condition(self, asked: FieldFilter) -> Any:
        engine = self._engine
        if asked.any_of is not None:
            words = [f"{asked.field}={word}" for word in asked.any_of]
            match = engine.MatchValue(words[0]) if len(words) == 1 else engine.MatchAny(words)
            return engine.FieldCondition(FACETS, match=match)
        test = engine.FieldCondition(asked.field, range=engine.RangeFloat(gte=asked.gte, lt=asked.lt))
        if not asked.or_missing:
            return test
        return engine.Filter(should=[engine.IsEmptyCondition(asked.field), test])
