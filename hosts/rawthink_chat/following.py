"""Follows an answer while it is streamed: what it says, how it ends, and what must not be shown of it.

A follower takes each chunk or event as plain data and says what to change in it, so a proxy can change bytes
and a client objects. Chunks without choices, choices in any order, deltas without content, fields that the
formats gain: all of it is left alone. Text only: what a model repeats in its reasoning, in log probabilities
or in arguments of tools isn't looked at, and isn't remembered.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from rawthink_chat.scrubbing import Scrubber
from rawthink_chat.shapes import (
    Reply,
    as_mapping,
    as_messages,
    best_reply,
    choice_index,
    is_client_call,
    response_reply,
    text_or_none,
    usage_of,
)
from rawthink_core.injected import strip_memory_context

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rawthink_chat.jsontext import Path

MAX_REPLY = 1_000_000  # characters of an answer that are kept; a longer one counts as cut off
MAX_TEXTS = 128  # choices or parts that are followed; in more, each piece is scrubbed by itself
_ENDINGS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


@dataclass(frozen=True, slots=True)
class Change:
    """What to do with a chunk: first send ``before``, then the chunk with ``edits`` (path to new text)."""

    before: tuple[Mapping[str, object], ...] = ()
    edits: Mapping[Path, str] = field(default_factory=dict)


class Follower(Protocol):
    """What a stream is followed with."""

    def follow(self, chunk: object) -> Change:
        """Take the next chunk, and say what to change in it."""

    def finish(self) -> tuple[Mapping[str, object], ...]:
        """Say that no more comes, and return the chunks to send for what was held back."""

    @property
    def reply(self) -> Reply:
        """The answer as far as it has come; without a finish reason while it hasn't ended."""


class _Text:
    """One text on its way: scrubbed, and collected for memory."""

    def __init__(self) -> None:
        self.scrubber = Scrubber()
        self.finish_reason: str | None = None
        self.refused = False
        self.calls_tools = False
        self.template: Mapping[str, object] = {}
        self._said = io.StringIO()
        self._length = 0

    def add(self, piece: str, *, last: bool = False) -> str:
        shown = self.scrubber.feed(piece)
        if last:
            shown += self.scrubber.finish()
        self._length += len(shown)
        if self._length <= MAX_REPLY:
            self._said.write(shown)
        return shown

    @property
    def whole(self) -> bool:
        return self._length <= MAX_REPLY

    @property
    def said(self) -> str:
        return self._said.getvalue()


class ChatFollower:
    """Follows the chunks of a chat completion, choice by choice."""

    def __init__(self) -> None:
        self._choices: dict[int, _Text] = {}
        self._envelope: Mapping[str, object] = {}
        self._usage: Mapping[str, object] | None = None

    def follow(self, chunk: object) -> Change:
        """Take the next chunk, and say what to change in it. Never raises."""
        data = as_mapping(chunk)
        self._usage = usage_of(data) or self._usage
        before: list[Mapping[str, object]] = []
        edits: dict[Path, str] = {}
        for place, choice in enumerate(map(as_mapping, as_messages(data.get("choices")))):
            self._envelope = data
            content = as_mapping(choice.get("delta")).get("content")
            text = self._noted(choice)
            if text is None:
                shown = strip_memory_context(content) if isinstance(content, str) else ""
            else:
                last = isinstance(choice.get("finish_reason"), str)
                shown = text.add(content if isinstance(content, str) else "", last=last)
            if isinstance(content, str):
                if shown != content:
                    edits["choices", place, "delta", "content"] = shown
            elif shown:
                before.append(self._chunk(choice_index(choice), shown))
        return Change(tuple(before), edits)

    def finish(self) -> tuple[Mapping[str, object], ...]:
        """Return the chunks to send for what was held back of choices that never finished."""
        rests = [(index, text.add("", last=True)) for index, text in sorted(self._choices.items())]
        return tuple(self._chunk(index, rest) for index, rest in rests if rest)

    @property
    def replies(self) -> dict[int, Reply]:
        """The answers as far as they have come, by the index of the choice."""
        return {
            index: Reply(
                text=text.said,
                finish_reason=text.finish_reason if text.whole else None,
                refused=text.refused,
                calls_tools=text.calls_tools,
                id=text_or_none(self._envelope.get("id")),
                usage=self._usage,
            )
            for index, text in sorted(self._choices.items())
        }

    @property
    def reply(self) -> Reply:
        """The first complete answer, else the first."""
        return best_reply(self.replies.values(), Reply(usage=self._usage))

    def _noted(self, choice: Mapping[str, object]) -> _Text | None:
        index, delta = choice_index(choice), as_mapping(choice.get("delta"))
        text = self._choices.get(index)
        if text is None:
            if len(self._choices) >= MAX_TEXTS:
                return None
            text = self._choices[index] = _Text()
        text.refused |= bool(delta.get("refusal"))
        text.calls_tools |= bool(delta.get("tool_calls") or delta.get("function_call"))
        text.finish_reason = text_or_none(choice.get("finish_reason")) or text.finish_reason
        return text

    def _chunk(self, index: int, content: str) -> Mapping[str, object]:
        head = {key: value for key, value in self._envelope.items() if key not in ("choices", "usage")}
        return {**head, "choices": [{"index": index, "delta": {"content": content}, "finish_reason": None}]}


class ResponsesFollower:
    """Follows the events of a response: each part of each message by itself."""

    def __init__(self) -> None:
        self._texts: dict[tuple[object, object], _Text] = {}
        self._response: Mapping[str, object] = {}
        self._ended = False
        self._refused = False
        self._calls_tools = False

    def follow(self, chunk: object) -> Change:
        """Take the next event, and say what to change in it. Never raises."""
        event = as_mapping(chunk)
        kind = text_or_none(event.get("type")) or ""
        if kind == "response.output_text.delta":
            return self._delta(event)
        if kind.startswith("response.refusal."):
            self._refused = True
        item = as_mapping(event.get("item"))
        self._calls_tools |= kind == "response.output_item.done" and is_client_call(item)
        if response := as_mapping(event.get("response")):
            self._response = response
            self._ended |= kind in _ENDINGS
        edits = {path: new for path, old in _texts_of(event) if (new := strip_memory_context(old)) != old}
        return Change(self._rests(event, kind), edits)

    def finish(self) -> tuple[Mapping[str, object], ...]:
        """Return the events to send for what was held back of texts that never finished."""
        return self._flushed(list(self._texts.values()))

    @property
    def reply(self) -> Reply:
        """The answer: as the last event tells it, else what was streamed."""
        whole = all(text.whole for text in self._texts.values())
        reply = response_reply(self._response)
        streamed = "\n".join(
            said for _, text in sorted(self._texts.items(), key=_place) if (said := text.said)
        )
        told = strip_memory_context(reply.text) if len(reply.text) <= MAX_REPLY else ""
        return replace(
            reply,
            text=(told if self._ended else "") or streamed,
            finish_reason=reply.finish_reason
            if whole and self._ended and len(reply.text) <= MAX_REPLY
            else None,
            refused=reply.refused or self._refused,
            calls_tools=reply.calls_tools or self._calls_tools,
        )

    def _delta(self, event: Mapping[str, object]) -> Change:
        delta, place = event.get("delta"), (event.get("output_index"), event.get("content_index"))
        if not isinstance(delta, str):
            return Change()
        try:
            text = self._texts.get(place)
        except TypeError:  # no index: a list or an object
            return Change(edits=_edited(("delta",), delta, strip_memory_context(delta)))
        if text is None:
            if len(self._texts) >= MAX_TEXTS:
                return Change(edits=_edited(("delta",), delta, strip_memory_context(delta)))
            text = self._texts[place] = _Text()
        text.template = event
        return Change(edits=_edited(("delta",), delta, text.add(delta)))

    def _rests(self, event: Mapping[str, object], kind: str) -> tuple[Mapping[str, object], ...]:
        """Return what was held back of the texts that an event ends."""
        if kind in _ENDINGS:
            return self._flushed(list(self._texts.values()))
        if kind not in (
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
        ):
            return ()
        output, part = event.get("output_index"), event.get("content_index")
        return self._flushed(
            [
                text
                for (its_output, its_part), text in self._texts.items()
                if its_output == output and (kind == "response.output_item.done" or its_part == part)
            ]
        )

    @staticmethod
    def _flushed(texts: list[_Text]) -> tuple[Mapping[str, object], ...]:
        rests = [(text.template, text.add("", last=True)) for text in texts]
        return tuple({**template, "delta": rest} for template, rest in rests if rest)


def reply_edits(body: object) -> dict[Path, str]:
    """Return what to change in a whole reply (completion or response): path to the text without blocks."""
    return {
        path: new for path, old in _texts_of(as_mapping(body)) if (new := strip_memory_context(old)) != old
    }


def _edited(path: Path, old: str, new: str) -> dict[Path, str]:
    return {} if new == old else {path: new}


def _place(found: tuple[tuple[object, object], _Text]) -> tuple[int, ...]:
    return tuple(index if isinstance(index, int) else 0 for index in found[0])


def _texts_of(body: Mapping[str, object]) -> Iterator[tuple[Path, str]]:
    """Where finished texts stand in a reply, or in an event that repeats them."""
    for number, choice in enumerate(as_messages(body.get("choices"))):
        message = as_mapping(as_mapping(choice).get("message"))
        yield from _content(("choices", number, "message", "content"), message.get("content"))
    if body.get("type") == "response.output_text.done":
        yield from _content(("text",), body.get("text"))
    yield from _content(("part",), [body.get("part")], single=True)
    yield from _content(("item", "content"), as_mapping(body.get("item")).get("content"))
    prefix: Path = ("response",) if "response" in body else ()
    response = as_mapping(body.get("response")) if prefix else body
    for number, item in enumerate(as_messages(response.get("output"))):
        yield from _content((*prefix, "output", number, "content"), as_mapping(item).get("content"))
    yield from _content((*prefix, "output_text"), response.get("output_text"))


def _content(path: Path, content: object, *, single: bool = False) -> Iterator[tuple[Path, str]]:
    """Where text stands in the content of a message: a string, or parts."""
    if isinstance(content, str):
        yield path, content
        return
    for number, part in enumerate(content if isinstance(content, (list, tuple)) else ()):
        shown = as_mapping(part)
        if shown.get("type") in ("text", "output_text") and isinstance(text := shown.get("text"), str):
            yield (*path, "text") if single else (*path, number, "text"), text
