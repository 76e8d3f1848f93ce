"""The MCP server itself, on the official SDK: lists the tools of a profile, calls them, and tells errors.

Whatever goes wrong with a call is an answer flagged as an error, in a sentence that its reader can act on; a
fault of ours becomes a short id, and its traceback goes to the log. Both eras of the protocol are the SDK's.
"""

from __future__ import annotations

import importlib
import logging
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp.server.lowlevel.server import Server
from mcp_types import CallToolResult, ListToolsResult, TextContent, ToolAnnotations
from mcp_types import Tool as Listing
from pydantic import BaseModel

from rawthink_core.errors import InvalidRequest, RawThinkError
from rawthink_core.vocabulary import unknown
from rawthink_mcp_server.shapes import taken
from rawthink_mcp_server.tools import PROFILES, TOOLS

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams, PaginatedRequestParams

    from rawthink_core.vocabulary import Vocabulary
    from rawthink_mcp_server.house import House
    from rawthink_mcp_server.telling import Told
    from rawthink_mcp_server.tools import Tool

    Context = ServerRequestContext[Any, Any]

log = logging.getLogger("rawthink.mcp")

NAME = "rawthink"
_MOST = 19_000  # characters of an error
_ANYTHING = {"type": "object"}

_SEARCH = (
    "Long-term memory of what was decided, rejected, believed and given up, and why.",
    "Search it before you answer from memory or decide: search_thoughts (all), search_nodes (graph).",
)
_INSTRUCTIONS = {
    "challenge": "Before a plan is settled, challenge it: it tells what was rejected or given up, and why.",
    "record_decision": (
        "Record decisions with record_decision, also what was rejected and why; what is known with record. "
        "State as an assertion only what somebody confirmed."
    ),
    "revise": "When something is no longer so, revise it: nothing is overwritten.",
}
_LAST = "An answer that says INCOMPLETE is not all that is known."


class Tools:
    """The tools of one profile, over one house."""

    def __init__(self, house: House, profile: str = "agent", *, structured: bool = False) -> None:
        self.house = house
        self.offered = {name: TOOLS[name] for name in PROFILES[profile]}
        self.profile = profile
        self._structured = structured

    def server(self, version: str = "") -> Server[Any]:
        """Return the SDK's server with these tools."""
        return Server(
            NAME,
            version=version,
            instructions=self.instructions(),
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    def instructions(self) -> str:
        """Return what every client tells its model at the start: when to use which tool."""
        said = [text for name, text in _INSTRUCTIONS.items() if name in self.offered]
        return " ".join([*_SEARCH, *said, _LAST] if "search_thoughts" in self.offered else [*said, _LAST])

    # --- listing --------------------------------------------------------------------------------

    async def _list(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:  # noqa: ARG002
        self.house.wake(_client(context))
        words = await self.house.words()
        return ListToolsResult(tools=[self._listing(tool, words) for tool in self.offered.values()])

    def _listing(self, tool: Tool, words: Vocabulary) -> Listing:
        return Listing(
            name=tool.name,
            title=tool.title,
            description=tool.about,
            input_schema=tool.arguments.schema(words),
            output_schema=_ANYTHING if self._structured else None,
            annotations=ToolAnnotations(
                read_only_hint=tool.reads,
                destructive_hint=tool.erases,
                idempotent_hint=tool.repeatable,
                open_world_hint=False,
            ),
        )

    # --- calling --------------------------------------------------------------------------------

    async def _call(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        self.house.wake(_client(context))
        try:
            told = await self._answer(context, params.name, params.arguments or {})
        except RawThinkError as error:
            return _answered(_bounded(str(error)), failed=True)
        except Exception:
            number = uuid.uuid4().hex[:8]
            log.exception("error %s: the tool %s failed in an unforeseen way", number, params.name)
            return _answered(_unforeseen(number, self.offered[params.name]), failed=True)
        return _answered(told.text, _plain(told.documents) if self._structured else None)

    async def _answer(self, context: Context, name: str, sent: dict[str, Any]) -> Told:
        tool = self.offered.get(name)
        if tool is None:
            raise InvalidRequest(f"{unknown('tool', name, tuple(self.offered))} ({self._elsewhere(name)})")
        if faults := list(tool.arguments.faults(sent, "")):
            faults += tool.arguments.words(sent, "", await self.house.words())
            raise InvalidRequest(faults)
        at = await self.house.open()
        at = at._replace(report=context.session.report_progress)
        work = getattr(importlib.import_module(f"rawthink_mcp_server.{tool.module}"), name)(at, **taken(sent))
        told: Told = await (work if tool.reads else self.house.to_the_end(work))
        return told

    def _elsewhere(self, name: str) -> str:
        if name in TOOLS:
            where = ", ".join(profile for profile, names in PROFILES.items() if name in names)
            return f"RAWTHINK_TOOL_PROFILE is {self.profile}; it is offered by {where}"
        return f"these are the tools of the profile {self.profile}"


def _client(context: Context) -> str | None:
    """Return what the client calls itself."""
    params = context.session.client_params
    if params is None:
        return None
    return f"{params.client_info.name} {params.client_info.version}".strip()[:100] or None


def _answered(text: str, data: Any = None, *, failed: bool = False) -> CallToolResult:
    whole = text.encode("utf-8", "backslashreplace").decode()  # half a character can't be sent
    return CallToolResult(
        content=[TextContent(type="text", text=whole)], structured_content=data, is_error=failed
    )


def _bounded(text: str) -> str:
    """Return an error's sentence, or as many of its lines as an answer holds."""
    if len(text) <= _MOST:
        return text
    kept = text[:_MOST].rpartition("\n")[0] or text[:_MOST]
    return f"{kept}\n… and {text[len(kept) :].count(chr(10))} more lines: mend these first"


def _plain(value: Any) -> Any:
    """Return a document as JSON takes it."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


def _unforeseen(number: str, tool: Tool) -> str:
    after = "" if tool.reads else " It may have been written all the same: look before you repeat it."
    return (
        f"The memory failed in an unforeseen way (error {number}); this is no answer.{after} "
        f"The server's log names the cause under that number; `rawthink doctor` checks the store."
    )
