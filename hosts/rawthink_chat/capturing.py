"""From a request and its finished answer to what `Memory.after_chat` takes.

**What is kept.** The user's last message and the text of the answer to it, where the answer was spoken to its
end. One that was cut off, refused, filtered, or that only calls tools is told apart and not kept; the answer
that comes after the tools is.

**Once each.** Core keys a turn by the conversation up to its question, so a client that resends its history
adds nothing, another answer to the same question supersedes the first, and so does an edited question, where
the turn before it was kept. The responses API leaves the conversation on the server: there the key is the
response that the request goes on from, or in a ``conversation``, which only ever grows, the response itself.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from rawthink_chat.shapes import (
    Reply,
    as_mapping,
    input_messages,
    previous_response,
    question_at,
    readable,
)
from rawthink_core.chat import message_text
from rawthink_core.injected import strip_memory_context

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rawthink_chat.shapes import Outcome

# "unasked": there is no question in words; "forbidden": a pattern says not to remember it
TurnOutcome = Literal[
    "complete", "interrupted", "refused", "filtered", "tools", "empty", "unasked", "forbidden"
]


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and what came of it. It is worth keeping where ``outcome`` is ``complete``."""

    messages: tuple[Mapping[str, object], ...]
    reply: Reply
    outcome: TurnOutcome
    message_id: str | None = None

    @property
    def kept(self) -> bool:
        """Whether this is a turn to keep."""
        return self.outcome == "complete"

    def arguments(self) -> dict[str, Any]:
        """Return arguments for `Memory.after_chat`; the host adds session, speaker and whether it vouches."""
        return {
            "messages": self.messages,
            "reply": self.reply.text if self.kept else None,
            "finish_reason": self.reply.finish_reason if self.kept else None,
            "message_id": self.message_id,
        }


def capture(
    messages: object,
    reply: Reply | str,
    *,
    message_id: str | None = None,
    forbidden: Iterable[str | re.Pattern[str]] = (),
) -> Turn:
    """Return the turn that a chat-completions request and its answer make. Never raises, whatever the shapes.

    ``messages`` are the client's own; ``reply`` is the answer, a string being one that was spoken to its end.
    ``message_id`` names the turn where the caller knows a name for it. What matches one of ``forbidden``, in
    question or answer, is not to be kept.
    """
    answer = Reply(reply, "stop") if isinstance(reply, str) else reply
    answer = replace(answer, text=_joined(answer.text))
    said = tuple(readable(messages))
    return Turn(said, answer, _outcome(said, answer, forbidden), message_id)


def capture_response(
    request: Mapping[str, object],
    reply: Reply,
    *,
    thread: Thread | None = None,
    forbidden: Iterable[str | re.Pattern[str]] = (),
) -> Turn:
    """Return the turn that a responses request and its answer make, as `capture`.

    ``thread`` is what `Threads` knows of the response that the request goes on from: where the request holds
    only results of tools, the question is the one that the thread left open.
    """
    messages = input_messages(request.get("input"))
    message_id = _response_key(request, reply)
    if thread is not None and thread.question and question_at(messages) is None:
        messages, message_id = list(thread.question), thread.message_id
    return capture(messages, reply, message_id=message_id, forbidden=forbidden)


@dataclass(frozen=True, slots=True)
class Thread:
    """What is known of a response that another may go on from: its session, and the question still open."""

    session: str
    question: tuple[Mapping[str, object], ...] = ()
    message_id: str | None = None


class Threads:
    """Remembers the last responses, since a request may name nothing but the one before it.

    At most ``size``, the least recently used forgotten first. One for each space: an id of another space is
    unknown here.
    """

    def __init__(self, size: int = 10_000) -> None:
        self._size = size
        self._known: OrderedDict[str, Thread] = OrderedDict()

    def before(self, request: Mapping[str, object]) -> Thread | None:
        """Return the thread that a request goes on with, None where it names none, or an unknown one."""
        previous = previous_response(request)
        if previous is None or previous not in self._known:
            return None
        self._known.move_to_end(previous)
        return self._known[previous]

    def note(self, session: str, turn: Turn) -> None:
        """Remember a response: its session, and its question where it waits for tools."""
        if turn.reply.id is None:
            return
        waits = turn.outcome == "tools"
        question = turn.messages if waits else ()
        self._known[turn.reply.id] = Thread(session, question, turn.message_id if waits else None)
        self._known.move_to_end(turn.reply.id)
        while len(self._known) > self._size:
            self._known.popitem(last=False)


def derived_session(messages: object) -> str:
    """Return a session for a conversation that nobody names: the same as long as it begins the same.

    It is a digest of all that stands before the first answer to the user: instructions and first message. Two
    conversations of a space that begin alike share it; their turns still don't take each other's places.
    """
    begin: list[str] = []
    for message in readable(messages):
        role, text = message.get("role"), strip_memory_context(message_text(message.get("content"))).strip()
        begin += [f"{role}\x1f{text}"] if text else []
        if role == "user" and text:
            break
    data = "\x1e".join(begin).encode("utf-8", "surrogatepass")
    return f"chat-{hashlib.blake2b(data, digest_size=12).hexdigest()}"


def _joined(text: str) -> str:
    """Return a text whose characters are whole: a stream may cut one in two, each half a chunk of its own."""
    if not re.search(r"[\ud800-\udfff]", text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _response_key(request: Mapping[str, object], reply: Reply) -> str | None:
    if previous := previous_response(request):
        return f"after {previous}"
    if request.get("conversation") and reply.id:
        return reply.id
    return None


def _outcome(
    messages: tuple[Mapping[str, object], ...], reply: Reply, forbidden: Iterable[str | re.Pattern[str]]
) -> TurnOutcome:
    outcome: Outcome = reply.outcome
    if outcome != "complete":
        return outcome
    at = question_at(messages)
    asked = "" if at is None else message_text(as_mapping(messages[at]).get("content"))
    asked, answered = strip_memory_context(asked).strip(), strip_memory_context(reply.text).strip()
    if not asked:
        return "unasked"
    if not answered:
        return "empty"
    if any(re.search(pattern, text) for pattern in forbidden for text in (asked, answered)):
        return "forbidden"
    return "complete"
