"""Puts the memory's block before the user's last message, and touches nothing else.

The block is a message of its own. It speaks as the user, not as the system: what was remembered has no more
authority than who said it, the instructions stay the client's alone, and no server refuses a second system
message. It stands as late as it can, so all that the client sent before it is still the prefix that a prompt
cache knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rawthink_chat.shapes import (
    as_mapping,
    as_messages,
    continues_tools,
    input_messages,
    is_client_call,
    question_at,
)
from rawthink_core.chat import message_text
from rawthink_core.injected import strip_memory_context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_core.turns import ChatContext

T = TypeVar("T")


def inject(messages: T, context: str | ChatContext) -> T | list[object]:
    """Return ``messages`` of a chat-completions request with a block before the user's last message.

    The result is ``messages`` itself where nothing is added: without a block, without a message of the user,
    where tools are at work on the last one, behind calls that lack their results, and where a block stands
    already. Else it is a new list of the same objects and one more. An iterator would be used up by looking
    at it: pass `as_messages` of it.
    """
    block = context if isinstance(context, str) else context.text
    if not block.strip() or not isinstance(messages, (list, tuple)):
        return messages
    at = place_of_block(messages)
    return messages if at is None else [*messages[:at], {"role": "user", "content": block}, *messages[at:]]


def inject_input(given: T, context: str | ChatContext) -> T | list[object]:
    """Return ``input`` of a responses request with a block before the user's last message; as `inject`.

    A string becomes a list of messages where there is a block to add. ``instructions`` and what the server
    keeps (``previous_response_id``, ``conversation``) stand before all of it.
    """
    if not isinstance(given, str):
        return inject(given, context)
    injected = inject(input_messages(given), context)
    return injected if given.strip() and len(injected) > 1 else given


def place_of_block(messages: Sequence[object]) -> int | None:
    """Return the index that a block may be put at; None where it may not, or stands already."""
    at = question_at(messages)
    if at is None or continues_tools(messages):
        return None
    before = as_mapping(messages[at - 1]) if at else {}
    if calls_tools(before) or is_block(before) or is_block(messages[at]):
        return None
    return at


def calls_tools(message: object) -> bool:
    """Whether a message, or an item of the responses API, calls tools: their results belong right behind."""
    said = as_mapping(message)
    if said.get("role") is None:
        return is_client_call(said)
    parts = [as_mapping(part) for part in as_messages(said.get("content"))] if said.get("content") else []
    uses = any(part.get("type") == "tool_use" for part in parts)
    return said.get("role") == "assistant" and bool(
        said.get("tool_calls") or said.get("function_call") or uses
    )


def is_block(message: object) -> bool:
    """Whether a message holds an injected block and nothing else."""
    said = as_mapping(message)
    text = message_text(said.get("content")) if said.get("role") == "user" else ""
    return bool(text.strip()) and not strip_memory_context(text).strip()


def without_blocks(messages: object) -> list[object]:
    """Return the messages that are not ours: what a client sends when it got ours back from somewhere."""
    return [message for message in as_messages(messages) if not is_block(message)]
