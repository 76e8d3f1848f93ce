"""Memory graphs of other servers as rows: with the ids that rule 4 gives them, and the dates that they state.

`dialects` reads the files; both names are to be imported from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rawthink_core.clock import iso
from rawthink_core.commits import Commit
from rawthink_core.dialects import (
    ForeignEntity,
    ForeignGraph,
    ForeignObservation,
    ForeignRelation,
    Problem,
    read_graph,
)
from rawthink_core.errors import InvalidRequest
from rawthink_core.identity import derived_batch_id, entity_id, observation_id, relation_id
from rawthink_core.model import moment, parse_time
from rawthink_core.rows import Row, compact
from rawthink_core.text import identity_key, same_text
from rawthink_core.vocabulary import EPISTEMICS, VISIBILITIES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from rawthink_core.vocabulary import Vocabulary

__all__ = ["ForeignGraph", "Problem", "Settled", "commits_of", "read_graph", "rows_of"]

ROWS_A_COMMIT = 1_000


@dataclass(frozen=True, slots=True)
class Settled:
    """What turning a graph into rows settled, to be told to its owner."""

    rows: tuple[Row, ...]
    stubs: tuple[str, ...]  # names that relations mention and nothing defines
    retyped: int  # items whose type was folded into ours, the original kept
    undated: int  # items that got the file's date


class _Settler:
    def __init__(
        self, graph: ForeignGraph, space: str, vocabulary: Vocabulary, zone: ZoneInfo, fallback: datetime
    ) -> None:
        self.graph, self.space, self.vocabulary, self.zone = graph, space, vocabulary, zone
        self.fallback = iso(fallback)
        self.rows: list[Row] = []
        self.stubs: list[str] = []
        self.retyped = self.undated = 0

    def at(self, date: object, otherwise: str | None = None) -> str:
        try:
            return iso(moment(parse_time(date), self.zone))
        except (ValueError, InvalidRequest):
            if otherwise is None:
                self.undated += 1
            return otherwise or self.fallback

    def entity(self, entity: ForeignEntity, own_id: str, *, known: bool) -> None:
        at = self.at(entity.date)
        kind, original = self.vocabulary.adopted_entity_type(entity.type)
        original = entity.fields.get("original_type") or original
        self.retyped += original is not None
        domain, epistemic = entity.fields.get("domain"), entity.fields.get("epistemic")
        visibility = entity.fields.get("visibility")
        if not known:
            self.rows.append(
                {
                    "op": "entity",
                    "id": own_id,
                    "at": at,
                    "name": entity.name,
                    "entity_type": kind,
                    "domain": self.vocabulary.domain(domain) if isinstance(domain, str) else None,
                    "epistemic": epistemic if epistemic in EPISTEMICS else "unknown",
                    "visibility": visibility if visibility in VISIBILITIES else "private",
                    "original_type": original if isinstance(original, str) else None,
                    "reconstructed": True if entity.fields.get("reconstructed") is True else None,
                }
            )
        used: dict[tuple[str, str], int] = {}
        standing: set[tuple[str, str]] = set()
        for said in entity.observations:
            content = (said.kind, same_text(said.text))
            if content in standing:
                continue
            n = used.get(content, 0)
            used[content] = n + 1
            self.observation(own_id, said, n, at)
            if said.status == "active":
                standing.add(content)

    def observation(self, owner: str, said: ForeignObservation, n: int, entity_at: str) -> None:
        at = self.at(said.date, entity_at)
        own_id = observation_id(self.space, owner, said.kind, said.text, None, n)
        self.rows.append(
            {
                "op": "observation",
                "id": own_id,
                "at": at,
                "entity": owner,
                "kind": said.kind,
                "text": said.text,
            }
        )
        if said.status != "active":
            retired = max(self.at(said.invalidated, at), at)
            self.rows.append(
                {
                    "op": "retire",
                    "of": "observation",
                    "id": own_id,
                    "at": retired,
                    "status": "invalidated",
                    "reason": said.reason,
                }
            )

    def stub(self, name: str, own_id: str) -> None:
        self.stubs.append(name.strip())
        self.rows.append(
            {"op": "entity", "id": own_id, "at": self.fallback, "name": name.strip(), "reconstructed": True}
        )

    def relation(self, link: ForeignRelation, source: str, target: str, seen: set[str]) -> None:
        folded, original = self.vocabulary.adopted_relation(link.type)
        if folded.turned:
            source, target = target, source
        own_id = relation_id(self.space, source, folded.type, target, 0)
        if own_id in seen:
            return
        seen.add(own_id)
        self.retyped += original is not None
        self.rows.append(
            {
                "op": "relation",
                "id": own_id,
                "at": self.at(link.date),
                "source": source,
                "type": folded.type,
                "target": target,
                "original_type": original,
            }
        )


def rows_of(
    graph: ForeignGraph,
    *,
    space: str,
    vocabulary: Vocabulary,
    zone: ZoneInfo,
    fallback: datetime,
    entities: Mapping[str, str] | None = None,
    known: Collection[str] = (),
) -> Settled:
    """Return a graph as rows.

    ``fallback`` dates what has no date of its own (the file's time). ``entities`` maps identity keys to
    entities that the store already has, ``known`` holds ids that need no row: an import takes the difference.
    """
    settler = _Settler(graph, space, vocabulary, zone, fallback)
    ids = dict(entities or {})
    there = set(ids)
    for key, entity in graph.entities.items():
        own_id = ids.setdefault(key, entity_id(space, entity.name))
        settler.entity(entity, own_id, known=key in there)
    seen: set[str] = set()
    for link in graph.relations:
        for name in (link.source, link.target):
            key = identity_key(name)
            if key not in ids:
                ids[key] = entity_id(space, name)
                settler.stub(name, ids[key])
        settler.relation(link, ids[identity_key(link.source)], ids[identity_key(link.target)], seen)
    rows = tuple(compact(row) for row in settler.rows if row["id"] not in known)
    return Settled(rows, tuple(settler.stubs), settler.retyped, settler.undated)


def commits_of(settled: Settled, graph: ForeignGraph, space: str, at: datetime, host: str) -> list[Commit]:
    """Return the commits that bring rows into a store: their ids are the same each time for the same file."""
    rows = settled.rows
    return [
        Commit(
            id=derived_batch_id(host, space, graph.sha256, str(start)),
            at=iso(at),
            space=space,
            rows=rows[start : start + ROWS_A_COMMIT],
            by={"host": host, "client": graph.name},
            request=graph.sha256,
        )
        for start in range(0, len(rows), ROWS_A_COMMIT)
    ]
