"""What the real server refuses, with the status and the words by which clients know it."""

from __future__ import annotations

from typing import Any, Final

ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")


class Refused(Exception):  # noqa: N818 - that is what it says
    """A request that the API does not take. ``code`` and ``param`` are those of OpenAI's error object."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        kind: str = "invalid_request_error",
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.kind = status, param, code, kind

    def body(self) -> dict[str, Any]:
        """Return OpenAI's error object."""
        return {"error": {"message": str(self), "type": self.kind, "param": self.param, "code": self.code}}


def check_model(body: dict[str, Any]) -> str:
    """Return the model's name. Raises Refused without one."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise Refused("you must provide a model parameter")
    return model


def check_messages(messages: object) -> list[dict[str, Any]]:
    """Return the messages of a chat-completions request. Raises Refused as the real server does.

    Results of tools must stand right behind the calls that they answer, all of them and nothing between.
    """
    if not isinstance(messages, list):
        raise Refused(
            "Missing required parameter: 'messages'.", param="messages", code="missing_required_parameter"
        )
    if not messages:
        raise Refused("Invalid 'messages': empty array.", param="messages", code="empty_array")
    open_calls: list[str] = []
    for n, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ROLES:
            raise Refused(f"Invalid value: {role!r}.", param=f"messages[{n}].role", code="invalid_value")
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                raise Refused(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
                    "with 'tool_calls'.",
                    param=f"messages.[{n}].role",
                )
            open_calls.remove(message["tool_call_id"])
            continue
        _all_answered(open_calls)
        if role == "user" and not isinstance(message.get("content"), (str, list)):
            raise Refused(
                f"Invalid value for 'content': expected a string, got {message.get('content')!r}.",
                param=f"messages.[{n}].content",
            )
        open_calls = [str(call.get("id")) for call in message.get("tool_calls") or ()]
    _all_answered(open_calls)
    return messages


def _all_answered(calls: list[str]) -> None:
    if calls:
        raise Refused(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(calls)}",
            param="messages",
        )
