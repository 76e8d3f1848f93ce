"""The calls that we make of the API, one method each, with their answers checked for shape.

The API is known from its documents and from what was seen of live servers of either generation. Where an
answer's body is not known for sure, nothing of it is relied on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from rawthink_core.errors import BackendProtocolError
from rawthink_nowledge.faults import MemoryMissing, RouteMissing

if TYPE_CHECKING:
    from rawthink_nowledge.client import Client

PAGE: Final = 100  # memories a page may have
QUESTION: Final = 500  # characters of a question, as the vendor's own programs cut it
MAX_CONTENT: Final = 32_768
MAX_TITLE: Final = 200

Memory = dict[str, Any]


class Page(NamedTuple):
    """One page of a list. ``total`` counts the whole list, where the server says so."""

    memories: list[Memory]
    total: int | None
    more: bool


class Scored(NamedTuple):
    """One memory that the server's search found."""

    memory: Memory
    score: float


class Api:
    """The calls, on one server."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def _strange(self, what: str, saw: object) -> BackendProtocolError:
        return BackendProtocolError(
            f"Nowledge Mem at {self.client.url} answered {type(saw).__name__} of another form to {what}; is "
            "it one, and is its version supported?"
        )

    def _object(self, answer: Any, what: str) -> dict[str, Any]:
        if not isinstance(answer, dict):
            raise self._strange(what, answer)
        return answer

    def _memory(self, answer: Any, what: str) -> Memory:
        """Return a memory, bare or wrapped; one without an id is none."""
        if isinstance(answer, dict):
            memory = answer.get("memory", answer)
            if isinstance(memory, dict) and isinstance(memory.get("id"), str) and memory["id"]:
                return memory
        raise self._strange(what, answer)

    # --- memories -------------------------------------------------------------------------------

    async def create(self, body: dict[str, Any]) -> Memory:
        """Create a memory (or put it in place of the one with its id) and return it as the server has it."""
        answer = await self.client.write("POST", "/memories", body=body, what="a new memory")
        return self._memory(answer, "a new memory")

    async def get(self, memory_id: str) -> Memory | None:
        """Return a memory by the server's id; None where there is none."""
        try:
            answer = await self.client.read(f"/memories/{quote(memory_id, safe='')}", what="reading a memory")
        except MemoryMissing:
            return None
        return self._memory(answer, "reading a memory")

    async def page(self, space: str, offset: int, limit: int = PAGE, *, state: str = "all") -> Page:
        """Return a page of all memories of a Space, the newest first."""
        what = "listing memories"
        params = {"space_id": space, "limit": limit, "offset": offset, "state": state}
        answer = self._object(await self.client.read("/memories", params, what=what), what)
        memories, pages = answer.get("memories"), answer.get("pagination")
        if not isinstance(memories, list) or not all(isinstance(each, dict) for each in memories):
            raise self._strange(what, memories)
        pages = pages if isinstance(pages, dict) else {}
        total = pages.get("total")
        total = total if isinstance(total, int) else None
        more = bool(pages.get("has_more", len(memories) == limit))
        return Page([m for m in memories if isinstance(m.get("id"), str) and m["id"]], total, more)

    async def delete(self, memory_id: str) -> bool:
        """Delete a memory and nothing that hangs on it; tell whether it was there."""
        path = f"/memories/{quote(memory_id, safe='')}"
        try:
            await self.client.write("DELETE", path, {"cascade_delete": "false"}, what="deleting a memory")
        except MemoryMissing:
            return False
        return True

    async def patch(self, memory_id: str, changes: dict[str, Any]) -> Memory:
        """Change what people see of a memory."""
        path = f"/memories/{quote(memory_id, safe='')}"
        answer = await self.client.write("PATCH", path, body=changes, what="changing a memory")
        return self._memory(answer, "changing a memory")

    async def supersede(self, old: str, new: str, reason: str, space: str) -> Any:
        """Say that a memory took another's place; return the answer, of which nobody knows the form."""
        body = {"newer_memory_id": new, "reason": reason, "space_id": space}
        return await self.client.write(
            "POST", f"/memories/{quote(old, safe='')}/supersede", body=body, what="supersede"
        )

    async def deprecate(self, old: str, reason: str, space: str) -> None:
        """Say that a memory no longer stands, and nothing took its place."""
        body = {"reason": reason, "space_id": space}
        await self.client.write(
            "POST", f"/memories/{quote(old, safe='')}/deprecate", body=body, what="deprecate"
        )

    async def replaced(self, old: str) -> bool:
        """Tell whether the server knows that something replaced a memory."""
        what = "reading what replaced a memory"
        answer = self._object(
            await self.client.read("/agent/evolves", {"memory_id": old, "limit": PAGE}, what=what), what
        )
        edges = answer.get("edges")
        return isinstance(edges, list) and any(
            isinstance(edge, dict)
            and edge.get("older_id") == old
            and edge.get("content_relation") == "replaces"
            for edge in edges
        )

    async def search(self, question: str, space: str, limit: int = PAGE) -> list[Scored]:
        """Return what the server's own search finds, the best first."""
        what = "a search"
        body = {
            "query": question[:QUESTION],
            "limit": limit,
            "mode": "fast",
            "include_entities": False,
            "space_id": space,
        }
        answer = await self.client.read("/memories/search", body=body, what=what)
        if not isinstance(answer, list):
            raise self._strange(what, answer)
        found = []
        for hit in answer:
            memory = hit.get("memory") if isinstance(hit, dict) else None
            if isinstance(memory, dict) and isinstance(memory.get("id"), str):
                found.append(Scored(memory, _number(hit.get("similarity_score"))))
        return found

    async def append(self, thread: str, title: str, message: dict[str, Any], space: str) -> None:
        """Add a message to a thread, which is made where there is none."""
        what = "adding to a thread"
        path = f"/threads/{quote(thread, safe='')}/append"
        body = {"messages": [message], "deduplicate": True, "space_id": space}
        try:
            await self.client.write("POST", path, body=body, what=what)
        except Exception as error:
            if not _no_thread(error):
                raise
            made = {"thread_id": thread, "title": title, "messages": [message], "space_id": space}
            await self.client.write("POST", "/threads", body={**made, "source": "rawthink"}, what=what)

    async def held(self, space: str) -> int:
        """Return how many memories the server says that a Space holds; of one without Spaces, all of them."""
        spaces = await self.spaces()
        if spaces is not None:
            usage = next((s.get("usage") for s in spaces if space in (s.get("id"), s.get("key"))), None)
            return _count(usage, "memories")
        return _count(await self.client.read("/stats", what="its statistics"), "memory_count")

    # --- the server -----------------------------------------------------------------------------

    async def health(self) -> dict[str, Any]:
        """Return how the server is."""
        return self._object(await self.client.read("/health", what="its health"), "its health")

    async def spaces(self) -> list[dict[str, Any]] | None:
        """Return the server's Spaces; None where it does not know the word."""
        what = "listing Spaces"
        try:
            answer = self._object(await self.client.read("/spaces", what=what), what)
        except RouteMissing:
            return None
        spaces = answer.get("spaces")
        return [s for s in spaces if isinstance(s, dict)] if isinstance(spaces, list) else []


def _number(value: Any) -> float:
    return min(1.0, max(0.0, float(value))) if isinstance(value, int | float) else 0.0


def _count(body: Any, name: str) -> int:
    number = body.get(name) if isinstance(body, dict) else None
    return number if isinstance(number, int) else 0


def _no_thread(error: Exception) -> bool:
    return "thread not found" in str(error).casefold() or "thread_not_found" in str(error)
