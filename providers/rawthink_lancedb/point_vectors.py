"""The vectors of one space: which points wait for theirs, what the table holds, and what a new point gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_core.selection import text_of
from rawthink_lancedb import sql
from rawthink_lancedb.points import text_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_core.rows import State
    from rawthink_lancedb.point_table import PointTable
    from rawthink_lancedb.vectors import Kept, Vectors


class PointVectors:
    """Vectors in a table of points, of the model that the store goes by. Safe to use from many threads."""

    def __init__(self, space: str, points: PointTable) -> None:
        self.kept: Kept | None = None
        self._space = space
        self._points = points

    def searched(self) -> str | None:
        """Return the column to search by meaning, None where there are no vectors yet."""
        tag = None if self.kept is None else self.kept.tag
        return tag if tag in self._points.columns else None

    def prepare(self) -> None:
        """Give the table a column for the model that the store goes by."""
        if self.kept is not None:
            self._points.add_column(self.kept.tag, self.kept.model.dimensions)

    def known(self, items: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return what the table holds of the vectors of items."""
        columns = self._points.columns
        if not items or not columns:
            return {}
        rows = self._points.rows_with("point", items, ["point", "tokens", "model", *columns])
        return {row["point"]: row for row in rows}

    def give(self, row: dict[str, Any], state: State, known: dict[str, Any] | None) -> None:
        """Give a point the vectors that are at hand: those it had, or those that were just made."""
        kept = self.kept
        if known is not None and known["tokens"] == row["tokens"]:
            row |= {name: known[name] for name in ("model", *self._points.columns)}
        if kept is None or row.get("model") == kept.tag:
            return
        vectors = kept.of_item(text_of(state), (self._space, state.id))
        if vectors is not None:
            row["model"] = kept.tag
            row[kept.tag] = [list(vector) for vector in vectors] or None

    def waiting(self, limit: int) -> list[str]:
        """Return ids of items that wait for their vectors; none where the store takes none."""
        if self.kept is None:
            return []
        return list(self._points.rows(_waits(self.kept.tag), ["point"], limit)["point"].to_pylist())

    def waiting_count(self) -> int:
        """Count the points that wait for their vectors."""
        return 0 if self.kept is None else self._points.count(_waits(self.kept.tag))

    def of(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors of those of some texts by which items are found."""
        tag = self.searched()
        if tag is None:
            return {}
        by_key = {text_key(text): text for text in texts}
        rows = self._points.rows_with("said", list(by_key), ["said", tag], also=sql.equals("model", tag))
        return {by_key[row["said"]]: row[tag] or [] for row in rows}

    def drop_others(self) -> None:
        """Delete the vectors of every model but the present one."""
        tag = "" if self.kept is None else self.kept.tag
        self._points.drop_columns([name for name in self._points.columns if name != tag])


def _waits(tag: str) -> str:
    return f"point <> '' AND (model IS NULL OR model <> {sql.text(tag)})"
