"""A store that is nothing but a list of rows: what the tests of planning write to and look into."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

from rawthink_conformance.brute import facts
from rawthink_core.clock import iso
from rawthink_core.commits import Commit, digest, receipt_of
from rawthink_core.graph import Facts, Needs, Rules, Slice, needs, plan, prepare
from rawthink_core.model import Entity, Item, Observation, Passage, Relation
from rawthink_core.operations import Batch, RecordReceipt, parse
from rawthink_core.rows import Row, Stamped, State, ends_of, fold, noun
from rawthink_core.vocabulary import DEFAULT_VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from rawthink_core.selection import Selection

SPACE = "home"
START = datetime(2026, 1, 1, tzinfo=UTC)
RULES = Rules(DEFAULT_VOCABULARY, ZoneInfo("UTC"))


def batch(batch_id: str = "batch", **parts: Any) -> Batch:
    """Return a batch of the tests' space."""
    return parse(Batch, {"id": batch_id, "scope": {"space": SPACE}, **parts})


def entity(name: str, **more: Any) -> dict[str, Any]:
    """Return a new entity with what is required filled in."""
    return {"name": name, "entity_type": "thing", "domain": "software", **more}


class Ledger:
    """Rows of one space, a second between one commit and the next."""

    def __init__(self, rules: Rules = RULES) -> None:
        self.rules = rules
        self.rows: defaultdict[str, list[Stamped]] = defaultdict(list)
        self.commits: list[Commit] = []
        self.fetched: list[Needs] = []  # what was asked for by the last batch, round by round

    def states(self, as_of: str | None = None) -> dict[str, State]:
        """Return the state of every item."""
        found = {item: fold(rows, as_of) for item, rows in self.rows.items()}
        return {item: state for item, state in found.items() if state is not None}

    def at(self, number: int) -> datetime:
        """Return the time of the commit with a number, the first being 1."""
        return START + timedelta(seconds=number)

    def plan(self, asked: Batch) -> tuple[Row, ...]:
        """Return the rows that a batch comes to, fetching what it needs."""
        states, work, known = self.states(), prepare(asked, self.rules), Slice()
        self.fetched, at = [], self.at(len(self.commits) + 1)
        while wanted := needs(work, known, at):
            self.fetched.append(wanted)
            known.learn(facts(wanted, states))
        return plan(work, known, at)

    def plan_of(self, **parts: Any) -> tuple[Row, ...]:
        """Return the rows that a batch of these parts would come to."""
        return self.plan(batch("planned", **parts))

    def write(self, asked: Batch) -> RecordReceipt:
        """Plan and keep a batch."""
        at = self.at(len(self.commits) + 1)
        commit = Commit(asked.id, iso(at), SPACE, self.plan(asked), None, digest(asked))
        self.keep(commit)
        return receipt_of(commit)

    def keep(self, commit: Commit) -> None:
        """Keep a commit as it is."""
        self.commits.append(commit)
        for stamped in commit.stamped():
            self.rows[stamped.row["id"]].append(stamped)

    def record(self, **parts: Any) -> RecordReceipt:
        """Write a batch of these parts."""
        return self.write(batch(f"batch {len(self.commits) + 1}", **parts))

    def revise(self, *targets: dict[str, Any], **change: Any) -> RecordReceipt:
        """Write a batch of one change."""
        return self.record(revisions=[{"targets": targets, **change}])

    def forget(self, *ids: str) -> None:
        """Erase items: their rows go, a mark stays."""
        states = self.states()
        marks = tuple({"op": "forgotten", "of": states[item].kind, "id": item} for item in ids)
        for item in ids:
            self.rows[item].clear()
        self.keep(Commit(f"forget {len(self.commits)}", iso(self.at(len(self.commits) + 1)), SPACE, marks))

    # --- looking --------------------------------------------------------------------------------

    def item(self, item_id: str, as_of: str | None = None) -> Item:
        """Return an item."""
        states = self.states(as_of)
        return noun(states[item_id], lambda owner: str(states[owner].value("name")))

    def items(self) -> list[Item]:
        """Return every item, in the order of creation."""
        states = sorted(
            (s for s in self.states().values() if not s.forgotten), key=lambda s: (s.recorded_at, s.id)
        )
        return [self.item(state.id) for state in states]

    def entity(self, name: str) -> Entity:
        """Return the entity that is now called so."""
        return next(item for item in self.items() if isinstance(item, Entity) and item.name == name)

    def said(self, text: str) -> Observation:
        """Return the only observation with a text."""
        (found,) = (item for item in self.items() if isinstance(item, Observation) and item.text == text)
        return found

    def texts(self, status: str = "active") -> list[str]:
        """Return the texts of observations and passages with a status."""
        spoken = (item for item in self.items() if isinstance(item, Observation | Passage))
        return [item.text for item in spoken if item.status == status]

    def relations(self, status: str = "active") -> list[tuple[str, str, str]]:
        """Return source, type and target of the relations with a status."""
        found = (item for item in self.items() if isinstance(item, Relation))
        return [(r.source_name, r.type, r.target_name) for r in found if r.status == status]


class Reader:
    """The look-ups that `reading` asks of a store, over a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def states(self, ids: Collection[str], as_of: str | None) -> Mapping[str, State]:
        states = self.ledger.states(as_of)
        found = {item: states[item] for item in ids if item in states}
        owners = {end for state in found.values() if not state.forgotten for end in ends_of(state)}
        return found | {end: states[end] for end in owners if end in states}

    def named(self, keys: Collection[str]) -> Mapping[str, str]:
        entities = [s for s in self.ledger.states().values() if s.kind == "entity" and not s.forgotten]
        return {key: state.id for state in entities for key in state.identity_keys() & set(keys)}

    def about(self, entities: Collection[str], as_of: str | None) -> list[State]:
        return self._touching("observation", entities, as_of)

    def links(self, entities: Collection[str], as_of: str | None) -> list[State]:
        return self._touching("relation", entities, as_of)

    def following(self, chosen: Selection, at: str, item: str, limit: int) -> Iterator[State]:
        states = sorted(self.ledger.states(chosen.as_of).values(), key=lambda s: (s.recorded_at, s.id))
        behind = (state for state in states if (state.recorded_at, state.id) > (at, item))
        return islice((state for state in behind if chosen.passes(state, None)), limit)

    def _touching(self, kind: str, entities: Collection[str], as_of: str | None) -> list[State]:
        found = (s for s in self.ledger.states(as_of).values() if s.kind == kind and not s.forgotten)
        return [state for state in found if set(ends_of(state)) & set(entities)]


def complete(states: dict[str, State], asked: tuple[Needs, ...]) -> Slice:
    """Return a slice that knows all of a world, and therefore has an answer for each of these needs."""
    known = Slice()
    fields = {name: frozenset().union(*(getattr(n, name) for n in asked)) for name in Needs.__slots__}
    everything = Needs(**cast("dict[str, Any]", fields))
    known.learn(Facts(everything, states.values(), facts(everything, states).ordinals))
    return known
