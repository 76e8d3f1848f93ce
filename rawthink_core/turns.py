"""A chat turn on its way to and from a memory: what to ask before it, what to keep after it.

Pure but for the calls that `Memory` makes with the results. What was injected is stripped and secrets are
masked before anything is asked or stored.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rawthink_core.chat import Labels, Speaker, is_complete, labels_for, message_text, speaker_of, turn_text
from rawthink_core.context import MemoryLine, render
from rawthink_core.frame import MAX_LIMIT
from rawthink_core.identity import derived_batch_id
from rawthink_core.injected import strip_memory_context
from rawthink_core.marks import compiled
from rawthink_core.model import Hit  # noqa: TC001 - pydantic needs it at run time
from rawthink_core.operations import Answer, NewPassage, Recall, parse
from rawthink_core.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

MAX_TOKENS, MAX_ITEMS = 600, 8
_OWN_TURNS = 16  # of a conversation that are expected among what is found
MAX_LINES = 20  # of others, before the message that is answered


class ChatContext(Answer):
    """What to put before the last user message: ``text`` is the block, empty when nothing is relevant.

    ``degraded`` says why a memory could not be asked; the chat goes on without it.
    """

    text: str = ""
    items: tuple[Hit, ...] = ()
    degraded: str | None = None


def context_of(
    recall: Recall, zone: ZoneInfo, tokens: int = MAX_TOKENS, items: int = MAX_ITEMS
) -> ChatContext:
    """Return the block of what was recalled. The same recall gives the same bytes."""
    lines = [_line(hit, zone) for hit in recall.items]
    return ChatContext(
        text=render(lines, tokens=tokens, items=items), items=recall.items, degraded=recall.degraded
    )


def _line(hit: Hit, zone: ZoneInfo) -> MemoryLine:
    text = hit.text if hit.kind in (None, "note") else f"{hit.kind}: {hit.text}"
    if hit.lapsed and hit.valid_to is not None:
        text = f"(until {hit.valid_to.astimezone(zone):%Y-%m-%d}) {text}"
    who = hit.speaker if hit.item == "passage" else hit.entity_name
    return MemoryLine(hit.date.astimezone(zone).date(), who, text)


def passage_of_turn(
    messages: Sequence[object],
    reply: str | None,
    *,
    session: str,
    message_id: str | None = None,
    finish_reason: object = "stop",
    display_name: str | None = None,
    vouched: bool = False,
    labels: Labels | None = None,
) -> NewPassage | None:
    """Return the passage that keeps a turn, or None when there is no whole turn to keep.

    ``messages`` are OpenAI-style. The last user message is the turn's, with what others of a group (whose
    messages have names) said since the answer before; ``reply`` is the assistant's text. ``vouched`` says
    that the host itself wrote the speaker's header into the text. An answer that was cut off is not kept.
    The passage's key is ``message_id``, else a hash of the conversation so far; an edited question supersedes
    the former where the turn before it was kept. Raises InvalidRequest.
    """
    users = [m for m in messages if isinstance(m, Mapping) and m.get("role") == "user"]
    if not users or not is_complete(finish_reason) or reply is None:
        return None
    chosen = labels_for(message_text(users[0].get("content")), labels)
    speaker = speaker_of(
        message_text(users[-1].get("content")),
        labels=chosen,
        vouched=vouched,
        name=_text(users[-1].get("name")),
        display_name=display_name,
    )
    earlier = _earlier(messages, chosen, vouched=vouched)
    text = turn_text(_clean(speaker.text), _clean(reply), speaker.name, chosen, earlier)
    if text is None:
        return None
    keys = {"key": message_id} if message_id else _conversation_keys(messages)
    return parse(NewPassage, {"text": text, "session": session, "speaker": speaker.name, **keys})


def with_own_turns(limit: int, messages: Sequence[object]) -> int:
    """Return how many to ask for, that so many are left when a conversation's own turns were left out."""
    turns = sum(1 for m in messages if isinstance(m, Mapping) and m.get("role") == "user")
    return limit + max(min(turns - 1, _OWN_TURNS, MAX_LIMIT - limit), 0)


def unsaid(items: Sequence[Hit], messages: Sequence[object]) -> tuple[Hit, ...]:
    """Return the hits but for passages that the messages hold already, line for line.

    A client that sends the whole conversation would else pay for its turns twice, once as memory.
    """
    if not items:
        return ()
    said = "\n".join(message_text(m.get("content")) for m in messages if isinstance(m, Mapping))
    return tuple(hit for hit in items if hit.item != "passage" or not _is_in(said, hit.text))


def _is_in(said: str, passage: str) -> bool:
    label = compiled(r"^\[[^\]\n]*\] ?")
    return all(label.sub("", line).strip() in said for line in passage.splitlines())


class Retakes:
    """Counts how often the text under one key was replaced by another, in this process.

    An answer that was replaced and comes back is a new one; the same turn sent again is not. The last
    ``size`` keys are known.
    """

    def __init__(self, size: int = 10_000) -> None:
        self._size = size
        self._last: OrderedDict[tuple[str, ...], tuple[bytes, int]] = OrderedDict()  # digests of texts

    def batch_id(self, space: str, session: str, passages: Sequence[NewPassage]) -> str:
        """Return the id of the batch that keeps a turn: the same turn's is the same."""
        parts = [space, session]
        for kept in passages:
            key = kept.key or ""
            again = self.number(space, session, key, text=kept.text)
            parts += [key, kept.text, *([str(again)] if again > 1 else [])]
        return derived_batch_id("turn", *parts)

    def number(self, *key: str, text: str) -> int:
        """Return the number of replacements under a key, this text being the newest."""
        said = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        last, number = self._last.get(key, (said, 0))
        number += last != said
        self._last[key] = (said, number)
        self._last.move_to_end(key)
        if len(self._last) > self._size:
            self._last.popitem(last=False)
        return number


def _earlier(messages: Sequence[object], labels: Labels, *, vouched: bool) -> list[Speaker]:
    """Return what people with a name said since the last answer, before the message that is answered now.

    Without a name, what stands there is as likely a document as something somebody said.
    """
    known = [message for message in messages if isinstance(message, Mapping)]
    while known and known[-1].get("role") != "user":
        known.pop()
    said: list[Speaker] = []
    for message in known[:-1]:
        text, role = message_text(message.get("content")), message.get("role")
        if role == "assistant" and text.strip():
            said = []
        elif role == "user":
            one = speaker_of(text, labels=labels, vouched=vouched, name=_text(message.get("name")))
            said += [Speaker(one.name, _clean(one.text))] if one.name != labels.user else []
    return said[-MAX_LINES:]


def _clean(text: str) -> str:
    return redact(strip_memory_context(text)).text


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _conversation_keys(messages: Sequence[object]) -> dict[str, object]:
    """Return the keys of a conversation's last question: of all that was said up to it, and of its place.

    Its place is what was said before it. That counts only behind a turn that was kept (`NewPassage.after`):
    else all the questions of somebody who sends no history, or the same examples each time, would be one.
    Tool traffic, what we injected, and what follows the question make no difference.
    """
    said = [
        (message["role"], text)
        for message in messages
        if isinstance(message, Mapping) and message.get("role") in ("user", "assistant")
        if (text := strip_memory_context(message_text(message.get("content"))).strip())
    ]
    asked = [n for n, (role, _) in enumerate(said) if role == "user"]
    if not asked:
        return {"key": _digest(said)}
    before = said[: asked[-1]]
    keys: dict[str, object] = {"key": _digest(said[: asked[-1] + 1])}
    if place := _place(before):
        answered = max(n for n, (role, _) in enumerate(before) if role == "assistant")
        former = max((n for n in asked if n < answered), default=None)
        after = () if former is None else (_digest(said[: former + 1]), _place(said[:former]))
        keys |= {"place": place, "after": [key for key in after if key]}
    return keys


def _place(said: Sequence[tuple[object, str]]) -> str | None:
    """Return the key of what goes on from these words; None where nothing was answered yet."""
    return _digest([("before", ""), *said]) if any(role == "assistant" for role, _ in said) else None


def _digest(said: Sequence[tuple[object, str]]) -> str:
    data = "\x1e".join(f"{role}\x1f{text}" for role, text in said).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()
