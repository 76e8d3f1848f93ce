"""A chat turn on its way to and from a memory: what to ask before it, what to keep after it.

Pure but for the calls that `Memory` makes with the results. What was injected is stripped and secrets are
masked before anything is asked or stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rawthink_core.chat import Labels, is_complete, labels_for, message_text, speaker_of, turn_text
from rawthink_core.context import MemoryLine, render
from rawthink_core.injected import strip_memory_context
from rawthink_core.model import Hit  # noqa: TC001 - pydantic needs it at run time
from rawthink_core.operations import Answer, NewPassage, Recall, parse
from rawthink_core.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

MAX_TOKENS, MAX_ITEMS = 600, 8


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

    ``messages`` are OpenAI-style, the last user message is the turn's; ``reply`` is the assistant's text.
    ``vouched`` says that the host itself wrote the speaker's header into the text. An answer that was cut
    off is not kept. The passage's key is ``message_id``, else a hash of the conversation so far. Raises
    InvalidRequest.
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
    text = turn_text(_clean(speaker.text), _clean(reply), speaker.name, chosen)
    if text is None:
        return None
    key = message_id or _conversation_key(messages)
    return parse(NewPassage, {"text": text, "session": session, "key": key, "speaker": speaker.name})


def _clean(text: str) -> str:
    return redact(strip_memory_context(text)).text


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _conversation_key(messages: Sequence[object]) -> str:
    """Return a key for the place in a conversation: what was said so far, without what we injected."""
    said = [
        f"{message.get('role')}\x1f{strip_memory_context(message_text(message.get('content')))}"
        for message in messages
        if isinstance(message, Mapping) and message.get("role") in ("user", "assistant")
    ]
    data = "\x1e".join(said).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()
