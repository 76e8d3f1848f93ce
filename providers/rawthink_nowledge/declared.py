"""What the Nowledge provider declares: its version, and its capabilities with their grades."""

from __future__ import annotations

from rawthink_core.provider import Capability
from rawthink_nowledge.api import MAX_CONTENT

VERSION = "1"
CAPABILITIES = {
    Capability.GET: "yes",
    Capability.SCAN: "yes",
    Capability.GRAPH: "yes",
    Capability.HISTORY: "yes",
    Capability.FORGET: "deleted",  # what the server derived, and its backups, are out of reach
    Capability.EXPORT: "yes",
    Capability.RESTORE: "yes",
    Capability.MAINTAIN: "yes",
    Capability.ATOMIC_WRITES: "yes",  # a batch counts from the one call on that writes its log
    Capability.IDEMPOTENT_RECORD: "yes",
    Capability.AS_OF: "yes",
    Capability.VALID_AT: "yes",
    Capability.LEXICAL: "yes",
    Capability.VERBATIM: "yes",
    Capability.ACTIVITY: "yes",
    Capability.READ_YOUR_WRITES: "at once",  # by id and in the list; the server's own search may lag
    Capability.RANKING: "core",
    Capability.FILTERS: "before_top_k",
    Capability.PROCESSES: "many",
    Capability.DURABLE: "process crash",
    Capability.BACKGROUND_CHANGES: "yes",
    Capability.MAX_TEXT: str(MAX_CONTENT),
}


def capabilities(*, server_search: bool) -> dict[Capability, str]:
    """Return what is declared. With the server's search, which weighs otherwise, the order is not core's."""
    return CAPABILITIES | ({Capability.RANKING: "native"} if server_search else {})
