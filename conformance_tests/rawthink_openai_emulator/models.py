"""What the model says. Its name is its script: parts joined by ``+``, the first of which is what it says.

| part | what it does |
|---|---|
| ``echo`` | repeats the user's last message |
| ``parrot`` | repeats everything that the user's messages say, memory blocks included |
| ``recall`` | repeats the memories of the last block, else says that it doesn't know |
| ``count`` | counts the messages that it sees |
| ``tools`` | calls the first tool, and says what that returned |
| ``two-tools`` | the same with two calls at once |
| ``refuse``, ``filter``, ``cut`` | refuses; is filtered; is cut off by its length |
| ``long:BYTES`` | says so many bytes |
| ``slow:MS`` | waits before each piece |
| ``pieces:N`` | sends so many characters a piece (4 unless told) |
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

Function = Callable[["Question"], "Answer"]

_ENDS: Final = {"filter": "content_filter", "cut": "length"}
_BULLET: Final = re.compile(r"^- (.*)$", re.MULTILINE)
_BLOCK: Final = re.compile(r"<memory-context>(.*?)</memory-context>", re.DOTALL)


@dataclass(frozen=True)
class Question:
    """What a model is asked: its name, the messages in chat-completions form, and names of tools."""

    model: str
    messages: list[dict[str, Any]]
    tools: list[str] = field(default_factory=list)

    def said(self, role: str) -> list[str]:
        """Return the texts of a role's messages, in order."""
        return [text_of(m.get("content")) for m in self.messages if m.get("role") == role]

    def since_user(self, role: str) -> list[str]:
        """Return the texts of a role's messages behind the user's last one."""
        last = max((n for n, m in enumerate(self.messages) if m.get("role") == "user"), default=-1)
        return [text_of(m.get("content")) for m in self.messages[last + 1 :] if m.get("role") == role]


@dataclass(frozen=True)
class Call:
    """A call of a tool; ``arguments`` is JSON."""

    name: str
    arguments: str = "{}"


@dataclass(frozen=True)
class Answer:
    """What the model says, and how: seconds before each piece, and characters of one."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    refusal: str | None = None
    finish_reason: str = "stop"
    pause: float = 0.0
    piece: int = 4

    def pieces(self) -> list[str]:
        """Return the text cut into pieces."""
        return [self.text[at : at + self.piece] for at in range(0, len(self.text), self.piece)]


def scripted(question: Question) -> Answer:
    """Return what the model of this name says. Raises ValueError for a name that is none."""
    parts = question.model.split("+")
    options = dict(part.partition(":")[::2] for part in parts)
    said = _say(parts[0].partition(":")[0], options, question)
    pause, piece = int(options.get("slow") or 0) / 1000, int(options.get("pieces") or 4)
    return Answer(said.text, said.calls, said.refusal, said.finish_reason, pause, max(1, piece))


def _say(name: str, options: dict[str, str], question: Question) -> Answer:
    users = question.said("user")
    last = users[-1] if users else ""
    match name:
        case "echo":
            return Answer(last)
        case "parrot":
            return Answer("\n".join(users))
        case "recall":
            blocks = _BLOCK.findall("\n".join(users))
            memories = _BULLET.findall(blocks[-1]) if blocks else []
            return Answer("I remember: " + " | ".join(memories) if memories else "I don't know.")
        case "count":
            return Answer(f"I see {len(question.messages)} messages.")
        case "tools" | "two-tools":
            return _use_tools(question, last, 2 if name == "two-tools" else 1)
        case "refuse":
            return Answer(refusal="I can't help with that.")
        case "filter" | "cut":
            return Answer(last[: len(last) // 2], finish_reason=_ENDS[name])
        case "long":
            size = int(options["long"])
            return Answer(("all work and no play " * (size // 21 + 1))[:size])
    raise ValueError(f"The model `{question.model}` does not exist or you do not have access to it.")


def _use_tools(question: Question, last: str, times: int) -> Answer:
    if results := question.since_user("tool"):
        return Answer("The tool says: " + " | ".join(results))
    if not question.tools:
        return Answer("I have no tool.")
    arguments = json.dumps({"query": last})
    return Answer(calls=(Call(question.tools[0], arguments),) * times, finish_reason="tool_calls")


def text_of(content: object) -> str:
    """Return the text of a message's content: a string, or its text parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))
