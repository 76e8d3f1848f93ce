"""Lets a streamed answer through byte for byte, but for a block that the model repeats; and reads it.

Nothing is waited for: what has come of an event that has ended goes on at once. Only events whose text
changes are written anew, and in those only the strings that change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rawthink_chat.following import reply_edits
from rawthink_chat.jsontext import read_json, splice
from rawthink_chat.sse import Event, EventReader, encode

if TYPE_CHECKING:
    from rawthink_chat.following import Follower
    from rawthink_chat.shapes import Reply

DONE = "[DONE]"


class StreamRewriter:
    """Rewrites one stream of server-sent events, of the API that its follower follows.

    `feed` each piece of bytes as it comes and send on what that returns; `finish` when the upstream has
    ended, however it did. Then, and before, `reply` is the answer so far.
    """

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._reader = EventReader()
        self.done = False  # whether "[DONE]" has come

    @property
    def reply(self) -> Reply:
        """The answer as far as it has come; without a finish reason while it hasn't ended."""
        return self._follower.reply

    def feed(self, piece: bytes) -> bytes:
        """Take the next bytes of the upstream, and return the bytes for the client. Never raises."""
        return b"".join(map(self._rewritten, self._reader.feed(piece)))

    def finish(self) -> bytes:
        """Return the last bytes for the client: a torn event as it is, and text that was held back."""
        last = b"".join(map(self._rewritten, self._reader.finish()))
        rest = self._rest()
        return last + (b"\n\n" if last and rest else b"") + rest

    def _rewritten(self, event: Event) -> bytes:
        if event.data is None:
            return event.raw
        if event.data.strip() == DONE:
            self.done = True
            return self._rest() + event.raw
        chunk = read_json(event.data)
        if not isinstance(chunk, Mapping):
            return event.raw
        change = self._follower.follow(chunk)
        before = b"".join(encode(data, event.name and str(data.get("type", ""))) for data in change.before)
        return before + (event.with_data(splice(event.data, change.edits)) if change.edits else event.raw)

    def _rest(self) -> bytes:
        return b"".join(encode(data, str(data.get("type", ""))) for data in self._follower.finish())


def scrubbed_body(body: bytes) -> bytes:
    """Return the JSON body of a whole reply without the blocks that it repeats; else the very bytes.

    What isn't JSON in UTF-8 is returned as it is.
    """
    text = body.decode("utf-8", "surrogateescape")
    edits = reply_edits(read_json(text))
    return splice(text, edits).encode("utf-8", "surrogateescape") if edits else body
