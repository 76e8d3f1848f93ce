"""The bench of a check: a world of its own, and the providers opened in it."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rawthink_conformance.elsewhere import Elsewhere
from rawthink_conformance.talking import Space
from rawthink_conformance.watching import watched
from rawthink_core.clock import CountingIds, ManualClock
from rawthink_core.provider import Capability, World

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from rawthink_conformance.toys import ToyEmbedder
    from rawthink_core.provider import Provider

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class Subject(Protocol):
    """What is tested: a way to make providers, and a way to take their backend away."""

    def make_provider(self, world: World) -> Provider:
        """Return a provider, not opened yet. Called again on the same world: reopen, second process."""
        ...

    def make_unusable(self, world: World) -> None:
        """Change ``world``, where nothing was opened yet, so that no store can work in it."""
        ...


class Bench:
    """One check's surroundings, in a folder that is deleted afterwards. Closes what it opened."""

    def __init__(self, subject: Subject, *, deep: bool = False, embedder: ToyEmbedder | None = None) -> None:
        self.subject = subject
        self.embedder = embedder
        self.deep = deep
        self.clock = ManualClock(START)
        self._folder = tempfile.TemporaryDirectory(prefix="rawthink-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name).resolve()
        if embedder is not None:
            embedder.fingerprint += f"; {self.folder.name}"  # no question of another bench is remembered here
        self.world = self.new_world("store")
        self.provider: Provider
        self._open: list[Provider] = []
        self._batches = 0
        self._others = 0

    async def __aenter__(self) -> Self:
        try:
            self.provider = await self.open()
        except BaseException:
            self.discard()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for provider in reversed(self._open):
                await provider.close()
        except Exception:
            if error is None:  # else what went wrong first is what matters
                raise
        finally:
            self.discard()

    def discard(self) -> None:
        """Delete the folder."""
        self._folder.cleanup()

    def new_world(self, name: str, **changes: Any) -> World:
        """Return another, empty world in the same folder, with the same clock."""
        place = self.folder / name
        world = World(
            path=place / "path",
            clock=self.clock,
            ids=CountingIds(name),
            timezone="UTC",
            cache=place / "cache",
            state=place / "state",
        )
        if self.embedder is not None:
            world = replace(world, embedder=self.embedder)
        return replace(world, **changes)

    def make(self, world: World | None = None) -> Provider:
        """Make a provider without opening it, on this bench's world where none is given. It is watched."""
        return watched(lambda: self.subject.make_provider(world or self.world))

    async def open(self, world: World | None = None) -> Provider:
        """Make and open a provider, on this bench's world where none is given."""
        provider = self.make(world)
        try:
            await provider.open()
        except BaseException:
            with suppress(Exception):  # what went wrong first is what matters
                await provider.close()
            raise
        self._open.append(provider)
        return provider

    def elsewhere(self) -> Elsewhere:
        """Start another process with a provider on this bench's world, not opened yet."""
        self._others += 1
        return Elsewhere(self.subject, self.world, f"other-{self._others}")

    async def close(self, provider: Provider) -> None:
        """Close a provider before the end of the check."""
        self._open.remove(provider)
        await provider.close()

    async def reopen(self, world: World | None = None) -> None:
        """Close the bench's provider and open another on the same world (or what became of it)."""
        await self.close(self.provider)
        self.world = world or self.world
        self.provider = await self.open(self.world)

    def space(self, name: str = "default", provider: Provider | None = None) -> Space:
        """Return a space of ``provider``; without one, of the bench's own, reopened or not."""
        return Space(self, name, provider)

    def spaces(self, *names: str) -> list[Space]:
        """Return several spaces of the bench's own provider."""
        return [self.space(name) for name in names]

    def new_batch_id(self) -> str:
        """Return a batch id that was not used on this bench."""
        self._batches += 1
        return f"batch-{self._batches}"

    def grade(self, capability: Capability) -> str:
        """Return the grade of a capability of the bench's provider; empty when it is not declared."""
        return self.provider.info.capabilities.get(capability, "")
