"""A provider and the reference, side by side: asked for the same, and compared."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rawthink_conformance.agreement import agree, kept, laws, plain
from rawthink_conformance.bench import Bench
from rawthink_conformance.expect import equal
from rawthink_conformance.reference import ReferenceProvider
from rawthink_conformance.talking import EVERY_STATUS, Space
from rawthink_core.errors import AlreadyRevised, InvalidRequest, RawThinkError
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from rawthink_conformance.bench import Subject
    from rawthink_core.model import Item
    from rawthink_core.operations import Batch


class Pair:
    """Holds both in an event loop of its own, with what was seen and sent so far."""

    def __init__(self, subject: Subject, spaces: Sequence[str]) -> None:
        self.runner = asyncio.Runner()
        self.bench = Bench(subject)
        self.reference = ReferenceProvider(self.bench.new_world("reference"))
        self.opened = False
        self.sent: list[Batch] = []
        self.touched = spaces[0]
        self.seen: dict[str, dict[str, Item]] = {space: {} for space in spaces}
        self.forgotten: dict[str, set[str]] = {space: set() for space in spaces}

    def run(self, work: Awaitable[Any]) -> Any:
        """Wait for something in the pair's event loop."""

        async def wait() -> Any:
            return await work

        return self.runner.run(wait())

    def open(self) -> None:
        """Open both."""
        self.run(self.bench.__aenter__())
        self.run(self.reference.open())
        self.opened = True

    def close(self, names: Sequence[str]) -> None:
        """Compare all spaces, and close both."""
        try:
            if self.opened:
                for space in self.seen:
                    self.touched = space
                    self.compare(names)
        finally:
            self.run(self.bench.__aexit__(None, None, None))
            self.run(self.reference.close())
            self.runner.close()

    def two(self, space: str) -> tuple[Space, Space]:
        """Return a space of either."""
        self.touched = space
        return self.bench.space(space), self.bench.space(space, self.reference)

    def both(self, what: str, call: Callable[[Space], Coroutine[Any, Any, Any]], space: str) -> Any:
        """Ask both for the same, and require the same answer or the same refusal."""
        mine, theirs = (self.outcome(call(each)) for each in self.two(space))
        equal(mine, theirs, what)
        return mine

    def outcome(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return an answer, or a refusal, as plain data."""
        try:
            return plain(self.run(work))
        except AlreadyRevised as error:
            return "AlreadyRevised", error.target, error.successor
        except InvalidRequest as error:
            return type(error).__name__, sorted((fault.where, fault.problem) for fault in error.faults)
        except RawThinkError as error:
            return type(error).__name__, ""

    def send(self, batch: Batch) -> None:
        """Send a batch to both."""
        self.sent.append(batch)
        self.both("the answer to a batch", lambda space: space.record(batch), batch.scope.space)

    async def write_and_be_killed(self, batch: Batch) -> None:
        """Write a batch in another process, which is killed as soon as it has its receipt; write it here too.

        The provider is closed meanwhile, for not every store can be open twice.
        """
        self.sent.append(batch)
        self.touched = batch.scope.space
        await self.bench.close(self.bench.provider)
        try:
            with self.bench.elsewhere() as other:
                await other.call("open")
                await other.attempt(batch)
                other.kill()
        finally:
            self.bench.provider = await self.bench.open()
        with suppress(RawThinkError):
            await self.bench.space(batch.scope.space, self.reference).record(batch)

    def some_id(self, space: str, place: int, *kinds: type[Item]) -> str:
        """Return the id of an item of a space, of any or of given kinds; or one that is nowhere."""
        ids = sorted(item.id for item in self.seen[space].values() if not kinds or isinstance(item, kinds))
        return ids[place % len(ids)] if ids else "nowhere"

    def compare(self, names: Sequence[str]) -> None:
        """Compare all that can be seen of the space that was touched last, and what holds of any memory."""
        space = self.touched
        mine, theirs = self.two(space)
        self.run(agree(mine, theirs, names))
        seen_by = mine if self.bench.provider.info.can(Capability.SCAN) else theirs
        items = self.run(seen_by.scan(statuses=EVERY_STATUS))
        laws(items)
        kept(self.seen[space], items, self.forgotten[space])
        self.seen[space] = {item.id: item for item in items}
