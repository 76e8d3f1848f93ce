"""What importing another server's memory file into an open memory would add: the difference, as commits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from rawthink_cli import telling, waiting
from rawthink_core.clock import SystemClock
from rawthink_core.foreign import ForeignGraph, Settled, commits_of, read_graph, rows_of
from rawthink_core.model import Entity
from rawthink_core.rows import CREATES
from rawthink_core.text import identity_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rawthink_core.commits import Commit
    from rawthink_core.memory import Memory
    from rawthink_core.vocabulary import Vocabulary

_AT_ONCE = 500  # names or ids that are asked for together


@dataclass(frozen=True)
class Plan:
    """The commits that bring a file's difference into the memory, and what there is to say about it."""

    commits: list[Commit]
    created: dict[str, str]  # the kind of each new item, by id
    found: dict[str, int]
    new: dict[str, int]
    notes: list[str]
    problems: list[dict[str, int | str]]


async def plan(memory: Memory, vocabulary: Vocabulary, file: str, data: bytes) -> Plan:
    """Return what a file would add to a memory. Writes nothing."""
    graph = read_graph(data, Path(file).name)
    mentioned = {end for link in graph.relations for end in (link.source, link.target)}
    names = list(dict.fromkeys([*(entity.name for entity in graph.entities.values()), *mentioned]))
    settled = rows_of(
        graph,
        space=memory.scope.space,
        vocabulary=vocabulary,
        zone=ZoneInfo(memory.info.timezone),
        fallback=_time_of(file),
        entities=await _entities(memory, names),
    )
    known = await _known(memory, list(dict.fromkeys(row["id"] for row in settled.rows)))
    fresh = replace(settled, rows=tuple(row for row in settled.rows if row["id"] not in known))
    created: dict[str, str] = {row["id"]: CREATES[row["op"]] for row in fresh.rows if row["op"] in CREATES}
    problems: list[dict[str, int | str]] = [{"line": p.line, "what": p.what} for p in graph.problems]
    if graph.empty and not problems:
        problems.append({"line": 0, "what": "the file holds no memory graph"})
    return Plan(
        commits=commits_of(fresh, graph, memory.scope.space, SystemClock().now(), "import"),
        created=created,
        found={
            "entity": len(graph.entities),
            "observation": graph.observations,
            "relation": len(graph.relations),
        },
        new=dict(Counter(created.values())),
        notes=list(_notes(graph, settled)),
        problems=problems,
    )


async def arrived(memory: Memory, plan: Plan) -> dict[str, int]:
    """Return how many new items of each kind are here now: what was forgotten once stays forgotten."""
    known = await _known(memory, list(plan.created))
    return dict(Counter(kind for item, kind in plan.created.items() if item in known))


def _time_of(file: str) -> datetime:
    """Return when a file was last changed: what dates the things that state no date."""
    try:
        return datetime.fromtimestamp(Path(file).expanduser().stat().st_mtime, UTC)
    except OSError:
        return SystemClock().now()


async def _entities(memory: Memory, names: Sequence[str]) -> dict[str, str]:
    """Return the ids of the entities that the memory has under these names, by identity key."""
    ids: dict[str, str] = {}
    with waiting.bar(_parts(names), "looking for names") as parts:
        for part in parts:
            for item in (await memory.get(names=part)).items:
                if isinstance(item, Entity):
                    former = [v.value for v in item.versions if v.field == "name"]
                    ids.update((identity_key(name), item.id) for name in (item.name, *item.aliases, *former))
    return ids


async def _known(memory: Memory, ids: Sequence[str]) -> set[str]:
    """Return which of these ids the memory has."""
    with waiting.bar(_parts(ids), "looking for what is new") as parts:
        return {item.id for part in parts for item in (await memory.get(*part)).items}


def _parts(things: Sequence[str]) -> list[Sequence[str]]:
    return [things[start : start + _AT_ONCE] for start in range(0, len(things), _AT_ONCE)]


def _notes(graph: ForeignGraph, settled: Settled) -> Iterator[str]:
    """Yield what was settled on the way, a sentence each."""
    if graph.merged:
        yield f"{telling.count(graph.merged, 'entity')} merged with one of the same name"
    if settled.retyped:
        yield f"{telling.count(settled.retyped, 'type')} read as one of ours, the original kept and shown"
    if settled.stubs:
        named = ", ".join(settled.stubs)
        yield f"{telling.count(len(settled.stubs), 'entity')} made up, since relations end there: {named}"
    if settled.undated:
        yield f"{telling.count(settled.undated, 'item')} without a date of their own got the file's"
    if graph.unused:
        unused = ", ".join(f"{key} ({n})" for key, n in graph.unused.most_common())
        yield f"fields with no place here: {unused}"
