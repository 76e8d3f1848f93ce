"""The memory beside the proxy: opened before the first request where that is quick, else when it can be.

A store that is down is no reason to stop a chat: requests go on without a memory, and it is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from rawthink_chat.exchange import ChatMemory
from rawthink_core.errors import BackendError, RawThinkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rawthink_core.memory import Memory

log = logging.getLogger("rawthink.proxy")

_ANYTHING: Final = [{"role": "user", "content": "What do you remember of gardens and music?"}]
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0


class House:
    """Opens a memory and keeps it. ``build`` returns one that isn't open; ``furnish`` makes a chat of it.

    Belongs to one event loop.
    """

    def __init__(
        self,
        build: Callable[[], Memory],
        furnish: Callable[[Memory], ChatMemory] = ChatMemory,
        *,
        pause: float = FIRST_PAUSE,
    ) -> None:
        self._build, self._furnish = build, furnish
        self._pause = pause
        self._memory: Memory | None = None
        self._opening: asyncio.Task[None] | None = None
        self.chat: ChatMemory | None = None
        self.why = "the memory is being opened"  # there is none, while there is none

    async def open(self, patience: float) -> None:
        """Begin to open the memory, and wait for so many seconds until it is.

        Raises what no waiting mends: ConfigError, PluginError, StoreTooNew, EmbedderMismatch.
        """
        self._opening = asyncio.create_task(self._open())
        done, _ = await asyncio.wait({self._opening}, timeout=patience)
        if done:
            self._opening.result()
        else:
            self._opening.add_done_callback(self._failed)
            log.warning("%s; chats go on without it meanwhile", self.why)

    async def _open(self) -> None:
        pause = self._pause
        while True:
            memory = await asyncio.to_thread(self._build)
            try:
                await memory.open()
            except BackendError as error:
                self.why = f"the memory can't be opened: {error}"
                log.warning("%s; trying again in %.0f s", self.why, pause)
            else:
                self._memory, self.chat = memory, self._furnish(memory)
                await _warm(memory)
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _failed(self, opening: asyncio.Task[None]) -> None:
        if not opening.cancelled() and (error := opening.exception()) is not None:
            self.why = f"the memory can't be opened: {error}"
            log.error("%s; start again when that is mended", self.why)

    async def close(self, seconds: float) -> None:
        """Let turns in the background be written, deliver what can be, and close: for so many seconds."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening}, timeout=1)
        memory, self._memory, self.chat = self._memory, None, None
        self.why = "the memory is closed"
        if memory is None:
            return
        closing = asyncio.create_task(memory.close())
        done, _ = await asyncio.wait({closing}, timeout=seconds)
        if not done:
            log.warning("the store did not close within %g s; turns that wait are in the spool", seconds)
        elif (error := closing.exception()) is not None:
            log.warning("the store could not be closed: %s", error)


async def _warm(memory: Memory) -> None:
    """Recall once, so that what is loaded for the first recall is loaded before the first chat."""
    try:
        await memory.before_chat(_ANYTHING)
    except RawThinkError as error:
        log.warning("the first recall failed: %s", error)
