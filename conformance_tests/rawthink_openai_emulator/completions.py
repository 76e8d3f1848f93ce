"""Chat completions: the object and its chunks (https://platform.openai.com/docs/api-reference/chat)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_openai_emulator.models import Question, text_of
from rawthink_openai_emulator.refusals import check_messages, check_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rawthink_openai_emulator.models import Answer

Json = dict[str, Any]


def question_of(body: Json) -> Question:
    """Return what a request asks. Raises Refused."""
    model, messages = check_model(body), check_messages(body.get("messages"))
    tools = [tool.get("function", {}).get("name", "") for tool in body.get("tools") or ()]
    return Question(model, messages, tools if body.get("tool_choice") != "none" else [])


def completion(number: int, body: Json, answers: Sequence[Answer]) -> Json:
    """Return a whole completion, a choice for each answer."""
    choices = [
        {"index": n, "message": _message(answer), "logprobs": None, "finish_reason": answer.finish_reason}
        for n, answer in enumerate(answers)
    ]
    return {**_head(number, body, "chat.completion"), "choices": choices, "usage": _usage(body, answers)}


def chunks(number: int, body: Json, answers: Sequence[Answer]) -> Iterator[Json]:
    """Yield the chunks of a streamed completion, the choices in turn, piece by piece."""
    head = {**_head(number, body, "chat.completion.chunk"), "service_tier": "default"}
    counts = bool((body.get("stream_options") or {}).get("include_usage"))
    streams = [_deltas(n, answer) for n, answer in enumerate(answers)]
    while streams:
        for stream in tuple(streams):
            choice = next(stream, None)
            if choice is None:
                streams.remove(stream)
            else:
                yield {**head, "choices": [choice]} | ({"usage": None} if counts else {})
    if counts:
        yield {**head, "choices": [], "usage": _usage(body, answers)}


def _deltas(index: int, answer: Answer) -> Iterator[Json]:
    def choice(delta: Json, reason: str | None = None) -> Json:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}

    if answer.calls:
        yield choice({"role": "assistant", "content": None})
        for n, call in enumerate(answer.calls):
            function = {"name": call.name, "arguments": ""}
            yield choice(
                {
                    "tool_calls": [
                        {"index": n, "id": _call_id(index, n), "type": "function", "function": function}
                    ]
                }
            )
        width = 8
        for start in range(0, max(len(call.arguments) for call in answer.calls), width):  # side by side
            for n, call in enumerate(answer.calls):
                if part := call.arguments[start : start + width]:
                    yield choice({"tool_calls": [{"index": n, "function": {"arguments": part}}]})
    else:
        yield choice({"role": "assistant", "content": "", "refusal": None})
        for piece in answer.pieces():
            yield choice({"content": piece})
        if answer.refusal:
            yield choice({"refusal": answer.refusal})
    yield choice({}, answer.finish_reason)


def _message(answer: Answer) -> Json:
    message: Json = {
        "role": "assistant",
        "content": None if answer.calls or answer.refusal else answer.text,
        "refusal": answer.refusal,
        "annotations": [],
    }
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": _call_id(0, n),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for n, call in enumerate(answer.calls)
        ]
    return message


def _call_id(choice: int, number: int) -> str:
    return f"call_{choice}_{number}"


def _head(number: int, body: Json, kind: str) -> Json:
    return {
        "id": f"chatcmpl-{number}",
        "object": kind,
        "created": 1_764_000_000 + number,
        "model": body["model"],
        "system_fingerprint": "fp_emulated",
    }


def _usage(body: Json, answers: Sequence[Answer]) -> Json:
    """Count tokens as four characters each: nobody is billed for them."""
    asked = sum(len(text_of(m.get("content"))) for m in body["messages"]) // 4
    said = sum(len(answer.text) for answer in answers) // 4
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
