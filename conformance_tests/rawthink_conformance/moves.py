"""The moves of the state machine that write: batches, turns, revisions, and a process that is killed.

Each is made by the provider and by the reference, and answered alike; `step` writes it down for the story.
"""

from __future__ import annotations

from copy import deepcopy
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from rawthink_conformance.alphabet import (
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
from rawthink_conformance.expect import equal
from rawthink_conformance.pair import Pair
from rawthink_core.model import Observation, Passage, Relation

if TYPE_CHECKING:
    from collections.abc import Callable

    from rawthink_conformance.bench import Subject
    from rawthink_conformance.story import Step

MOST_CRASHES = 1  # in one story: each takes a process


def step(move: Callable[..., None]) -> Callable[..., None]:
    """Write a move of the machine down before it is made."""

    @wraps(move)
    def written(self: Any, **arguments: Any) -> None:
        self.steps.append((move.__name__, deepcopy(arguments)))
        move(self, **arguments)

    return written


class Writes(Pair, RuleBasedStateMachine):
    """Writes to the provider of ``subject`` and to the reference."""

    subject: Subject
    told: ClassVar[list[Step]]  # of the machine that ran last, step by step

    def __init__(self) -> None:
        RuleBasedStateMachine.__init__(self)
        Pair.__init__(self, self.subject, SPACES)
        self.steps: list[Step] = []
        type(self).told = self.steps
        self.crashes = 0
        self.durable = False

    @rule(
        space=spaces,
        entities=st.lists(entities, max_size=2),
        observations=st.lists(observations, max_size=3),
        relations=st.lists(relations, max_size=1),
        passages=st.lists(passages, max_size=2),
    )
    @step
    def record(self, space: str, **items: list[dict[str, Any]]) -> None:
        """Record a few of everything; much of it refers to what is not there."""
        self.send(self.bench.space(space).batch(**items))

    @rule(
        space=spaces,
        names=st.lists(names, min_size=1, max_size=3),
        texts=st.lists(texts, max_size=3),
        kind=kinds,
    )
    @step
    def tell(self, space: str, names: list[str], texts: list[str], kind: str) -> None:
        """Record entities and something about the first of them: most often this is accepted."""
        named = [{"name": name, "entity_type": "concept", "domain": "software"} for name in names]
        said = [{"entity": names[0], "text": text, "kind": kind} for text in texts]
        linked = [{"source": names[0], "type": "uses", "target": name} for name in names[1:2]]
        self.send(self.bench.space(space).batch(entities=named, observations=said, relations=linked))

    @rule(space=spaces, name=names, text=texts, because=texts, valid_from=times, supersedes=st.none() | names)
    @step
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
    @step
    def talk(self, space: str, texts: list[str], session: str) -> None:
        """Record turns of a session."""
        turns = [{"session": session, "text": text} for text in texts]
        self.send(self.bench.space(space).batch(passages=turns))

    @rule(space=spaces, place=places, successor=successors, cause=causes, also=st.none() | places)
    @step
    def revise_by_id(self, space: str, place: int, successor: Any, cause: str, also: int | None) -> None:
        """Revise whatever is at some place of the store, and sometimes another with it."""
        kinds = (Observation, Passage) if successor else (Observation, Passage, Relation)
        targets = [{"id": self.some_id(space, at, *kinds)} for at in (place, also) if at is not None]
        change = {"targets": targets, "successor": successor, "cause": cause, "reason": "because"}
        self.send(self.bench.space(space).batch(revisions=[change]))

    @rule(space=spaces, place=places, narrowed=st.booleans(), successor=successors, cause=causes)
    @step
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
        change = {"successor": successor, "cause": cause, "batch_id": self.bench.new_batch_id()}
        self.both("the answer to a revision", lambda each: each.revise(target, **change), space)

    @rule(
        space=spaces,
        entity=names,
        fields=st.fixed_dictionaries(
            {"name": names}, optional={"aliases": st.lists(names, max_size=2), "domain": st.just("music")}
        ),
    )
    @step
    def change_fields(self, space: str, entity: str, fields: dict[str, Any]) -> None:
        """Rename an entity, or give it other fields."""
        change = {"targets": [{"entity": entity}], "fields": fields, "reason": "renamed"}
        self.send(self.bench.space(space).batch(revisions=[change]))

    @rule(space=spaces, place=places, successor=st.none() | names, cause=causes)
    @step
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
    @step
    def send_again(self, place: int) -> None:
        """Send an old batch again."""
        batch = self.sent[place % len(self.sent)]
        mine, theirs = (self.outcome(each.record(batch)) for each in self.two(batch.scope.space))
        if not self.forgotten[batch.scope.space]:  # a receipt need not remember what was erased
            equal(mine, theirs, "the answer to an old batch")

    @precondition(lambda self: self.durable and self.crashes < MOST_CRASHES)
    @rule(space=spaces, name=names, texts=st.lists(texts, min_size=1, max_size=3), rarely=st.integers(0, 7))
    @step
    def crash(self, space: str, name: str, texts: list[str], rarely: int) -> None:
        """Let another process write, and kill it as soon as it has: now and then, for processes take time."""
        named = {"name": name, "entity_type": "concept", "domain": "software"}
        said = [{"entity": name, "text": text} for text in texts]
        batch = self.bench.space(space).batch(entities=[named], observations=said)
        if rarely:
            self.send(batch)
            return
        self.crashes += 1
        self.run(self.write_and_be_killed(batch))

    @rule(
        space=spaces,
        texts=st.lists(st.sampled_from(TURNS), min_size=1, max_size=2),
        session=st.sampled_from(("s1", "s2")),
    )
    @step
    def chat(self, space: str, texts: list[str], session: str) -> None:
        """Finish a turn of a conversation."""
        turn, said = self.bench.new_batch_id(), [{"session": session, "text": text} for text in texts]
        self.both("the answer to a turn", lambda each: each.after_chat(turn, said), space)
