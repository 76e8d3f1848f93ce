"""What the LanceDB provider declares: its version, and its capabilities with their grades."""

from __future__ import annotations

from rawthink_core.provider import Capability

VERSION = "1"
CAPABILITIES = {
    Capability.GET: "yes",
    Capability.SCAN: "yes",
    Capability.GRAPH: "yes",
    Capability.HISTORY: "yes",
    Capability.FORGET: "erased",  # "deleted" where the bucket keeps old versions of objects
    Capability.EXPORT: "yes",
    Capability.RESTORE: "yes",
    Capability.MAINTAIN: "yes",
    Capability.ATOMIC_WRITES: "yes",
    Capability.IDEMPOTENT_RECORD: "yes",
    Capability.AS_OF: "yes",
    Capability.VALID_AT: "yes",
    Capability.LEXICAL: "yes",
    Capability.DENSE: "yes",
    Capability.VERBATIM: "yes",
    Capability.ACTIVITY: "yes",
    Capability.READ_YOUR_WRITES: "at once",
    Capability.RANKING: "core",
    Capability.FILTERS: "before_top_k",
    Capability.PROCESSES: "many",
    Capability.DURABLE: "process crash",  # the library does not sync what it commits to a disk
}
