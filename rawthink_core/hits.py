"""Hits as they are shown: what an answer says of an item that it holds, and of its way to its place."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from rawthink_core.clock import iso
from rawthink_core.model import Hit, Why

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_core.rows import State


def hit_of(
    state: State, owner: State | None, heir: State | None, *, score: float, now: datetime, why: Why | None
) -> Hit:
    """Return the hit of an item. ``owner`` is the entity it belongs to, ``heir`` what it was replaced by."""
    row = state.row
    return Hit.model_construct(
        item=cast("Any", state.kind),  # relations are not searchable
        id=state.id,
        kind=row.get("kind"),
        text=state.value("name") if state.kind == "entity" else row["text"],
        score=score,
        entity=owner.id if owner else None,
        entity_name=owner.value("name") if owner else None,
        session=row.get("session"),
        speaker=row.get("speaker"),
        tags=tuple(row.get("tags", ())),
        status=state.status,
        recorded_at=datetime.fromisoformat(state.recorded_at),
        valid_from=_opt(state.valid_from),
        valid_to=_opt(state.valid_to),
        lapsed=state.status == "active" and state.valid_to is not None and state.valid_to <= iso(now),
        superseded_by=state.superseded_by,
        successor=heir.row.get("text") if heir is not None and not heir.forgotten else None,
        reason=state.reason,
        why=why,
    )


def _opt(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


class Reasons:
    """Says how hits came to their places, from the two lists that they were made of."""

    def __init__(self, lexical: Sequence[tuple[str, float]], dense: Sequence[tuple[str, float]]) -> None:
        self._lexical = {item: (rank, score) for rank, (item, score) in enumerate(lexical, 1)}
        self._dense = {item: (rank, score) for rank, (item, score) in enumerate(dense, 1)}

    def of(self, item: str, *, fused: float, speaker: float, total: float, decay: float) -> Why:
        """Return how an item came to ``total``, its score before decay."""
        lexical_rank, lexical_score = self._lexical.get(item, (None, None))
        dense_rank, dense_score = self._dense.get(item, (None, None))
        return Why(
            lexical_rank=lexical_rank,
            lexical_score=lexical_score,
            dense_rank=dense_rank,
            dense_score=dense_score,
            fused=fused,
            neighbours=total - fused - speaker,
            speaker=speaker,
            decay=decay,
        )
