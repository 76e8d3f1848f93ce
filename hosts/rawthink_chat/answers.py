"""An answer on its way to the client: read for the memory, and freed of a block that the model repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from rawthink_chat.following import ChatFollower, ResponsesFollower
from rawthink_chat.jsontext import read_json
from rawthink_chat.requests import Api
from rawthink_chat.shapes import Reply, completion_reply, response_reply
from rawthink_chat.streaming import StreamRewriter, scrubbed_body

if TYPE_CHECKING:
    from rawthink_chat.following import Follower

MAX_BODY: Final = 16 * 1024 * 1024  # bytes of an answer in one piece that are read
_OK = range(200, 300)


class Answer(Protocol):
    """What the bytes of an answer go through. ``same`` says that they come out as they went in."""

    same: bool

    def feed(self, piece: bytes) -> bytes:
        """Take the next bytes, and return bytes for the client."""

    def finish(self) -> bytes:
        """Say that no more comes, and return the last bytes for the client."""

    @property
    def reply(self) -> Reply | None:
        """The answer as far as it has come; None where it is none."""


def answer_for(api: Api, status: int, content_type: str, *, scrubs: bool) -> Answer:
    """Return what an answer goes through, by its status and media type.

    With ``scrubs``, blocks that the model repeats are taken out.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if status not in _OK:
        return Unread()
    if kind == "text/event-stream":
        return _Streamed(ResponsesFollower() if api is Api.RESPONSES else ChatFollower(), scrubs=scrubs)
    if kind == "application/json" or kind.endswith("+json"):
        return _Whole(api, scrubs=scrubs)
    return Unread()


class Unread:
    """An answer that says nothing to a memory: an error, HTML, anything unknown."""

    same = True
    reply = None

    def feed(self, piece: bytes) -> bytes:
        """Return the bytes."""
        return piece

    def finish(self) -> bytes:
        """Return nothing more."""
        return b""


class _Streamed:
    def __init__(self, follower: Follower, *, scrubs: bool) -> None:
        self.same = not scrubs
        self._rewriter = StreamRewriter(follower)

    def feed(self, piece: bytes) -> bytes:
        written = self._rewriter.feed(piece)
        return piece if self.same else written

    def finish(self) -> bytes:
        last = self._rewriter.finish()
        return b"" if self.same else last

    @property
    def reply(self) -> Reply:
        return self._rewriter.reply


class _Whole:
    """An answer in one piece. To be scrubbed, it is kept back until it is whole, or too long to be read."""

    def __init__(self, api: Api, *, scrubs: bool) -> None:
        self.same = not scrubs
        self._api = api
        self._come = bytearray()
        self._long = False
        self._ended = False

    def feed(self, piece: bytes) -> bytes:
        if self._long:
            return piece
        self._come += piece
        if len(self._come) <= MAX_BODY:
            return piece if self.same else b""
        self._long, come = True, bytes(self._come)
        self._come.clear()
        return piece if self.same else come

    def finish(self) -> bytes:
        self._ended = True
        return b"" if self.same or self._long else scrubbed_body(bytes(self._come))

    @property
    def reply(self) -> Reply | None:
        if self._long or not self._ended:
            return Reply()
        read = completion_reply if self._api is Api.COMPLETIONS else response_reply
        return read(read_json(self._come.decode("utf-8", "surrogateescape")))
