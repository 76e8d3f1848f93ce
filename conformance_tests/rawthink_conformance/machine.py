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
    names,
    places,
    spaces,
)
from rawthink_conformance.expect import Broken, equal
from rawthink_conformance.moves import Writes, step
from rawthink_conformance.story import retold, script, shortened, tell
from rawthink_conformance.suite import spoil
from rawthink_conformance.talking import EVERY_STATUS
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from collections.abc import Callable

    from rawthink_conformance.bench import Subject
    from rawthink_conformance.story import Step
    from rawthink_core.provider import Provider, World

SHORTEN_SECONDS = 20.0

FAST = settings(
    max_examples=15,
    stateful_step_count=40,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],  # a story is shortened by leaving steps out, which is faster
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

    def as_code(self) -> tuple[str, str]:
        """Return what to import, and how to name it."""
        name = self._make.__qualname__
        if "<" in name:
            return f"# {name} can't be imported: write here what makes a provider on a world", "..."
        return f"from {self._make.__module__} import {name.partition('.')[0]}", name

    def make_provider(self, world: World) -> Provider:
        return self._make(world)

    def make_unusable(self, world: World) -> None:
        spoil(world)


class Lockstep(Writes):
    """Drives the provider of ``subject`` and the reference. Use `machine_for` to make a subclass."""

    @initialize()
    def begin(self) -> None:
        """Open both, and write a little, so that the first move already has something to change."""
        self.open()
        self.durable = self.bench.provider.info.can(Capability.DURABLE)
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

    # --- moves that change nothing, or the store as a whole; those that write are in `moves` ---------

    @precondition(lambda self: self.bench.provider.info.can(Capability.FORGET))
    @rule(
        space=spaces,
        place=st.none() | places,
        name=st.none() | names,
        session=st.sampled_from((None, None, "s1")),
    )
    @step
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

    @rule(by=st.sampled_from((timedelta(seconds=1), timedelta(days=40), timedelta(hours=-1))))
    @step
    def wait(self, by: timedelta) -> None:
        """Move the clock, backwards too."""
        self.bench.clock.tick(by)

    @rule()
    @step
    def reopen(self) -> None:
        """Close the provider and open it again."""
        self.run(self.bench.reopen())

    @rule(space=spaces, question=st.sampled_from(QUESTIONS))
    @step
    def recall(self, space: str, question: str) -> None:
        """Begin a turn of a conversation."""
        info = self.bench.provider.info
        if info.can(Capability.LEXICAL):
            mine, theirs = (self.run(each.before_chat(question)) for each in self.two(space))
            alike = info.capabilities.get(Capability.RANKING) == "core"
            agree_on_hits(mine.items, theirs.items, question, ranked_alike=alike)

    @precondition(lambda self: self.bench.provider.info.can(Capability.HISTORY))
    @rule(space=spaces, name=names, place=places, by_name=st.booleans())
    @step
    def tell_history(self, space: str, name: str, place: int, by_name: bool) -> None:
        """Ask for a history, of something that is there or not."""
        asked = {"name": name} if by_name else {"id": self.some_id(space, place)}
        self.both("a history", lambda each: each.history(**asked), space)

    @rule(
        space=spaces,
        question=st.sampled_from(QUESTIONS),
        statuses=st.sampled_from((EVERY_STATUS, ("active",))),
    )
    @step
    def search(self, space: str, question: str, statuses: tuple[str, ...]) -> None:
        """Search both."""
        info = self.bench.provider.info
        if not info.can(Capability.LEXICAL):
            return
        mine, theirs = (
            self.run(each.search(question, statuses=statuses, limit=100)) for each in self.two(space)
        )
        alike = info.capabilities.get(Capability.RANKING) == "core"
        agree_on_hits(mine.items, theirs.items, question, ranked_alike=alike)

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
    """Run the state machine on a subject. Raises Broken with the shortest story that shows a difference.

    The story is the error's ``script``. ``deep`` tries far more stories, and takes minutes.
    """
    machine = machine_for(subject)
    try:
        run_state_machine_as_test(machine, settings=DEEP if deep else FAST)
    except Exception as error:
        steps = shortened(list(machine.told), lambda steps: _failure(subject, steps), SHORTEN_SECONDS)
        what = _failure(subject, steps) or error
        said = str(what) if isinstance(what, Broken) else f"{type(what).__name__}: {what}"
        broken = Broken(f"{said}; after {len(steps)} steps, which the script replays")
        broken.script = script(subject, steps)
        raise broken from error


def replay(subject: Callable[[World], Provider] | Subject, story: Callable[[Any], None]) -> None:
    """Tell a story to a provider and the reference. Raises Broken where they differ, as `compare` did."""
    tell(machine_for(subject)(), story)


def _failure(subject: Subject, steps: list[Step]) -> Broken | None:
    try:
        replay(subject, retold(steps))
    except Broken as error:
        return error
    return None
