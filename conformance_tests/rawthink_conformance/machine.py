"""A state machine (Hypothesis) that drives a provider and the reference in lockstep, and compares them.

Names, texts and keys come from a small alphabet in several languages in which much collides: the same
name in two spellings, the same text said twice, a batch sent again, a clock that goes backwards. After every
step both must have answered alike, with their receipts, their refusals and every verb; and what holds of any
memory must hold (`agreement.laws`), so that a fault of the core, which both share, shows as well.

::

    TestMachine = machine_for(make_provider).TestCase        # at length
    TestMachine.settings = hypothesis.settings(max_examples=500)
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rawthink_conformance.agreement import agree, agree_on_hits, kept, laws, plain
from rawthink_conformance.bench import EVERY_STATUS, Bench, Space
from rawthink_conformance.expect import Broken, equal
from rawthink_conformance.reference import ReferenceProvider
from rawthink_conformance.suite import spoil
from rawthink_core.errors import AlreadyRevised, InvalidRequest, RawThinkError
from rawthink_core.model import Observation, Passage, Relation
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from rawthink_conformance.bench import Subject
    from rawthink_core.model import Item
    from rawthink_core.operations import Batch
    from rawthink_core.provider import Provider, World

FAST = settings(
    max_examples=15,
    stateful_step_count=40,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],  # to shorten a story takes minutes
    suppress_health_check=list(HealthCheck),
)
DEEP = settings(
    FAST,
    max_examples=300,
    stateful_step_count=60,
    derandomize=False,
    phases=[Phase.generate, Phase.shrink],
)

NAMES = ("Redis", "redis ", "İstanbul", "istanbul", "ılık", "c++", "部署方案", "api: cache")
TEXTS = (
    "is fast",
    " is fast\n",
    "cafe\u0301",
    "café",
    "今天讨论了部署方案",
    "İstanbul'da toplantı",
    "c++ is fast",
)
TURNS = (*TEXTS, "line\u2028separator", "ok")
QUESTIONS = ("fast", "istanbul", "部署", "c++", "cafe separator", "redis")
TIMES = (None, None, "2025-01-01", "2025-06-01T12:00:00.500+03:00", "2027-01-01")
SPACES = ("team", "team ")

spaces = st.sampled_from((SPACES[0], SPACES[0], SPACES[0], SPACES[1]))
names = st.sampled_from(NAMES)
texts = st.sampled_from(TEXTS)
times = st.sampled_from(TIMES)
kinds = st.sampled_from(("note", "note", "decided", "because", "rejected"))
relation_types = st.sampled_from(("uses", "used_by", "supersedes", "related_to", "connected_to"))
entities = st.fixed_dictionaries(
    {"name": names, "entity_type": st.just("concept"), "domain": st.just("software")},
    optional={
        "epistemic": st.sampled_from(("hypothesis", "assertion")),
        "aliases": st.lists(names, max_size=1),
        "supersedes": names,
    },
)
observations = st.fixed_dictionaries({"entity": names, "text": texts, "kind": kinds, "valid_from": times})
relations = st.fixed_dictionaries({"source": names, "type": relation_types, "target": names})
passages = st.fixed_dictionaries(
    {"session": st.sampled_from(("s1", "s2")), "text": st.sampled_from(TURNS)},
    optional={"key": st.sampled_from(("m1", "m2"))},
)
successors = st.none() | st.fixed_dictionaries({"text": texts})
causes = st.sampled_from(("corrected", "changed"))
places = st.integers(min_value=0, max_value=40)


class _MakeProvider:
    """A function as a subject of checks."""

    def __init__(self, make: Callable[[World], Provider]) -> None:
        self._make = make

    def make_provider(self, world: World) -> Provider:
        return self._make(world)

    def make_unusable(self, world: World) -> None:
        spoil(world)


class Lockstep(RuleBasedStateMachine):
    """Drives the provider of ``subject`` and the reference. Use `machine_for` to make a subclass."""

    subject: Subject

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.bench = Bench(self.subject)
        self.reference = ReferenceProvider(self.bench.new_world("reference"))
        self.sent: list[Batch] = []
        self.touched = SPACES[0]
        self.seen: dict[str, dict[str, Item]] = {space: {} for space in SPACES}
        self.forgotten: dict[str, set[str]] = {space: set() for space in SPACES}

    def run(self, work: Awaitable[Any]) -> Any:
        """Wait for something in the machine's event loop."""

        async def wait() -> Any:
            return await work

        return self.runner.run(wait())

    @initialize()
    def begin(self) -> None:
        """Open both, and write a little, so that the first move already has something to change."""
        self.run(self.bench.__aenter__())
        self.run(self.reference.open())
        named = {"entity_type": "concept", "domain": "software"}
        self.send(
            self.bench.space(SPACES[0]).batch(
                entities=[{"name": name, **named} for name in ("Redis", "istanbul")],
                observations=[{"entity": "Redis", "text": text} for text in ("is fast", "café")],
                relations=[{"source": "Redis", "type": "used_by", "target": "İstanbul"}],
                passages=[{"session": "s1", "key": "m1", "text": "ok"}],
            )
        )

    def teardown(self) -> None:
        """Close both, and compare the other space too."""
        try:
            if hasattr(self.bench, "provider"):
                for space in SPACES:
                    self.touched = space
                    self.they_agree()
        finally:
            self.run(self.bench.__aexit__(None, None, None))
            self.run(self.reference.close())
            self.runner.close()

    # --- the two, spoken to at once -------------------------------------------------------------

    def two(self, space: str) -> tuple[Space, Space]:
        """Return a space of either."""
        self.touched = space
        return self.bench.space(space), self.bench.space(space, self.reference)

    def both(self, what: str, call: Callable[[Space], Coroutine[Any, Any, Any]], space: str) -> Any:
        """Ask both for the same and require the same answer, or the same refusal, which changes nothing."""
        mine, theirs = (self._outcome(call(each)) for each in self.two(space))
        equal(mine, theirs, what)
        return mine

    def _outcome(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return plain(self.run(work))
        except AlreadyRevised as error:
            return "AlreadyRevised", error.target, error.successor
        except InvalidRequest as error:
            return type(error).__name__, sorted((fault.where, fault.problem) for fault in error.faults)
        except RawThinkError as error:
            return type(error).__name__, ""

    def some_id(self, space: str, place: int, *kinds: type[Item]) -> str:
        """Return the id of an item of a space, of any or of given kinds; or one that is nowhere."""
        ids = sorted(item.id for item in self.seen[space].values() if not kinds or isinstance(item, kinds))
        return ids[place % len(ids)] if ids else "nowhere"

    # --- moves ----------------------------------------------------------------------------------

    def send(self, batch: Batch) -> None:
        """Send a batch to both."""
        self.sent.append(batch)
        self.both("the answer to a batch", lambda space: space.record(batch), batch.scope.space)

    @rule(
        space=spaces,
        entities=st.lists(entities, max_size=2),
        observations=st.lists(observations, max_size=3),
        relations=st.lists(relations, max_size=1),
        passages=st.lists(passages, max_size=2),
    )
    def record(self, space: str, **items: list[dict[str, Any]]) -> None:
        """Record a few of everything; much of it refers to what is not there."""
        self.send(self.bench.space(space).batch(**items))

    @rule(
        space=spaces,
        names=st.lists(names, min_size=1, max_size=3),
        texts=st.lists(texts, max_size=3),
        kind=kinds,
    )
    def tell(self, space: str, names: list[str], texts: list[str], kind: str) -> None:
        """Record entities and something about the first of them: most often this is accepted."""
        named = [{"name": name, "entity_type": "concept", "domain": "software"} for name in names]
        said = [{"entity": names[0], "text": text, "kind": kind} for text in texts]
        linked = [{"source": names[0], "type": "uses", "target": name} for name in names[1:2]]
        self.send(self.bench.space(space).batch(entities=named, observations=said, relations=linked))

    @rule(space=spaces, name=names, text=texts, because=texts, valid_from=times, supersedes=st.none() | names)
    def decide(
        self, space: str, name: str, text: str, because: str, valid_from: str | None, supersedes: str | None
    ) -> None:
        """Decide something, again or in place of another decision."""
        entity = {"name": name, "entity_type": "concept", "domain": "software", "supersedes": supersedes}
        said = [
            {"entity": name, "kind": "decided", "text": text, "valid_from": valid_from},
            {"entity": name, "kind": "because", "text": because},
            {"entity": name, "kind": "rejected", "text": f"not {because}"},
        ]
        self.send(self.bench.space(space).batch(entities=[entity], observations=said))

    @rule(
        space=spaces,
        texts=st.lists(st.sampled_from(TURNS), min_size=1, max_size=3),
        session=st.sampled_from(("s1", "s2")),
    )
    def talk(self, space: str, texts: list[str], session: str) -> None:
        """Record turns of a session."""
        turns = [{"session": session, "text": text} for text in texts]
        self.send(self.bench.space(space).batch(passages=turns))

    @rule(space=spaces, place=places, successor=successors, cause=causes, also=st.none() | places)
    def revise_by_id(self, space: str, place: int, successor: Any, cause: str, also: int | None) -> None:
        """Revise whatever is at some place of the store, and sometimes another with it."""
        kinds = (Observation, Passage) if successor else (Observation, Passage, Relation)
        targets = [{"id": self.some_id(space, at, *kinds)} for at in (place, also) if at is not None]
        change = {"targets": targets, "successor": successor, "cause": cause, "reason": "because"}
        self.send(self.bench.space(space).batch(revisions=[change]))

    @rule(space=spaces, place=places, narrowed=st.booleans(), successor=successors, cause=causes)
    def revise_by_text(self, space: str, place: int, narrowed: bool, successor: Any, cause: str) -> None:
        """Revise what was said of an entity, in the words in which it was said."""
        said = self.seen[space].get(self.some_id(space, place, Observation))
        if not isinstance(said, Observation):
            return
        target = {
            "entity": said.entity_name,
            "text": f" {said.text}",
            "kind": said.kind if narrowed else None,
        }
        change = {"targets": [target], "successor": successor, "cause": cause}
        self.send(self.bench.space(space).batch(revisions=[change]))

    @rule(
        space=spaces,
        entity=names,
        fields=st.fixed_dictionaries(
            {"name": names}, optional={"aliases": st.lists(names, max_size=2), "domain": st.just("music")}
        ),
    )
    def change_fields(self, space: str, entity: str, fields: dict[str, Any]) -> None:
        """Rename an entity, or give it other fields."""
        change = {"targets": [{"entity": entity}], "fields": fields, "reason": "renamed"}
        self.send(self.bench.space(space).batch(revisions=[change]))

    @rule(space=spaces, place=places, successor=st.none() | names, cause=causes)
    def revise_relation(self, space: str, place: int, successor: str | None, cause: str) -> None:
        """Revise a relation by its ends and type."""
        link = self.seen[space].get(self.some_id(space, place, Relation))
        if not isinstance(link, Relation):
            return
        target = {"source": link.source_name, "type": link.type, "target": link.target_name}
        heir = None if successor is None else {"target": successor}
        change = {"targets": [target], "successor": heir, "cause": cause}
        self.send(self.bench.space(space).batch(revisions=[change]))

    @rule(place=places)
    def send_again(self, place: int) -> None:
        """Send an old batch again."""
        batch = self.sent[place % len(self.sent)]
        mine, theirs = (self._outcome(each.record(batch)) for each in self.two(batch.scope.space))
        if not self.forgotten[batch.scope.space]:  # a receipt need not remember what was erased
            equal(mine, theirs, "the answer to an old batch")

    @precondition(lambda self: self.bench.provider.info.can(Capability.FORGET))
    @rule(
        space=spaces,
        place=st.none() | places,
        name=st.none() | names,
        session=st.sampled_from((None, None, "s1")),
    )
    def forget(self, space: str, place: int | None, name: str | None, session: str | None) -> None:
        """Erase an item, an entity or a session."""
        what = {
            "ids": [] if place is None else [self.some_id(space, place)],
            "names": [] if name is None else [name],
            "sessions": [] if session is None else [session],
        }
        receipts = [self.run(each.forget(**what)) for each in self.two(space)]
        erased, missing = (
            [set(getattr(receipt, part)) for receipt in receipts] for part in ("ids", "missing")
        )
        equal(erased[0], erased[1], "what was forgotten")
        equal(missing[0], missing[1], "what was not there to be forgotten")
        self.forgotten[space] |= erased[0]
        self.seen[space] = {item: old for item, old in self.seen[space].items() if item not in erased[0]}

    @rule(step=st.sampled_from((timedelta(seconds=1), timedelta(days=40), timedelta(hours=-1))))
    def wait(self, step: timedelta) -> None:
        """Move the clock, backwards too."""
        self.bench.clock.tick(step)

    @rule()
    def reopen(self) -> None:
        """Close the provider and open it again."""
        self.run(self.bench.reopen())

    @rule(
        space=spaces,
        question=st.sampled_from(QUESTIONS),
        statuses=st.sampled_from((EVERY_STATUS, ("active",))),
    )
    def search(self, space: str, question: str, statuses: tuple[str, ...]) -> None:
        """Search both."""
        info = self.bench.provider.info
        if not info.can(Capability.LEXICAL):
            return
        mine, theirs = (
            self.run(each.search(question, statuses=statuses, limit=100)) for each in self.two(space)
        )
        alike = info.capabilities.get(Capability.RANKING) == "core"
        agree_on_hits(mine, theirs, question, ranked_alike=alike)

    # --- after every step -----------------------------------------------------------------------

    @invariant()
    def they_agree(self) -> None:
        """Compare everything that can be seen of the space that was touched last."""
        if not hasattr(self.bench, "provider"):
            return
        space = self.touched
        mine, theirs = self.two(space)
        self.run(agree(mine, theirs, NAMES))
        seen_by = mine if self.bench.provider.info.can(Capability.SCAN) else theirs
        items = self.run(seen_by.scan(statuses=EVERY_STATUS))
        laws(items)
        kept(self.seen[space], items, self.forgotten[space])
        self.seen[space] = {item.id: item for item in items}


def machine_for(make: Callable[[World], Provider] | Subject) -> type[Lockstep]:
    """Return a state machine for a provider; give a function that makes one on a world, or a subject."""
    subject = make if hasattr(make, "make_provider") else _MakeProvider(make)
    return type("Machine", (Lockstep,), {"subject": subject})


def compare(subject: Subject, *, deep: bool = False) -> None:
    """Run the state machine on a subject. Raises Broken with a story that shows a difference.

    ``deep`` tries far more stories, takes minutes, and tells the shortest.
    """
    try:
        run_state_machine_as_test(machine_for(subject), settings=DEEP if deep else FAST)
    except Broken as error:
        story = "\n".join(getattr(error, "__notes__", ()))
        raise Broken(f"{error}\n{story}") from error
