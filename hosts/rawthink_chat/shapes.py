"""What stands where in OpenAI's chat-completions and responses formats, requests and replies, as plain data.

Nothing here changes or copies a client's objects, and nothing raises on a shape it doesn't know: fields that
the formats gain are left alone. Objects of the `openai` package are read through their ``model_dump``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rawthink_core.chat import is_complete, is_tool_traffic, message_text

if TYPE_CHECKING:
    from collections.abc import Sequence

# What comes of an answer. Only a complete one is remembered.
Outcome = Literal["complete", "interrupted", "refused", "filtered", "tools", "empty"]

_REFUSED = frozenset({"refusal", "refused"})
_FILTERED = frozenset({"content_filter", "safety", "prohibited_content", "blocked"})
_CALLS = frozenset({"tool_calls", "function_call", "tool_use"})


@dataclass(frozen=True, slots=True)
class Reply:
    """A finished answer: its text, why it ended (None: it was cut off), and what else it held.

    ``id`` is the completion's or the response's. ``usage`` is what the server counted, as it came.
    """

    text: str = ""
    finish_reason: str | None = None
    refused: bool = False
    calls_tools: bool = False
    id: str | None = None
    usage: Mapping[str, object] | None = None

    @property
    def outcome(self) -> Outcome:
        """What came of the answer; it is worth keeping when this is ``complete``."""
        reason = (self.finish_reason or "").casefold()
        if self.calls_tools or reason in _CALLS:
            return "tools"
        if self.refused or reason in _REFUSED:
            return "refused"
        if reason in _FILTERED:
            return "filtered"
        if not is_complete(self.finish_reason):
            return "interrupted"
        return "complete" if self.text.strip() else "empty"


def as_mapping(value: object) -> Mapping[str, object]:
    """Return ``value`` to read fields from: itself, what a pydantic object holds, or nothing."""
    if isinstance(value, Mapping):
        return value
    dump = None if isinstance(value, type) else getattr(value, "model_dump", None)
    held = dump(warnings=False) if callable(dump) else None
    return held if isinstance(held, Mapping) else {}


def as_messages(messages: object) -> list[object]:
    """Return a client's messages, the very objects, as a list. An iterator is used up: send the list on."""
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
        return []
    return list(messages)


def readable(messages: object) -> list[Mapping[str, object]]:
    """Return messages as core reads them: mappings, in the same order and number."""
    return [as_mapping(message) for message in as_messages(messages)]


def input_messages(given: object) -> list[object]:
    """Return the items of a responses request's ``input``; a string is one message of the user."""
    return [{"role": "user", "content": given}] if isinstance(given, str) else as_messages(given)


def question_at(messages: Sequence[object]) -> int | None:
    """Return the index of the last message of the user; None without one."""
    for index in reversed(range(len(messages))):
        if _is_user(as_mapping(messages[index])):
            return index
    return None


def continues_tools(messages: Sequence[object]) -> bool:
    """Whether a request only goes on with tools: calls or results stand in or after the user's last message.

    So does one without any message of the user, but with results.
    """
    at = question_at(messages) or 0
    return any(is_tool_traffic(as_mapping(message)) for message in messages[at:])


def session_of(request: Mapping[str, object]) -> str | None:
    """Return the conversation that a request itself names, or None.

    That is ``conversation`` of the responses API (an id, or an object with one), else ``session_id``,
    ``conversation_id`` or ``thread_id`` in ``metadata``. A claim of the client, so only for use in its space.
    """
    conversation = request.get("conversation")
    named = as_mapping(conversation).get("id") if not isinstance(conversation, str) else conversation
    metadata = as_mapping(request.get("metadata"))
    names = (named, *(metadata.get(key) for key in ("session_id", "conversation_id", "thread_id")))
    return next((name for name in names if isinstance(name, str) and name.strip()), None)


def previous_response(request: Mapping[str, object]) -> str | None:
    """Return the response that a responses request goes on from; its messages are kept by the server."""
    previous = request.get("previous_response_id")
    return previous if isinstance(previous, str) and previous else None


def completion_reply(completion: object) -> Reply:
    """Return the answer in a chat completion. Of several choices: the first complete one, else the first."""
    body = as_mapping(completion)
    choices = [as_mapping(choice) for choice in as_messages(body.get("choices"))]
    replies = [_choice_reply(body, choice) for choice in sorted(choices, key=choice_index)]
    return best_reply(replies, Reply(id=text_or_none(body.get("id")), usage=usage_of(body)))


def best_reply(replies: Iterable[Reply], otherwise: Reply) -> Reply:
    """Return the first complete answer, else the first, else ``otherwise``."""
    known = list(replies)
    complete = (reply for reply in known if reply.outcome == "complete")
    return next(complete, None) or next(iter(known), otherwise)


def choice_index(choice: Mapping[str, object]) -> int:
    """Return which of several choices this is; 0 where it doesn't say."""
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def response_reply(response: object) -> Reply:
    """Return the answer in a response object of the responses API: the text of all its messages."""
    body = as_mapping(response)
    items = [as_mapping(item) for item in as_messages(body.get("output"))]
    messages = [item for item in items if item.get("type", "message") == "message"]
    parts = [as_mapping(part) for item in messages for part in as_messages(item.get("content"))]
    texts = [text for item in messages if (text := message_text(readable(item.get("content"))))]
    return Reply(
        text="\n".join(texts),
        finish_reason=response_reason(body),
        refused=any(part.get("type") == "refusal" for part in parts),
        calls_tools=any(is_client_call(item) for item in items),
        id=text_or_none(body.get("id")),
        usage=usage_of(body),
    )


def response_reason(body: Mapping[str, object]) -> str | None:
    """Return why a response ended: ``completed``, what it lacks, or None where it goes on or failed."""
    status = body.get("status")
    if status == "incomplete":
        reason = as_mapping(body.get("incomplete_details")).get("reason")
        return reason if isinstance(reason, str) else "length"
    return status if status == "completed" else None


def is_client_call(item: Mapping[str, object]) -> bool:
    """Whether an item of a response asks the client to run a tool; those that the server runs don't."""
    kind = item.get("type")
    return kind in ("function_call", "custom_tool_call", "computer_call", "local_shell_call") or (
        kind in ("shell_call", "apply_patch_call", "mcp_approval_request")
    )


def usage_of(body: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return the count of tokens in a reply or chunk, None where there is none."""
    return as_mapping(body.get("usage")) or None


def text_or_none(value: object) -> str | None:
    """Return a string, None for anything else."""
    return value if isinstance(value, str) else None


def _choice_reply(body: Mapping[str, object], choice: Mapping[str, object]) -> Reply:
    message = as_mapping(choice.get("message"))
    return Reply(
        text=message_text(message.get("content")),
        finish_reason=text_or_none(choice.get("finish_reason")),
        refused=bool(message.get("refusal")),
        calls_tools=bool(message.get("tool_calls") or message.get("function_call")),
        id=text_or_none(body.get("id")),
        usage=usage_of(body),
    )


def _is_user(message: Mapping[str, object]) -> bool:
    return message.get("role") == "user"
