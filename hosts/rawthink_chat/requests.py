"""A request as it goes over the wire: read, and given a block without touching another byte of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from rawthink_chat.injecting import is_block, place_of_block
from rawthink_chat.jsontext import read_json, span_of, value_at
from rawthink_chat.shapes import input_messages, previous_response


class Api(Enum):
    """The two APIs that carry a chat; the value is how their paths end."""

    COMPLETIONS = "/chat/completions"
    RESPONSES = "/responses"


def api_of(method: str, path: str) -> Api | None:
    """Return which API a request speaks, by its method and the path of its URL; None for all others."""
    if method.upper() != "POST":
        return None
    return next((api for api in Api if path.rstrip("/").endswith(api.value)), None)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request to a chat API: its bytes, and what they say."""

    api: Api
    body: bytes
    text: str
    fields: Mapping[str, object]

    @property
    def messages(self) -> list[object]:
        """The client's messages, or items of a responses request; a string is one message of the user."""
        if self.api is Api.RESPONSES:
            return input_messages(self.fields.get("input"))
        messages = self.fields.get("messages")
        return messages if isinstance(messages, list) else []

    @property
    def takes_block(self) -> bool:
        """Whether there is a place for a block in it."""
        return place_of_block(self.messages) is not None

    @property
    def knows_blocks(self) -> bool:
        """Whether the model may see blocks of earlier turns: in its messages, or in what the server keeps."""
        kept = previous_response(self.fields) or self.fields.get("conversation")
        return bool(kept) or any(map(is_block, self.messages))

    def with_block(self, block: str) -> bytes:
        """Return the body with a block before the user's last message; the very body where there is no place.

        All that the client wrote stands there as it wrote it. A string as ``input`` becomes a list of the
        block and of that string.
        """
        messages, whole = self.messages, self.fields.get("input")
        at = place_of_block(messages) if block.strip() else None
        if at is None:
            return self.body
        ours = json.dumps({"role": "user", "content": block}, ensure_ascii=self.text.isascii())
        if self.api is Api.RESPONSES and isinstance(whole, str):
            span = span_of(self.text, ("input",))
            if not whole.strip() or span is None or value_at(self.text, span[0]) != whole:
                return self.body
            own = f'{{"role": "user", "content": {self.text[slice(*span)]}}}'
            return self._put(span[0], span[1], f"[{ours}, {own}]")
        field = "input" if self.api is Api.RESPONSES else "messages"
        span = span_of(self.text, (field, at))
        if span is None or value_at(self.text, span[0]) != messages[at]:  # the key stands there twice
            return self.body
        return self._put(span[0], span[0], f"{ours}, ")

    def _put(self, start: int, end: int, new: str) -> bytes:
        return f"{self.text[:start]}{new}{self.text[end:]}".encode("utf-8", "surrogateescape")


def read_request(api: Api, body: bytes) -> ChatRequest | None:
    """Return what a body says; None where it is no JSON object in UTF-8: it is the upstream's to refuse."""
    text = body.decode("utf-8", "surrogateescape")
    fields = read_json(text)
    return ChatRequest(api, body, text, fields) if isinstance(fields, Mapping) else None
