"""One request as a handler sees it: checked fields, the state, and the space that is meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from rawthink_nowledge_emulator.refusals import Refusal
from rawthink_nowledge_emulator.state import DEFAULT_SPACE, Memory, Space, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from rawthink_nowledge_emulator.fields import Field
    from rawthink_nowledge_emulator.profiles import Profile
    from rawthink_nowledge_emulator.wire import Request

PROTOCOLS = ("exact-v1",)
ENCODED = "percent-v1:"


@dataclass(frozen=True)
class Site:
    """What a server is set up with, apart from its rows."""

    profile: Profile
    assumed: dict[str, Any]
    free_plan: bool = False


@dataclass
class Call:
    """One request in the hands of a handler."""

    request: Request
    site: Site
    state: State
    parts: dict[str, str]
    query: dict[str, Any]
    body: dict[str, Any]  # the checked fields of the body
    raw: dict[str, Any]  # the body as it came

    @property
    def profile(self) -> Profile:
        """What this version of the server does where versions differ."""
        return self.site.profile

    def assumed(self, name: str) -> Any:
        """Return the value in use of one assumption."""
        return self.site.assumed[name]

    def said_space(self) -> str | None:
        """Return the space that the request names, in its body, its query or its header."""
        for values in (self.raw, dict(self.request.query)):
            said = values.get("space_id", values.get("space") if self.request.method == "PATCH" else None)
            if said is not None:
                return str(said)
        header = self.request.headers.get("x-nmem-space-id-encoded", "")
        return unquote(header.removeprefix(ENCODED)) if header.startswith(ENCODED) else None

    def space(self, *, write: bool = False) -> str:
        """Return the space that is meant: the default one where none is named.

        Raises `Refusal` for a space that isn't there and, as assumed, for a blank one.
        """
        said = self.said_space()
        return DEFAULT_SPACE if said is None else self.known_space(said, write=write)

    def known_space(self, space_id: str, *, write: bool = False) -> str:
        """Return ``space_id`` if there is such a space; raise `Refusal` else."""
        protocol = self.request.headers.get("x-nmem-space-protocol")
        if protocol is not None and protocol not in PROTOCOLS:
            raise Refusal(400, "Unsupported space protocol", "unsupported_space_protocol")
        if not space_id.strip():
            if self.assumed("blank_space") == "literal":
                return space_id
            raise Refusal(422, "Space id must not be blank", "invalid_space_selector")
        if space_id in self.state.spaces or (write and self.assumed("unknown_space_write") == "orphan"):
            return space_id
        status = self.assumed("unknown_space_status")
        if write:
            raise Refusal(status, "Space not found", "write_space_unavailable")
        raise Refusal(status, f"Unknown space: {space_id}", "invalid_space_selector")

    def space_row(self, *, write: bool = False) -> Space:
        """Return the row of the space that is meant."""
        found = self.state.spaces.get(self.space(write=write))
        if found is None:
            raise Refusal(self.assumed("unknown_space_status"), "Space not found", "invalid_space_selector")
        return found

    def memory(self, memory_id: str = "", *, anywhere: bool = False, forgotten: bool = False) -> Memory:
        """Return a memory by id: the one in the path by default; raise `Refusal` where it can't be seen."""
        memory_id = memory_id or self.parts["id"]
        found = self.state.memories.get(memory_id)
        if found is None or not (anywhere or self._in_reach(found)):
            raise Refusal(404, self.profile.not_found.format(id=memory_id))
        if found.lifecycle == "forgotten" and not forgotten:
            raise Refusal(self.assumed("forgotten_status"), self.profile.not_found.format(id=memory_id))
        return found

    def _in_reach(self, memory: Memory) -> bool:
        if self.said_space() is None and self.assumed("omitted_space_by_id") == "any":
            return True
        return memory.space_id == self.space()

    def readable_spaces(self) -> set[str]:
        """Return the spaces that a search sees: more than the one it names, if that space shares."""
        named = self.space()
        space = self.state.spaces.get(named) or Space(named, named, self.state.clock.now())
        if self.assumed("shared_spaces") == "ignored" or space.mode == "strict":
            return {named}
        return {named, *(self.state.spaces if space.mode == "all" else space.shared)}

    def page(self, rows: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the page of ``rows`` that limit and offset ask for, and ``pagination``."""
        limit, offset = self.query["limit"], self.query["offset"]
        more = offset + limit < len(rows)
        told = {"limit": limit, "offset": offset, "total": len(rows), "has_more": more}
        return rows[offset : offset + limit], told


@dataclass(frozen=True)
class Route:
    """One endpoint. ``answer`` returns a JSON value, or a `Reply` of its own."""

    method: str
    path: str
    answer: Callable[[Call], Any]
    query: tuple[Field, ...] = ()
    body: tuple[Field, ...] | None = None
    since: tuple[int, ...] = (0,)
    broken: str = "Internal Server Error"  # the detail of a 500, ``{error}`` filled in
    broken_as: Any = None  # what versions that swallow errors answer instead

    def match(self, segments: tuple[str, ...]) -> dict[str, str] | None:
        """Return the named parts of a path; none where it is another route's."""
        parts = self.path.split("/")[1:]
        if len(segments) != len(parts):
            return None
        found: dict[str, str] = {}
        for wanted, got in zip(parts, segments, strict=True):
            if wanted.startswith("{") and got:
                found[wanted[1:-1]] = got
            elif wanted != got:
                return None
        return found
