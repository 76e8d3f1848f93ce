"""Reading memory graphs of other servers: the reference MCP memory server, rawthink-mcp, and their kin.

`read_graph` takes the bytes of such a file in any known dialect (JSON lines, objects glued together, a
pretty-printed array or object, a byte order mark, epoch times, observations as objects) and never fails:
what it can't read is named by line. `foreign` turns the graph into rows.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rawthink_core.text import has_substance, identity_key, surrogate_at
from rawthink_core.vocabulary import OBSERVATION_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator


_DATES = ("created", "createdAt", "created_at", "timestamp", "_savedAt", "updatedAt", "updated_at")
_ENTITY_KEYS = frozenset(
    {"name", "entityType", "entity_type", "observations", "domain", "epistemic", "visibility",
     "original_type", "reconstructed", "type", "_type", *_DATES}
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
    except (ValueError, RecursionError):
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
        "original_type": _word(value.get("original_type")),
        "reconstructed": value.get("reconstructed"),
    }
    key = identity_key(name)
    entity = graph.entities.get(key)
    if entity is None:
        entity = ForeignEntity(name.strip(), _word(kind), fields, _date(value))
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
    entity.observations.append(
        ForeignObservation(
            text,
            kind if kind in OBSERVATION_KINDS else "note",
            _date(given),
            "invalidated" if given.get("status") == "invalidated" else "active",
            given.get("invalidated_at"),
            _word(given.get("superseded_by")),
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
    graph.relations.append(ForeignRelation(line, source, _word(kind), target, _date(value)))


def _unusable(text: str, *, name: bool = True) -> str | None:
    if surrogate_at(text) is not None:
        return "holds half of a character (a lone surrogate)"
    if (name and not has_substance(text)) or not text.strip():
        return "is blank"
    return None


def _word(value: object) -> str | None:
    """Return a text that can be kept; None where it is none, or holds half of a character."""
    return value if isinstance(value, str) and surrogate_at(value) is None else None


def _date(value: dict[str, Any]) -> object:
    return next((value[key] for key in _DATES if value.get(key) is not None), None)
