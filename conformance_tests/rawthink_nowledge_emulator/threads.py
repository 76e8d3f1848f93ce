"""Threads: create, append, import, list, read, search, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_nowledge_emulator import index, shapes
from rawthink_nowledge_emulator.appending import append, new_thread
from rawthink_nowledge_emulator.call import Call, Route
from rawthink_nowledge_emulator.fields import Field, check
from rawthink_nowledge_emulator.refusals import Refusal
from rawthink_nowledge_emulator.state import thread_key

if TYPE_CHECKING:
    from rawthink_nowledge_emulator.state import Thread

NEITHER = "Either 'file_path' or 'messages' is required"

MESSAGE = (
    Field("role", required=True),
    Field("content", required=True),
    Field("timestamp"),  # a string: numbers are refused
    Field("metadata", "object"),
)
CREATE = (
    Field("thread_id", required=True, shortest=1),
    Field("messages", "array", required=True, items=MESSAGE),
    Field("title"),
    Field("participants", "array"),
    Field("source"),
    Field("space_id"),
    Field("metadata", "object"),
    Field("idempotency_key"),
    Field("expected_message_count", "integer", least=0),
)
APPEND = (
    Field("messages", "array", items=MESSAGE),
    Field("file_path"),
    Field("format"),
    Field("deduplicate", "boolean", default=True),
    Field("idempotency_key"),
    Field("expected_message_count", "integer", least=0),
    Field("append_mode"),
    Field("space_id"),
)


def create(call: Call) -> dict[str, Any]:
    """Create a thread; refuse one whose id is taken."""
    space_id = call.space(write=True)
    if thread_key(call.body["thread_id"]) in call.state.threads:
        status, sentence = call.profile.thread_exists
        said = sentence.format(id=thread_key(call.body["thread_id"]), space=space_id)
        raise Refusal(status, said, "thread_already_exists")
    thread = new_thread(call, call.body, space_id)
    return {
        "thread": shapes.thread_node(thread),
        "messages": _messages(thread),
        "created_relationships": len(thread.messages),
        "auto_generated_summary": None,
        "extracted_memories": [],
        "auto_extraction_performed": False,
    }


def _messages(thread: Thread) -> list[dict[str, Any]]:
    return [shapes.message(message, order) for order, message in enumerate(thread.messages)]


def _thread(call: Call) -> Thread:
    found = call.state.thread(call.parts["id"])
    if found is None or (call.said_space() is not None and found.space_id != call.space()):
        raise Refusal(404, "Thread not found", "thread_not_found")
    return found


def _unknown(call: Call, name: str) -> Refusal:
    status = call.assumed("unknown_thread_status") if call.profile.error_codes else 400
    return Refusal(status, f"Thread not found: {name}", "thread_not_found")


def add(call: Call) -> dict[str, Any]:
    """Append messages; the acknowledgement says how many were new and how many there are."""
    thread = call.state.thread(call.parts["id"])
    if not call.body["messages"]:
        if call.body["file_path"]:
            raise Refusal(400, f"File not found: {call.body['file_path']}")
        if call.profile.append_wraps:
            raise Refusal(500, f"Failed to append messages: 400: {NEITHER}")
        raise Refusal(400, NEITHER)
    if thread is None or (call.said_space() is not None and thread.space_id != call.space(write=True)):
        raise _unknown(call, call.parts["id"])
    done = append(call, thread, call.body)
    told: dict[str, Any] = {
        "success": True,
        "thread_id": thread.thread_id,
        "messages_added": done.added,
        "total_messages": len(thread.messages),
    }
    if call.profile.append_mode:
        told["append_mode"] = done.mode
    return told


def imports(call: Call) -> dict[str, Any]:
    """Import threads, new or known. What goes wrong with one is told inside a 200."""
    payloads = call.raw.get("threads")
    if not isinstance(payloads, list):
        payloads = [_from_markdown(call.raw) if "markdown_content" in call.raw else call.raw]
    space_id = call.space(write=True)
    results = [_import(call, payload, space_id) for payload in payloads]
    failed = sum(not result["success"] for result in results)
    return {
        "success": not failed,
        "imported_count": len(results) - failed,
        "failed_count": failed,
        "results": results,
    }


def _from_markdown(raw: dict[str, Any]) -> dict[str, Any]:
    content = str(raw["markdown_content"])
    return {**raw, "messages": [{"role": "user", "content": content}] if content.strip() else []}


def _import(call: Call, payload: Any, space_id: str) -> dict[str, Any]:
    values = payload if isinstance(payload, dict) else {}
    values = {"thread_id": call.state.new_id(), **values}
    checked, faults = check(CREATE, values, ("body",))
    told = {"thread_id": thread_key(str(values["thread_id"])), "title": str(values.get("title") or "")}
    if faults:
        return {**told, "success": False, "message_count": 0, "error": faults[0].plain}
    thread = call.state.thread(checked["thread_id"])
    try:
        if thread is None:
            if checked["expected_message_count"]:
                raise _unknown(call, checked["thread_id"])
            thread, mode = new_thread(call, checked, space_id), "created"
        else:
            mode = append(call, thread, checked).mode
    except Refusal as error:
        refused = {"success": False, "message_count": len(thread.messages) if thread else 0}
        return {**told, **refused, "error": str(error.detail), "error_code": error.code}
    told |= {"title": thread.title}
    more = {"append_mode": mode} if call.profile.append_mode else {}
    return {**told, "success": True, "message_count": len(thread.messages), **more}


def _selected(call: Call) -> list[Thread]:
    space_id = call.space()
    rows = sorted(call.state.threads.values(), key=lambda thread: thread.updated_at, reverse=True)
    source = call.query["source"]
    return [row for row in rows if row.space_id == space_id and source in (None, row.source)]


def listing(call: Call) -> dict[str, Any]:
    """List threads, the one last changed first."""
    page, told = call.page(_selected(call))
    return {"threads": [shapes.thread_line(row) for row in page], "pagination": told}


def show(call: Call) -> dict[str, Any]:
    """Return a thread and a page of its messages; past the end an empty one."""
    thread = _thread(call)
    rows = _messages(thread)
    limit, offset = call.query["limit"], call.query["offset"]
    return {
        "thread": shapes.thread_node(thread),
        "messages": rows[offset : offset + limit],
        "total_messages": len(rows),
        "total_tokens": sum(row["token_count"] for row in rows),
        "related_memories": _memories(call, thread),
        "entities": [],
        "covered_message_ids": [],
    }


def _memories(call: Call, thread: Thread) -> list[str]:
    return [one.id for one in call.state.memories.values() if one.source_thread_id == thread.thread_id]


def search(call: Call) -> dict[str, Any]:
    """Search the messages of threads."""
    asked = index.words(call.query["query"])
    found = []
    for thread in _selected(call):
        hits = [
            (index.score(asked, index.words(message["content"]))[0], message) for message in _messages(thread)
        ]
        matched = [(value, message) for value, message in hits if value >= index.LEAST]
        best = max([value for value, _ in matched], default=index.score(asked, index.words(thread.title))[0])
        if best >= index.LEAST:
            found.append(_match(thread, best, [message for _, message in matched]))
    found.sort(key=lambda row: -row["relevance_score"])
    kept = found[: call.query["limit"]]
    return {"threads": kept, "total_found": len(found), "search_metadata": {"query": call.query["query"]}}


def _match(thread: Thread, value: float, matched: list[dict[str, Any]]) -> dict[str, Any]:
    shown = shapes.thread_node(thread)
    names = ("id", "thread_id", "title", "summary", "message_count", "source", "space_id", "participants")
    return {
        **{name: shown[name] for name in names},
        "last_activity": shown["updated_at"],
        "relevance_score": value,
        "total_matches": len(matched),
        "matched_messages": matched,
    }


def delete(call: Call) -> dict[str, Any]:
    """Delete a thread, and with ``cascade_delete_memories`` what was distilled from it."""
    thread = _thread(call)
    cascade = call.query["cascade_delete_memories"]
    memories = _memories(call, thread) if cascade else []
    for memory_id in memories:
        call.state.drop_memory(memory_id)
    del call.state.threads[thread.thread_id]
    return {
        "message": "Thread deleted successfully",
        "deleted_messages": len(thread.messages),
        "deleted_memories": len(memories),
        "cascade_deletion": cascade,
    }


def merge_metadata(call: Call) -> dict[str, Any]:
    """Merge metadata into a thread's: over what is there, or under it."""
    thread = _thread(call)
    said = call.body["metadata"]
    thread.metadata = (
        {**said, **thread.metadata} if call.body["only_missing"] else {**thread.metadata, **said}
    )
    return {"thread_id": thread.thread_id, "metadata": thread.metadata}


PAGE = (Field("offset", "integer", default=0, least=0), Field("space_id"))
LIST = (Field("limit", "integer", default=20, least=1, most=1000), Field("source"), *PAGE)
SEARCH = (
    Field("query", required=True),
    Field("mode", default="full"),
    Field("limit", "integer", default=20, least=1, most=500),
    Field("source"),
    Field("space_id"),
)
DELETE = (Field("cascade_delete_memories", "boolean", default=False), Field("space_id"))
MERGE = (Field("metadata", "object", required=True), Field("only_missing", "boolean", default=False))

ROUTES = (
    Route("POST", "/threads", create, body=CREATE, broken="Thread creation failed"),
    Route(
        "POST", "/threads/create-only", create, body=CREATE, since=(0, 10), broken="Thread creation failed"
    ),
    Route("POST", "/threads/import", imports, body=()),
    Route("GET", "/threads", listing, query=LIST),
    Route("GET", "/threads/search", search, query=SEARCH),
    Route(
        "GET", "/threads/{id}", show, query=(Field("limit", "integer", default=100, least=1, most=500), *PAGE)
    ),
    Route("DELETE", "/threads/{id}", delete, query=DELETE),
    Route("POST", "/threads/{id}/append", add, body=APPEND, broken="Failed to append messages: {error}"),
    Route("POST", "/threads/{id}/metadata/merge", merge_metadata, body=MERGE),
)
