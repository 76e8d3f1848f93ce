"""What the server refuses with: a status, a sentence."""

from __future__ import annotations

from typing import Any, Literal

from rawthink_nowledge_emulator.wire import Reply


class Refusal(Exception):  # noqa: N818 - an answer, not a fault of ours
    """A request that is not carried out. ``answer`` words it as the server does."""

    def __init__(
        self,
        status: int,
        detail: Any,
        code: str = "",
        *,
        retryable: bool | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
        self.code = code
        self.retryable = retryable
        self.headers = headers

    def answer(self, *, codes: bool) -> Reply:
        """Return the answer; ``codes`` says whether this server's errors carry codes."""
        value: dict[str, Any] = {"detail": self.detail}
        if codes and self.code:
            value["error_code"] = self.code
            if self.retryable is not None:
                value["retryable"] = self.retryable
        return Reply.of(value, self.status, self.headers)


class TextRefusal(Refusal):
    """A refusal in plain text, as the Rust server's framework words its own."""

    def answer(self, *, codes: bool) -> Reply:  # noqa: ARG002 - text has no codes
        """Return the answer."""
        return Reply.text(str(self.detail), self.status, self.headers)


def conflict(code: Literal["checkpoint_conflict", "message_identity_conflict"]) -> Refusal:
    """Return the refusal of an append that doesn't fit what the thread holds."""
    sentences = {
        "checkpoint_conflict": "Checkpoint conflict.",
        "message_identity_conflict": "Thread message identity conflicts with existing content.",
    }
    return Refusal(409, sentences[code], code)
