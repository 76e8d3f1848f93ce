"""One request to a chat API and its answer, with a memory beside them: what clients and the proxy share.

Whatever the memory does, the chat goes on: nothing here raises for a memory that is down, slow or refuses a
turn, and where there is nothing to tell the model, request and answer are the very bytes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rawthink_chat.answers import Unread, answer_for
from rawthink_chat.capturing import Threads, Turn, capture, capture_response, derived_session
from rawthink_chat.requests import Api, ChatRequest, read_request
from rawthink_chat.shapes import readable, session_of
from rawthink_core.context import estimate_tokens
from rawthink_core.errors import RawThinkError
from rawthink_core.turns import MAX_ITEMS, MAX_TOKENS, ChatContext

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from rawthink_chat.answers import Answer
    from rawthink_chat.calls import Call
    from rawthink_chat.capturing import Thread
    from rawthink_chat.shapes import Reply
    from rawthink_core.memory import Memory

log = logging.getLogger("rawthink.chat")

MAX_REQUEST: Final = 16 * 1024 * 1024  # bytes of a request that is read; the memory stands aside for more
_SPACES = 1_000  # whose threads are remembered
_TALKS = 10_000  # conversations that are not to be remembered
_LARGE = 256 * 1024  # bytes from which a request is read in a thread


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a model was told: how many memories, about how many tokens, and how long it took to recall them.

    ``degraded`` says why the memory could not be asked.
    """

    memories: int = 0
    tokens: int = 0
    seconds: float = 0.0
    degraded: str | None = None

    def __str__(self) -> str:
        things = "memory" if self.memories == 1 else "memories"
        why = f" ({self.degraded})" if self.degraded else ""
        return f"recalled {self.memories} {things}, {self.tokens} tokens, {self.seconds * 1000:.0f} ms{why}"

    def header(self) -> str:
        """Return it as the value of a header."""
        said = f"memories={self.memories}, tokens={self.tokens}, ms={self.seconds * 1000:.0f}"
        if not self.degraded:
            return said
        why = self.degraded.encode("ascii", "replace").decode()[:200]
        return (
            f'{said}, degraded="{"".join(c if c.isprintable() and c not in _QUOTED else " " for c in why)}"'
        )


_QUOTED = '"\\'


class ChatMemory:
    """A memory beside a chat API, for every space of one store and every conversation in it.

    What matches a pattern of ``forbidden``, in question or answer, is not remembered. ``limit`` and
    ``tokens`` bound what the model is told. ``on_recall`` is called with each request's `Recalled`.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        forbidden: Iterable[str | re.Pattern[str]] = (),
        limit: int = MAX_ITEMS,
        tokens: int = MAX_TOKENS,
        on_recall: Callable[[Recalled], None] | None = None,
    ) -> None:
        self._memory = memory
        self._forbidden = tuple(forbidden)
        self._limit, self._tokens = limit, tokens
        self._on_recall = on_recall
        self._rooms: OrderedDict[str, tuple[Memory, Threads]] = OrderedDict()
        self._muted: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._last: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def begin(self, api: Api, body: bytes, call: Call) -> Exchange:
        """Return the exchange that a request begins: its ``body`` is what to send.

        Never raises for the memory's sake; InvalidRequest where the call names a space that can't be one.
        """
        memory, threads = self._room(call.space or self._memory.scope.space)
        loop = asyncio.get_running_loop()
        self._loop = self._loop or loop
        if loop is not self._loop:
            return self._aside(body, "the memory belongs to another event loop")
        if len(body) > MAX_REQUEST:
            return self._aside(body, f"the request is larger than {MAX_REQUEST >> 20} MiB")
        large = len(body) > _LARGE
        request = await asyncio.to_thread(read_request, api, body) if large else read_request(api, body)
        if request is None:
            return self._aside(body, None)
        started = time.perf_counter()
        context = ChatContext()
        if call.recall is not False and request.takes_block:
            context = await self._context(memory, request)
        sent = request.with_block(context.text)
        seconds = time.perf_counter() - started
        block = context.text if sent is not body else ""
        recalled = Recalled(
            block.count("\n- "), estimate_tokens(block) if block else 0, seconds, context.degraded
        )
        self._told(recalled)
        keeper = _Keeper(self, memory, threads, request, call)
        keeper.heed()
        return Exchange(sent, recalled, keeper, scrubs=bool(block) or request.knows_blocks)

    def mute(self, space: str, session: str) -> None:
        """Remember nothing of a conversation from now on. The last 10,000 such are known."""
        self._muted[space, session] = None
        self._muted.move_to_end((space, session))
        while len(self._muted) > _TALKS:
            self._muted.popitem(last=False)

    def unmute(self, space: str, session: str) -> None:
        """Remember a conversation again."""
        self._muted.pop((space, session), None)

    def muted(self, space: str, session: str) -> bool:
        """Whether nothing of a conversation is to be remembered."""
        return (space, session) in self._muted

    @property
    def forbidden(self) -> tuple[str | re.Pattern[str], ...]:
        """The patterns of what is not to be remembered."""
        return self._forbidden

    def in_turn(self, talk: tuple[str, str], work: Coroutine[object, object, None]) -> None:
        """Run some work in the background, after what was begun before it for the same conversation."""
        before = self._last.get(talk)

        async def after() -> None:
            if before is not None:
                await asyncio.wait({before})
            await work

        task = self._last[talk] = self._memory.post.hold(after())
        task.add_done_callback(lambda done: self._last.pop(talk) if self._last.get(talk) is done else None)

    def _room(self, space: str) -> tuple[Memory, Threads]:
        if space not in self._rooms:
            own = space == self._memory.scope.space
            self._rooms[space] = (self._memory if own else self._memory.in_space(space), Threads())
            while len(self._rooms) > _SPACES:
                self._rooms.popitem(last=False)
        self._rooms.move_to_end(space)
        return self._rooms[space]

    async def _context(self, memory: Memory, request: ChatRequest) -> ChatContext:
        try:
            return await memory.before_chat(
                readable(request.messages), limit=self._limit, tokens=self._tokens
            )
        except RawThinkError as error:
            log.warning("nothing was recalled: %s", error)
            return ChatContext(degraded=f"nothing was recalled: {type(error).__name__}")

    def _aside(self, body: bytes, why: str | None) -> Exchange:
        recalled = Recalled(degraded=why)
        self._told(recalled)
        return Exchange(body, recalled, None, scrubs=False)

    def _told(self, recalled: Recalled) -> None:
        if self._on_recall is None:
            return
        try:
            self._on_recall(recalled)
        except Exception:
            log.exception("on_recall failed; the chat goes on")


class Exchange:
    """One request and its answer. ``body`` is what to send, ``recalled`` what the model is told in it.

    Ask `answer` for each answer that comes, feed it, and `end` when it has come or never will.
    """

    def __init__(self, body: bytes, recalled: Recalled, keeper: _Keeper | None, *, scrubs: bool) -> None:
        self.body = body
        self.recalled = recalled
        self._keeper = keeper
        self._scrubs = scrubs
        self._answer: Answer = Unread()

    def answer(self, status: int, headers: Mapping[str, str]) -> Answer:
        """Return what the bytes of an answer, decompressed, go through.

        ``headers`` have names in lower case.
        """
        if self._keeper is not None:
            self._answer = answer_for(
                self._keeper.request.api, status, headers.get("content-type", ""), scrubs=self._scrubs
            )
        return self._answer

    def end(self) -> str:
        """Say that the answer is over, however it ended; a whole turn is kept, in the background.

        Returns ``kept``, or in a word why it isn't. Must be called in the event loop of the memory. What is
        called again does nothing.
        """
        keeper, self._keeper = self._keeper, None
        reply = self._answer.reply
        return "unread" if keeper is None or reply is None else keeper.keep(reply)


class _Keeper:
    """Makes a turn of a request and its reply, and keeps it."""

    def __init__(
        self, chat: ChatMemory, memory: Memory, threads: Threads, request: ChatRequest, call: Call
    ) -> None:
        self._chat, self._memory, self._threads = chat, memory, threads
        self.request, self._call = request, call

    def heed(self) -> None:
        """Do what the call says of its whole conversation: it holds whatever comes of the request."""
        if self._call.remember in ("off", "on"):
            talk = (self._memory.scope.space, self._session(self._thread()))
            (self._chat.mute if self._call.remember == "off" else self._chat.unmute)(*talk)

    def keep(self, reply: Reply) -> str:
        """Keep the turn in the background, and return ``kept``; or note what is to be known, and say why."""
        fields, call, thread = self.request.fields, self._call, self._thread()
        session = self._session(thread)
        if self.request.api is Api.RESPONSES:
            turn = capture_response(fields, reply, thread=thread, forbidden=self._chat.forbidden)
            self._threads.note(session, turn)
        else:
            turn = capture(self.request.messages, reply, forbidden=self._chat.forbidden)
        talk = (self._memory.scope.space, session)
        if call.remember == "no" or self._chat.muted(*talk):
            return "unwanted"
        if not turn.kept:
            return turn.outcome
        self._chat.in_turn(talk, self._store(turn, session))
        return "kept"

    def _thread(self) -> Thread | None:
        return self._threads.before(self.request.fields) if self.request.api is Api.RESPONSES else None

    def _session(self, thread: Thread | None) -> str:
        known = self._call.session or session_of(self.request.fields) or (thread and thread.session)
        return known or derived_session(self.request.messages)

    async def _store(self, turn: Turn, session: str) -> None:
        said = turn.arguments()
        if self._call.message_id is not None:
            said["message_id"] = self._call.message_id
        try:
            await self._memory.after_chat(**said, session=session, display_name=self._call.speaker)
        except RawThinkError as error:
            log.warning("a turn of %r could not be remembered: %s", session, error)
