"""Responses: the object, its events, and what the server keeps of them.

Format: https://platform.openai.com/docs/api-reference/responses and …/responses-streaming. A response is kept
unless ``store`` is false, so that ``previous_response_id`` and ``conversation`` go on from it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from rawthink_openai_emulator.models import Question
from rawthink_openai_emulator.refusals import Refused, check_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rawthink_openai_emulator.models import Answer

Json = dict[str, Any]

_KEPT: Final = 10_000  # responses, and conversations


class Kept:
    """What the server keeps: the items of each response and of each conversation, the oldest forgotten."""

    def __init__(self) -> None:
        self._items: OrderedDict[str, list[Json]] = OrderedDict()

    def before(self, body: Json) -> list[Json]:
        """Return the items that a request goes on from. Raises Refused for a response that isn't known."""
        previous, talk = body.get("previous_response_id"), _conversation(body)
        if previous and talk:
            raise Refused("Mutually exclusive parameters: 'previous_response_id' and 'conversation'.")
        if previous and previous not in self._items:
            raise Refused(
                f"Previous response with id '{previous}' not found.",
                param="previous_response_id",
                code="previous_response_not_found",
            )
        return list(self._items.get(previous or talk or "", ()))

    def keep(self, body: Json, response: Json, items: list[Json]) -> None:
        """Keep a response with all items up to it."""
        talk = _conversation(body)
        for name in [
            *([talk] if talk else []),
            *([response["id"]] if body.get("store") is not False else []),
        ]:
            self._items[name] = [*items, *response["output"]]
            while len(self._items) > _KEPT:
                self._items.popitem(last=False)


def items_of(body: Json) -> list[Json]:
    """Return the items of a request. Raises Refused where it has none that can be read."""
    check_model(body)
    given = body.get("input")
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        raise Refused(
            "Missing required parameter: 'input'.", param="input", code="missing_required_parameter"
        )
    return given


def question_of(body: Json, items: list[Json]) -> Question:
    """Return what a request asks, on top of what the server kept. Raises Refused.

    A result needs the call that it answers; a call needs its result.
    """
    messages: list[Json] = []
    open_calls: list[str] = []
    for item in items:
        match item.get("type", "message"):
            case "function_call":
                open_calls.append(item["call_id"])
            case "function_call_output":
                if item.get("call_id") not in open_calls:
                    raise Refused(
                        f"No tool call found for function call output with call_id {item.get('call_id')}."
                    )
                open_calls.remove(item["call_id"])
                messages.append({"role": "tool", "content": item.get("output")})
            case "message":
                messages.append({"role": item.get("role"), "content": item.get("content")})
    if open_calls:
        raise Refused(f"No tool output found for function call {open_calls[0]}.", param="input")
    tools = [tool.get("name", "") for tool in body.get("tools") or ()]
    return Question(body["model"], messages, tools)


def response(number: int, body: Json, answer: Answer, *, status: str = "") -> Json:
    """Return a response object; ``in_progress`` ones have no output yet."""
    done = not status
    cut = answer.finish_reason in ("length", "content_filter")
    reason = "max_output_tokens" if answer.finish_reason == "length" else "content_filter"
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_764_000_000 + number,
        "status": status or ("incomplete" if cut else "completed"),
        "error": None,
        "incomplete_details": {"reason": reason} if done and cut else None,
        "instructions": body.get("instructions"),
        "metadata": body.get("metadata") or {},
        "model": body["model"],
        "output": _output(number, answer) if done else [],
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "temperature": 1.0,
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "usage": _usage(answer) if done else None,
    }


def events(number: int, body: Json, answer: Answer) -> Iterator[Json]:
    """Yield the events of a streamed response, numbered."""
    for n, event in enumerate(_events(number, body, answer)):
        yield {**event, "sequence_number": n}


def _events(number: int, body: Json, answer: Answer) -> Iterator[Json]:
    begun = response(number, body, answer, status="in_progress")
    whole = response(number, body, answer)
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(whole["output"]):
        yield from _item_events(index, item, answer)
    yield {"type": f"response.{whole['status']}", "response": whole}


def _item_events(index: int, item: Json, answer: Answer) -> Iterator[Json]:
    place = {"item_id": item["id"], "output_index": index}
    if item["type"] == "function_call":
        begun = {**item, "status": "in_progress", "arguments": ""}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        for at in range(0, len(item["arguments"]), 8):
            delta = item["arguments"][at : at + 8]
            yield {"type": "response.function_call_arguments.delta", **place, "delta": delta}
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield {"type": "response.function_call_arguments.done", **place, **done}
    else:
        begun = {**item, "status": "in_progress", "content": []}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        place |= {"content_index": 0}
        (part,) = item["content"]
        kind = part["type"]
        empty = {**part, ("refusal" if kind == "refusal" else "text"): ""}
        yield {"type": "response.content_part.added", **place, "part": empty}
        if kind == "refusal":
            yield {"type": "response.refusal.delta", **place, "delta": part["refusal"]}
            yield {"type": "response.refusal.done", **place, "refusal": part["refusal"]}
        else:
            for piece in answer.pieces():
                yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
            yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **place, "part": part}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _output(number: int, answer: Answer) -> list[Json]:
    if answer.calls:
        return [
            {
                "id": f"fc_{number}_{n}",
                "type": "function_call",
                "status": "completed",
                "call_id": f"call_{number}_{n}",
                "name": call.name,
                "arguments": call.arguments,
            }
            for n, call in enumerate(answer.calls)
        ]
    part: Json = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
    if answer.refusal:
        part = {"type": "refusal", "refusal": answer.refusal}
    status = "completed" if answer.finish_reason == "stop" else "incomplete"
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": [part],
    }
    return [message]


def _usage(answer: Answer) -> Json:
    said = len(answer.text) // 4
    return {"input_tokens": 1, "output_tokens": said, "total_tokens": said + 1}


def _conversation(body: Json) -> str | None:
    talk = body.get("conversation")
    name = talk.get("id") if isinstance(talk, dict) else talk
    return name if isinstance(name, str) and name else None
