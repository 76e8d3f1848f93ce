"""Reading memory graphs of other servers: the reference MCP memory server, rawthink-mcp, and their kin.

`read_graph` takes the bytes of such a file in any known dialect (JSON lines, objects glued together, a
pretty-printed array or object, a byte order mark, epoch times, observations as objects) and never fails:
what it can't read is named by line. `rows_of` turns the graph into rows with the ids that rule 4 gives
them, and the dates that the file states.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from rawthink_core.clock import iso
from rawthink_core.commits import Commit
from rawthink_core.errors import InvalidRequest
from rawthink_core.identity import derived_batch_id, entity_id, observation_id, relation_id
from rawthink_core.model import moment, parse_time
from rawthink_core.rows import Row, compact
from rawthink_core.text import has_substance, identity_key, same_text, surrogate_at
from rawthink_core.vocabulary import EPISTEMICS, OBSERVATION_KINDS, VISIBILITIES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from zoneinfo import ZoneInfo

    from rawthink_core.vocabulary import Vocabulary

ROWS_A_COMMIT = 1_000
_DATES = ("created", "createdAt", "created_at", "timestamp", "_savedAt", "updatedAt", "updated_at")
_ENTITY_KEYS = frozenset(
    {"name", "entityType", "entity_type", "observations", "domain", "epistemic", "visibility", "original_type",
     "reconstructed", "type", "_type", *_DATES}
)  # fmt: skip
_OBSERVATION_KEYS = frozenset(
    {"text", "content", "kind", "status", "invalidated_at", "superseded_by", *_DATES}
)
_RELATION_KEYS = frozenset(
    {"from", "to", "relationType", "relation_type", "original_type", "type", "_type", *_DATES}
)


class Problem(NamedTuple):
    """Something in a file that was not used. ``line`` counts from 1; 0 means the file as a whole."""

    line: int
    what: str


@dataclass(slots=True)
class ForeignObservation:
    """Something said about an entity. ``status`` is ``active`` or ``invalidated``."""

    text: str
    kind: str = "note"
    date: object = None
    status: str = "active"
    invalidated: object = None
    reason: str | None = None


@dataclass(slots=True)
class ForeignEntity:
    """An entity as the file has it; several with one identity key were merged."""

    name: str
    type: str | None
    fields: dict[str, Any]
    date: object
    observations: list[ForeignObservation] = field(default_factory=list)


@dataclass(slots=True)
class ForeignRelation:
    """A relation as the file has it."""

    line: int
    source: str
    type: str | None
    target: str
    date: object


@dataclass(slots=True)
class ForeignGraph:
    """What a file holds, and what in it could not be used."""

    name: str
    sha256: str
    entities: dict[str, ForeignEntity] = field(default_factory=dict)  # by identity key, in file order
    relations: list[ForeignRelation] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    merged: int = 0  # entities whose name was there already
    unused: Counter[str] = field(default_factory=Counter)  # keys with no place here, and how often

    @property
    def observations(self) -> int:
        """The number of observations."""
        return sum(len(entity.observations) for entity in self.entities.values())

    @property
    def empty(self) -> bool:
        """Whether nothing in the file could be used."""
        return not self.entities and not self.relations


def read_graph(data: bytes, name: str) -> ForeignGraph:
    """Read a memory graph file. Never raises for its content; ``problems`` names what can't be used."""
    graph = ForeignGraph(name, hashlib.sha256(data).hexdigest())
    for line, value in _values(data, graph):
        if isinstance(value, dict) and _is_relation(value):
            _read_relation(graph, line, value)
        elif isinstance(value, dict) and isinstance(value.get("name"), str) and _is_entity(value):
            _read_entity(graph, line, value)
        elif isinstance(value, dict):
            keys = ", ".join(sorted(map(str, value))[:6])
            graph.problems.append(
                Problem(line, f"is neither an entity nor a relation (it has: {keys or 'nothing'})")
            )
        else:
            graph.problems.append(Problem(line, f"is a {type(value).__name__}, not an object"))
    return graph


def _is_relation(value: dict[str, Any]) -> bool:
    return "from" in value and "to" in value


def _is_entity(value: dict[str, Any]) -> bool:
    declared = value.get("type", value.get("_type"))
    return declared == "entity" or "entityType" in value or "entity_type" in value or "observations" in value


# --- the container ------------------------------------------------------------------------------


def _values(data: bytes, graph: ForeignGraph) -> Iterator[tuple[int, Any]]:
    """Yield the JSON values of a file with their line, in any container."""
    try:
        whole = json.loads(data.decode("utf-8-sig"))
    except ValueError:
        yield from _lines(data, graph)
        return
    if isinstance(whole, dict) and not _is_relation(whole) and ("entities" in whole or "relations" in whole):
        parts = [whole.get("entities"), whole.get("relations")]
    elif isinstance(whole, list):
        parts = [whole]
    else:
        yield 1, whole
        return
    for part in parts:
        if part is not None and not isinstance(part, list):
            graph.problems.append(Problem(0, f"holds a {type(part).__name__} where a list of items belongs"))
        for value in part if isinstance(part, list) else []:
            yield 0, value


def _lines(data: bytes, graph: ForeignGraph) -> Iterator[tuple[int, Any]]:
    decoder = json.JSONDecoder()
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            text = raw.decode("utf-8").strip()
        except UnicodeDecodeError:
            graph.problems.append(Problem(number, "is not UTF-8 text"))
            continue
        while text:
            try:
                value, end = decoder.raw_decode(text)
            except (ValueError, RecursionError):
                graph.problems.append(Problem(number, "is not whole JSON (a torn or damaged line)"))
                break
            yield number, value
            text = text[end:].lstrip().removeprefix(",").lstrip()


# --- entities and relations ---------------------------------------------------------------------


def _read_entity(graph: ForeignGraph, line: int, value: dict[str, Any]) -> None:
    name = value["name"]
    if problem := _unusable(name):
        graph.problems.append(Problem(line, f"the entity's name {problem}"))
        return
    graph.unused.update(key for key in value if key not in _ENTITY_KEYS)
    kind = value.get("entityType", value.get("entity_type"))
    fields = {
        "domain": value.get("domain"),
        "epistemic": value.get("epistemic"),
        "visibility": value.get("visibility"),
        "original_type": value.get("original_type"),
        "reconstructed": value.get("reconstructed"),
    }
    key = identity_key(name)
    entity = graph.entities.get(key)
    if entity is None:
        text_kind = kind if isinstance(kind, str) else None
        entity = ForeignEntity(name.strip(), text_kind, fields, _date(value))
        graph.entities[key] = entity
    else:
        graph.merged += 1
    said = value.get("observations", [])
    if isinstance(said, str):
        said = [said]
    if not isinstance(said, list):
        graph.problems.append(Problem(line, f"its observations are a {type(said).__name__}, not a list"))
        return
    for observation in said:
        _read_observation(graph, line, entity, observation)


def _read_observation(graph: ForeignGraph, line: int, entity: ForeignEntity, value: object) -> None:
    given: dict[str, Any] = value if isinstance(value, dict) else {"text": value}
    text = given.get("text", given.get("content"))
    if not isinstance(text, str):
        graph.problems.append(Problem(line, "one of its observations has no text"))
        return
    if (problem := _unusable(text, name=False)) is not None:
        graph.problems.append(Problem(line, f"one of its observations {problem}"))
        return
    graph.unused.update(key for key in given if key not in _OBSERVATION_KEYS)
    kind = given.get("kind")
    reason = given.get("superseded_by")
    entity.observations.append(
        ForeignObservation(
            text,
            kind if kind in OBSERVATION_KINDS else "note",
            _date(given),
            "invalidated" if given.get("status") == "invalidated" else "active",
            given.get("invalidated_at"),
            reason if isinstance(reason, str) else None,
        )
    )


def _read_relation(graph: ForeignGraph, line: int, value: dict[str, Any]) -> None:
    source, target = value["from"], value["to"]
    for end in (source, target):
        if not isinstance(end, str) or _unusable(end):
            graph.problems.append(Problem(line, "an end of the relation has no usable name"))
            return
    if identity_key(source) == identity_key(target):
        graph.problems.append(Problem(line, "relates an entity to itself"))
        return
    graph.unused.update(key for key in value if key not in _RELATION_KEYS)
    kind = value.get("relationType", value.get("relation_type"))
    text_kind = kind if isinstance(kind, str) and surrogate_at(kind) is None else None
    graph.relations.append(ForeignRelation(line, source, text_kind, target, _date(value)))


def _unusable(text: str, *, name: bool = True) -> str | None:
    if surrogate_at(text) is not None:
        return "holds half of a character (a lone surrogate)"
    if (name and not has_substance(text)) or not text.strip():
        return "is blank"
    return None


def _date(value: dict[str, Any]) -> object:
    return next((value[key] for key in _DATES if value.get(key) is not None), None)


# --- rows ---------------------------------------------------------------------------------------


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
