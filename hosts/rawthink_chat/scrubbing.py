"""Takes injected blocks out of a text that comes in pieces, and lets everything else through at once.

The pieces that come out, joined, are `strip_memory_context` of the pieces that went in, joined, however they
were split. What is held back, and how long:

- text in which no tag and no header can begin: not at all;
- a character that could begin one (a ``<``, or what opens a line as our header does): until it can't;
- a complete ``<memory-context>``: until what follows shows whether it opens a block; one alone on its line
  waits for the next tag;
- a block: until it ends. One without a closer waits for the next tag, or the end of the text.

**The bound.** No more than `LIMIT` characters are held back. Where a decision needs more, it is made as if
the text ended there: an opener that nothing closes within the bound is text, and a block without a closer
ends with its last bullet. A block's bullets never come out, however many: their middle is dropped unseen.
"""

from __future__ import annotations

from rawthink_core.injected import LEFT, LONGEST_MARK, PASSES, Blocks, rejoin
from rawthink_core.marks import BEGINS, LINE_ENDS, compiled

LIMIT = 8192
_TRIM = 1024  # characters of text that is done with, before it is dropped


class Scrubber:
    """Takes blocks out of one growing text. Memory: at most ``limit`` characters and a little, for any text.

    The limit leaves room for a tag and our header: 150 characters.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._passes = [_Pass(limit) for _ in range(PASSES)]
        self._clear = False  # whether nothing is held back, in the middle of a line
        self._plain = ""  # what was let through since then

    @property
    def held(self) -> int:
        """How many characters are held back."""
        return sum(one.held for one in self._passes)

    def feed(self, piece: str) -> str:
        """Take the next piece of the text, and return what can be shown of it and of what was held back."""
        if self._clear and len(self._plain) < _TRIM and not compiled(BEGINS).search(piece):
            self._plain += piece
            return piece
        self._catch_up()
        for one in self._passes:
            if not piece:
                break
            piece = one.feed(piece)
        self._clear = all(one.clear for one in self._passes)
        return piece

    def finish(self) -> str:
        """Return what was held back, now that the text has ended. The next piece begins another text."""
        self._catch_up()
        rest = ""
        for one in self._passes:
            rest = one.feed(rest, finished=True)
        self._passes = [_Pass(self._limit) for _ in range(PASSES)]
        self._clear = False
        return rest

    def _catch_up(self) -> None:
        if self._plain:
            for one in self._passes:
                one.skip(self._plain)
            self._plain = ""


class _Pass:
    """One removal: blocks that only appear when others are gone are for the next pass."""

    def __init__(self, limit: int) -> None:
        self._blocks = Blocks(finished=False)
        self._limit = limit
        self._done = 0  # up to where the text has been given out or removed
        self._begin = 0  # where the last block was removed

    @property
    def held(self) -> int:
        return len(self._blocks.text) - self._done

    @property
    def clear(self) -> bool:
        """Whether nothing is held back, and the next piece goes on in the middle of a line."""
        text = self._blocks.text
        middle = text and not compiled(f"[{LINE_ENDS}]").match(text, len(text) - 1)
        return bool(middle) and self._done == len(text)

    def skip(self, piece: str) -> None:
        """Take a piece that nothing begins in, while all is clear."""
        self._blocks.text += piece
        self._done = len(self._blocks.text)

    def feed(self, piece: str, *, finished: bool = False) -> str:
        blocks = self._blocks
        blocks.text += piece
        blocks.finished = finished
        shown = self._shown()
        if self.held > self._limit and not blocks.shorten():
            shown += self._let_go()
        if self._done > _TRIM:
            blocks.forget(self._done - LEFT)
            self._begin -= self._done - LEFT
            self._done = LEFT
        return shown

    def _let_go(self) -> str:
        """Decide as if the text ended here, but for a tag that is just coming."""
        blocks, tail = self._blocks, ""
        if len(blocks.text) - LONGEST_MARK < blocks.edge:
            blocks.text, tail = blocks.text[: blocks.edge], blocks.text[blocks.edge :]
        blocks.finished = True
        shown = self._shown()
        blocks.finished = False
        blocks.text += tail
        return shown

    def _shown(self) -> str:
        blocks = self._blocks
        text, pieces = blocks.text, []
        while (found := blocks.next()) is not None:
            start, end = found
            pieces.append(text[self._done : start])
            seam, self._done = rejoin(text, self._begin, start, end)
            pieces.append(seam)
            self._begin = self._done
        settled = len(text) if blocks.finished else blocks.settled
        if settled > self._done:
            pieces.append(text[self._done : settled])
            self._done = settled
        return "".join(pieces)
