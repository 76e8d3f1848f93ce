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

from rawthink_conformance.agreement import agree_on_hits
from rawthink_conformance.alphabet import (
    NAMES,
    QUESTIONS,
    SPACES,
    TURNS,
    causes,
    entities,
    kinds,
    names,
    observations,
    passages,
    places,
    relations,
    spaces,
    successors,
    texts,
    times,
)
from rawthink_conformance.expect import Broken, equal
from rawthink_conformance.pair import Pair
from rawthink_conformance.suite import spoil
from rawthink_conformance.talking import EVERY_STATUS
from rawthink_core.model import Observation, Passage, Relation
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from collections.abc import Callable

    from rawthink_conformance.bench import Subject
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


class _MakeProvider:
    """A function as a subject of checks."""

    def __init__(self, make: Callable[[World], Provider]) -> None:
        self._make = make

    def make_provider(self, world: World) -> Provider:
        return self._make(world)

    def make_unusable(self, world: World) -> None:
        spoil(world)


class Lockstep(Pair, RuleBasedStateMachine):
    """Drives the provider of ``subject`` and the reference. Use `machine_for` to make a subclass."""

    subject: Subject

    def __init__(self) -> None:
        RuleBasedStateMachine.__init__(self)
        Pair.__init__(self, self.subject, SPACES)

    @initialize()
    def begin(self) -> None:
        """Open both, and write a little, so that the first move already has something to change."""
        self.open()
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
        """Compare the other space too, and close both."""
        self.close(NAMES)

    # --- moves ----------------------------------------------------------------------------------

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
        mine, theirs = (self.outcome(each.record(batch)) for each in self.two(batch.scope.space))
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
        if self.opened:
            self.compare(NAMES)


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
    except Exception as error:
        told = "\n".join(getattr(error, "__notes__", ())).splitlines()
        story = "\n".join(line for line in told if line != "state.they_agree()")
        what = error if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
        raise Broken(f"{what}\n{story}") from error
