"""The tags and the header of an injected block: how they look, in every form that a reader takes for them.

Patterns only, in pieces that `injected` (finds blocks), `context` (escapes) and `chat` (labels) share. What
ends in ``_BEGUN`` matches a text that stops within what the other pattern of that name matches whole.
"""

from __future__ import annotations

import re
from functools import cache

OPENER = "<memory-context>"
HEADER = "Relevant memory context (use when helpful):"
CLOSER = "</memory-context>"

# For use inside [...]: what ends a line; what shows nothing; what looks blank within a line.
LINE_ENDS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
INVISIBLE = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
BLANK = r" \t\x1f\xa0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000" + INVISIBLE
# "<" and ">" in the forms that a reader takes for them.
LESS = r"(?:[<＜﹤˂ᐸ❮]|&(?:amp;)*(?:lt|\#0*60|\#x0*3c);?|\\u003c|\\x3c)"
GREATER = r"(?:[>＞﹥˃ᐳ❯]|&(?:amp;)*(?:gt|\#0*62|\#x0*3e);?|\\u003e|\\x3e)"


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile when first used: together the patterns would cost every start-up 20 ms."""
    return re.compile(pattern)


GAP = rf"[{BLANK}{LINE_ENDS}]"
BEGINS = rf"[<＜﹤˂ᐸ❮&\\{LINE_ENDS}]"  # what a tag begins with, or what the line of a header is behind
SKIP = rf"[{BLANK}{LINE_ENDS}>]*+"
_BULLET = rf"[-*•–][{BLANK}]"
TAG_NAME = rf"[{INVISIBLE}]*+".join([*"memory", "[-‐-―−_]?", *"context"])
_SENTENCE = rf"[{BLANK}]+".join(["Relevant", "memory", "context"])
_HELPFUL = rf"[{BLANK}]*\([{BLANK}]*use[{BLANK}]+when[{BLANK}]+helpful[{BLANK}]*\)[{BLANK}]*[:：]"
MARK = (
    rf"(?i)(?P<tag>(?P<escaped>\\)?{LESS}{GAP}{{0,20}}+(?P<close>[/／]{GAP}{{0,20}}+)?{TAG_NAME}"
    rf"(?:{GAP}[^<>＜＞]{{0,200}}?)?[/{BLANK}{LINE_ENDS}]{{0,20}}(?(escaped)\\){GREATER})"
    rf"|(?<![^{LINE_ENDS}])[{BLANK}>]*+{_SENTENCE}{_HELPFUL}[{BLANK}]*+(?=[{LINE_ENDS}]{SKIP}{_BULLET})"
)
HEAD = (
    rf"(?i){SKIP}(?:{_SENTENCE}(?:{_HELPFUL}|[{BLANK}]*[:：])|(?={_BULLET}[{BLANK}]*\[\d{{4}}-\d\d-\d\d\]))"
)
# The rest of a header's line, then bullets, each on a line of its own.
BODY = (
    rf"[^{LINE_ENDS}]*+(?:{SKIP}{_BULLET}[^{LINE_ENDS}]*+)?+"
    rf"(?:(?:\r\n|[{LINE_ENDS}])[{BLANK}>]*+{_BULLET}[^{LINE_ENDS}]*+)*+"
)


def _begun(*elements: str, then: str = r"\Z") -> str:
    """Return a pattern for a text that stops between or within ``elements``, or goes on with ``then``."""
    pattern = then
    for element in reversed(elements):
        pattern = rf"(?:\Z|{element}{pattern})"
    return pattern


def _words(*words: str) -> list[str]:
    return [element for word in words for element in (*word, f"[{BLANK}]+")][:-1]


def _letters(word: str) -> list[str]:
    return [element for letter in word for element in (letter, f"[{INVISIBLE}]*+")]


# What more text could make a mark or a head: the patterns above in pieces that the text may stop in.
_SIGN_BEGUN = r"(?:&(?:amp;)*(?:a(?:mp?)?|SIGN|\#(?:0*6?|x0*3?)?)?|\\(?:u(?:0(?:03?)?)?|x3?)?)"
_TAG_BEGUN = _begun(
    *(f"{GAP}{{0,20}}+", f"(?:[/／]{GAP}{{0,20}}+)?"),
    *(*_letters("memory"), "[-‐-―−_]?", f"[{INVISIBLE}]*+", *_letters("context")[:-1]),
    then=rf"(?:{GAP}(?:(?(escaped)|(?!{GREATER}))[^<>＜＞]){{0,200}})?[/{BLANK}{LINE_ENDS}]{{0,20}}\\?"
    rf"(?:{_SIGN_BEGUN.replace('SIGN', 'g')})?\Z",
)
_SENTENCE_BEGUN = _words("Relevant", "memory", "context")
_HELPFUL_BEGUN = [
    *(f"[{BLANK}]*", r"\(", f"[{BLANK}]*", *_words("use", "when", "helpful")),
    *(f"[{BLANK}]*", r"\)", f"[{BLANK}]*", "[:：]"),
]
MARK_BEGUN = (
    rf"(?i)(?P<escaped>\\)?(?:{_SIGN_BEGUN.replace('SIGN', 'l')}\Z|{LESS}{_TAG_BEGUN})"
    rf"|(?<![^{LINE_ENDS}])[{BLANK}>]*+"
    + _begun(*_SENTENCE_BEGUN, *_HELPFUL_BEGUN, f"[{BLANK}]*+", f"[{LINE_ENDS}]", SKIP, "[-*•–]")
)
HEAD_BEGUN = rf"(?i){SKIP}(?:{_begun(*_SENTENCE_BEGUN, *_HELPFUL_BEGUN)}|" + _begun(
    *("[-*•–]", f"[{BLANK}]", f"[{BLANK}]*", r"\["),
    *(r"\d" if sign == "d" else sign for sign in "dddd-dd-dd"),
    r"\]",
)
HEAD_BEGUN += ")"
