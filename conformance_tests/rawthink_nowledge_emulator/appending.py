"""How messages get into a thread: what is the same message, checkpoints, keys for a retry."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rawthink_nowledge_emulator import shapes
from rawthink_nowledge_emulator.refusals import conflict
from rawthink_nowledge_emulator.state import Message, Thread, thread_key

if TYPE_CHECKING:
    from rawthink_nowledge_emulator.call import Call

# In this order; at the top of a message or in its metadata.
IDENTITIES = ("external_id", "source_message_id", "message_id", "openclaw_entry_id")


@dataclass(frozen=True)
class Appended:
    """What an append did."""

    added: int
    mode: str


def identity(message: dict[str, Any], key: str | None, number: int) -> tuple[str, bool]:
    """Return what a message is told apart by, and whether that was given rather than made of its text."""
    metadata = message.get("metadata") or {}
    for name in IDENTITIES:
        said = message.get(name) or metadata.get(name)
        if said:
            return f"id:{said}", True
    if key:
        return f"idem:{key}:{number}", True
    return "md5:" + hashlib.md5(message["content"].encode(), usedforsecurity=False).hexdigest(), False


def append(call: Call, thread: Thread, payload: dict[str, Any]) -> Appended:
    """Append messages to a thread; raise `Refusal` where they don't fit, with nothing appended.

    ``payload`` has ``messages`` and, where said, ``deduplicate``, ``idempotency_key`` and
    ``expected_message_count``.
    """
    given = payload["messages"]
    if payload.get("deduplicate") is False:
        fresh = [(message, identity(message, None, 0)[0]) for message in given]
    else:
        fresh = _fresh(call, thread, given, payload.get("idempotency_key"))
    expected = payload.get("expected_message_count")
    repeated = not fresh and bool(given) and call.assumed("append_replay") == "acknowledged"
    if expected is not None and expected != len(thread.messages) and not repeated:
        raise conflict("checkpoint_conflict")
    for message, name in fresh:
        thread.messages.append(_message(call, message, name))
    thread.updated_at = call.state.clock.tick()
    return Appended(len(fresh), "deduplicated" if expected is None else "checkpointed")


def _fresh(
    call: Call, thread: Thread, given: list[dict[str, Any]], key: str | None
) -> list[tuple[dict[str, Any], str]]:
    """Return the messages that the thread doesn't hold, each once."""
    held = {message.identity: message.content for message in thread.messages}
    fresh = []
    for number, message in enumerate(given):
        name, told = identity(message, key, number)
        if name not in held:
            held[name] = message["content"]
            fresh.append((message, name))
        elif told and call.profile.append_mode and held[name] != message["content"]:
            raise conflict("message_identity_conflict")
    return fresh


def _message(call: Call, message: dict[str, Any], name: str) -> Message:
    now = shapes.stamp(call.state.clock.tick())
    return Message(
        call.state.new_id(),
        message["role"],
        message["content"],
        message.get("timestamp") or now,
        name,
        dict(message.get("metadata") or {}),
    )


def new_thread(call: Call, payload: dict[str, Any], space_id: str) -> Thread:
    """Make a thread of a payload, its messages included: here each is kept, alike or not."""
    now = call.state.clock.tick()
    title = payload.get("title") or next((m["content"][:50] for m in payload["messages"]), "Untitled")
    thread = Thread(
        id=call.state.new_id(),
        thread_id=thread_key(payload["thread_id"]),
        title=title,
        space_id=space_id,
        created_at=now,
        updated_at=now,
        source=payload.get("source") or "",
        participants=[str(one) for one in payload.get("participants") or []],
        metadata=dict(payload.get("metadata") or {}),
    )
    for number, message in enumerate(payload["messages"]):
        name, _ = identity(message, payload.get("idempotency_key"), number)
        thread.messages.append(_message(call, message, name))
    call.state.threads[thread.thread_id] = thread
    return thread
