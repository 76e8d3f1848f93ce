"""A room: everything that works on one Space of the server, and how a question is answered from it.

A reader waits a moment for news from the server. Where none comes, what is known already is the answer, and
it says since when: a memory that is slow or away for a while still helps. While everything is read for the
first time, a search answers from what has been read by then, and says how much that is.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, TypeVar

from rawthink_core.asking import Asked
from rawthink_core.errors import BackendError, BackendTimeout, RawThinkError
from rawthink_core.searching import answer
from rawthink_core.text import has_substance
from rawthink_nowledge.following import Follower
from rawthink_nowledge.lifecycle import Lifecycle
from rawthink_nowledge.mirror import Mirror
from rawthink_nowledge.placing import Placer
from rawthink_nowledge.retrieval import Retrieval
from rawthink_nowledge.settings import GUESSED_FLOOR
from rawthink_nowledge.writing import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from rawthink_core.activity import Activity
    from rawthink_core.operations import SearchPage, SearchQuery
    from rawthink_core.provider import World
    from rawthink_nowledge.api import Api
    from rawthink_nowledge.ledger import Ledger
    from rawthink_nowledge.settings import NowledgeSettings
    from rawthink_nowledge.writing import Instants

    T = TypeVar("T")

PATIENCE: Final = 0.7  # seconds that a search waits for the server: a recall has 1.2 in all
READING: Final = 3.0  # seconds that other reads wait for it
FIRST: Final = 10.0  # seconds that a search waits while everything is read for the first time
_WEIGHT: Final = 0.4  # of the server's list beside that of words


class Room:
    """One Space of the server."""

    def __init__(
        self,
        api: Api,
        server_space: str,
        settings: NowledgeSettings,
        world: World,
        instants: Instants,
        activity: Activity,
    ) -> None:
        self.shared = False  # with others of our spaces: the server's search would weigh them as well
        self.early = (
            False  # whether the server knows what is current, so that its hits count before all is read
        )
        self.mirror = Mirror(settings.store)
        self.follower = Follower(api, server_space, self.mirror, settings.connections)
        placer = Placer(api, self.follower, settings.store, settings.connections)
        self.writer = Writer(placer, self.follower, instants)
        self.lifecycle = Lifecycle(api, self.follower)
        self.floor = GUESSED_FLOOR if settings.min_score is None else settings.min_score
        self.api = api
        self._settings = settings
        self._world = world
        self._activity = activity

    async def close(self) -> None:
        """End what is under way."""
        await self.writer.close()
        await self.follower.close()

    async def refresh(self, patience: float | None = None) -> str | None:
        """See what is new; return why that could not be seen, where something is known already.

        Raises a BackendError where nothing is known yet.
        """
        try:
            await self.follower.refresh(patience)
        except BackendError as error:
            if not self.follower.loaded:
                raise
            age = time.monotonic() - self.follower.read_at
            return f"as it was {age:.0f} s ago: {error}"
        if (unreadable := self.mirror.unreadable) and (why := next(iter(unreadable.values()))):
            return f"{len(unreadable)} memories can't be read: {why}"
        return None

    async def ask(self, space: str, question: Callable[[Ledger], T]) -> tuple[T, str | None]:
        """Return what ``question`` reads from the ledger of a space, and why it may not be up to date."""
        degraded = await self.refresh(READING if self.follower.loaded else None)
        return await asyncio.to_thread(self._ask, space, question), degraded

    def _ask(self, space: str, question: Callable[[Ledger], T]) -> T:
        with self.mirror.ledger(space) as ledger:
            return question(ledger)

    # --- searching ------------------------------------------------------------------------------

    async def search(self, query: SearchQuery, *, patient: bool = True) -> SearchPage:
        """Answer a question by its words, and by what the server's search makes of it.

        Who is not ``patient`` is answered in the time that a recall has, from whatever was read by then.
        """
        self.mirror.index(query.scope.space)
        known = self.follower.loaded
        news = asyncio.create_task(self.refresh(PATIENCE if known or not patient else FIRST))
        hits = asyncio.create_task(self._server_search(query.text))
        try:
            await asyncio.wait((news, hits))
        finally:
            news.cancel()
            hits.cancel()
        found, why = hits.result()
        failed: BackendError | None = None
        try:
            degraded = news.result()
        except BackendError as error:
            failed, degraded = error, self._so_far(error)
        said = "; ".join(reason for reason in (degraded, why) if reason)
        page = await asyncio.to_thread(self._answer, query, found, said or None)
        if failed is None:
            return page
        page = _of_a_part(page)
        if not page.items and not self.follower.read:
            raise failed
        return page

    def _so_far(self, error: BackendError) -> str:
        """Say how much of the Space is known while it is read for the first time, and why that is not all."""
        number, of = self.follower.read, self.follower.of
        read = f"{number:,} of {of:,} memories have" if of else f"{number:,} memories have"
        stopped = "" if isinstance(error, BackendTimeout) else "and then it failed: "
        return f"found in a part only, {read} been read: {stopped}{error}"

    async def _server_search(self, text: str) -> tuple[list[tuple[str, float]], str | None]:
        """Return the memories that the server's search finds, with scores, or why it could not be asked."""
        if not self._settings.server_search or self.shared or not has_substance(text):
            return [], None
        try:
            async with asyncio.timeout(PATIENCE):
                hits = await self.api.search(text, self.follower.space)
                if self.early and not self.follower.loaded:
                    await self.follower.take_in([hit.memory for hit in hits])
        except TimeoutError:
            return [], f"the server's search did not answer in {PATIENCE:g} s; found by words only"
        except RawThinkError as error:
            return [], f"the server's search: {error}; found by words only"
        return [(hit.memory["id"], hit.score) for hit in hits], None

    def _answer(self, query: SearchQuery, found: list[tuple[str, float]], degraded: str | None) -> SearchPage:
        space, now = query.scope.space, self._world.clock.now()
        items = [
            (entry.item, score)
            for memory, score in found
            if (entry := self.mirror.entry(memory)) is not None
            and entry.space == space
            and entry.row is not None
        ]
        asked = Asked((), _WEIGHT, self.floor) if items else None
        with self.mirror.searchable(space) as (ledger, lexicon):
            return answer(
                query,
                Retrieval(ledger, lexicon, self._activity, items),
                now,
                degraded,
                asked,
                self._world.fusion,
            )


def _of_a_part(page: SearchPage) -> SearchPage:
    """Return a page without what is said of entities not read yet. How much is left out nobody knows."""
    shown = tuple(hit for hit in page.items if hit.item != "observation" or hit.entity is not None)
    return page.model_copy(update={"items": shown, "total": None, "truncated": True})
