"""The table of tools: names, what clients read about them, their arguments, and who is offered which.

Names and arguments are those of rawthink-mcp 2.x, so that habits and prompts carry over. Each tool is a
function of the same name in the module that its row names. Lists of tools are a standing cost for their
readers: every word here is paid for in each conversation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rawthink_mcp_server import shapes
from rawthink_mcp_server.shapes import Choice, Flag, Listed, Text, Thing, Whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rawthink_mcp_server.shapes import Shape


@dataclass(frozen=True)
class Tool:
    """One tool. Whatever is no read or erasure only adds: `destructive` is said of erasures alone."""

    name: str
    title: str
    about: str
    module: str
    arguments: Thing
    reads: bool = False
    erases: bool = False
    repeatable: bool = True  # called again with the same arguments, it changes nothing more


_TEXTS = Listed(Text())

_QUOTES: dict[str, Shape] = {
    "entity_name": Text(),
    "observations": Listed(Text(), "Texts or ids"),
}


def _entity(*, listed: bool) -> Thing:
    return Thing(
        {
            "name": Text(),
            "entityType": shapes.entity_type(listed=listed),
            "domain": shapes.domain(listed=listed),
            "epistemic": shapes.epistemic(listed=listed),
            "visibility": shapes.visibility(listed=listed),
            "observations": _TEXTS,
        },
        ("name",),
    )


def _relation(*, listed: bool) -> Thing:
    return Thing(
        {"from": Text(), "to": Text(), "relationType": shapes.relation_type(listed=listed)},
        ("from", "to", "relationType"),
    )


def _observation(*, listed: bool) -> Thing:
    return Thing(
        {
            "entityName": Text(),
            "contents": _TEXTS,
            "kind": shapes.kind(listed=listed),
            "valid_from": Text(),
        },
        ("entityName", "contents"),
    )


_TOOLS = (
    Tool(
        "search_thoughts",
        "Search",
        "Search notes, sessions, chats and graph, in any language",
        "asking",
        Thing(
            {
                "query": Text(),
                "source_type": Choice("source_type", ("session", "qnote", "chat", "graph")),
                "tags": _TEXTS,
                "limit": Whole(),
                "mode": Choice("mode", ("full", "overview")),
            },
            ("query",),
        ),
        reads=True,
    ),
    Tool(
        "get_session",
        "Session",
        "Full text of a session or note",
        "sessions",
        Thing({"session_id": Text(), "offset": Whole()}, ("session_id",)),
        reads=True,
    ),
    Tool(
        "search_nodes",
        "Find",
        "Search the graph",
        "asking",
        Thing(
            {
                "query": Text(),
                "limit": Whole(),
                "max_relations": Whole(),
                "domain": shapes.domain(listed=False),
                "entity_type": shapes.entity_type(listed=False),
            },
            ("query",),
        ),
        reads=True,
    ),
    Tool(
        "open_nodes",
        "Open",
        "All that stands about entities; any item by id",
        "graphs",
        Thing({"names": Listed(Text(), "Names or ids")}, ("names",)),
        reads=True,
    ),
    Tool(
        "read_graph",
        "Graph",
        "Entities page by page, or a summary",
        "graphs",
        Thing(
            {
                "summary": Flag(),
                "entity_type": shapes.entity_type(listed=False),
                "offset": Whole(),
                "limit": Whole(),
            }
        ),
        reads=True,
    ),
    Tool(
        "store_thought",
        "Note",
        "Keep a note",
        "sessions",
        Thing({"text": Text(), "session_id": Text(), "tags": _TEXTS}, ("text",)),
        repeatable=False,
    ),
    Tool(
        "record",
        "Record",
        "All or nothing. New entities need entityType and domain",
        "writing",
        Thing(
            {
                "entities": Listed(_entity(listed=True)),
                "relations": Listed(_relation(listed=True)),
                "observations": Listed(_observation(listed=True)),
            }
        ),
    ),
    Tool(
        "record_decision",
        "Decide",
        "The same name again ends the earlier decision",
        "writing",
        Thing(
            {
                "name": Text(),
                "domain": shapes.domain(listed=False),
                "decided": Text(),
                "because": Text(),
                "rejected": Listed(Text(), "'option — why'"),
                "touches": _TEXTS,
                "epistemic": shapes.epistemic(listed=False),
                "visibility": shapes.visibility(listed=False),
                "supersedes": Text("Decision"),
            },
            ("name", "domain", "decided", "because"),
        ),
    ),
    Tool(
        "revise",
        "Revise",
        "Retire what is no longer so, deleting nothing",
        "writing",
        Thing(
            {
                **_QUOTES,
                "superseded_by": Text("Why, or what is so"),
                "superseding_entity": Text(),
                "changed": Flag(),
            },
            ("entity_name", "observations"),
        ),
    ),
    Tool(
        "challenge",
        "Challenge",
        "What speaks against a plan: rejected, given up, open",
        "asking",
        Thing({"topic": Text(), "limit": Whole()}, ("topic",)),
        reads=True,
    ),
    Tool(
        "history",
        "History",
        "How an entity or item came to be as it is",
        "graphs",
        Thing({"name": Text("Name or id")}, ("name",)),
        reads=True,
    ),
    Tool(
        "reindex",
        "Reindex",
        "Index the vault's files: what changed, one session, or all anew (full)",
        "sessions",
        Thing({"session_id": Text(), "full": Flag()}),
    ),
    Tool(
        "create_entities",
        "Add entities",
        "Record entities",
        "writing",
        Thing({"entities": Listed(_entity(listed=False))}, ("entities",)),
    ),
    Tool(
        "create_relations",
        "Relate",
        "Relate entities that exist",
        "writing",
        Thing({"relations": Listed(_relation(listed=False))}, ("relations",)),
    ),
    Tool(
        "add_observations",
        "Observe",
        "Say more of entities that exist",
        "writing",
        Thing({"observations": Listed(_observation(listed=False))}, ("observations",)),
    ),
    Tool(
        "invalidate_observations",
        "Retire",
        "Retire observations without naming what replaces them",
        "writing",
        Thing({**_QUOTES, "superseded_by": Text("Why")}, ("entity_name", "observations")),
    ),
    Tool(
        "delete_entities",
        "Erase entities",
        "Erase entities and all that is said of them, for good. To change your mind, revise",
        "erasing",
        Thing({"entityNames": _TEXTS}, ("entityNames",)),
        erases=True,
    ),
    Tool(
        "delete_observations",
        "Erase observations",
        "Erase observations for good",
        "erasing",
        Thing(
            {
                "deletions": Listed(
                    Thing({"entityName": Text(), "observations": _TEXTS}, ("entityName", "observations"))
                )
            },
            ("deletions",),
        ),
        erases=True,
    ),
    Tool(
        "delete_relations",
        "Erase relations",
        "Erase relations for good",
        "erasing",
        Thing({"relations": Listed(_relation(listed=False))}, ("relations",)),
        erases=True,
    ),
)

TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in _TOOLS}

_AGENT = (
    "search_thoughts", "get_session", "search_nodes", "open_nodes", "read_graph", "store_thought", "record",
    "record_decision", "revise", "challenge", "history",
)  # fmt: skip

PROFILES: Mapping[str, tuple[str, ...]] = {
    "agent": _AGENT,
    "recall": ("search_thoughts", "get_session", "search_nodes", "open_nodes"),
    "record": ("store_thought", "search_nodes", "record", "record_decision", "revise"),
    "full": tuple(TOOLS),
}
