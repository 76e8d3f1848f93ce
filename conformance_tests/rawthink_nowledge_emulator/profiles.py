"""How the versions of the server differ, as data: handlers ask the profile and never the version.

Sources: OA is the vendor's OpenAPI 0.9.15, S066 the server 0.6.6 as observed, RT probes of live servers
0.10.27-0.10.30, CLI the client 0.10.109.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Profile:
    """What one version of the server does where versions differ."""

    version: str
    refusals: Literal["json", "text"]
    """What a 422 is: FastAPI's JSON list of faults (OA), or axum's plain text (RT)."""

    client_ids: bool
    """Whether POST /memories takes an ``id`` and says ``action`` (OA); else both are unknown (S066)."""

    created_relationships: Literal["count", "list"]
    """An integer by the OpenAPI; an empty list was seen at 0.10.27."""

    public_fields: frozenset[str]
    """What a MemoryPublic has at its top level beyond the oldest fields."""

    patch_labels: Literal["ignored", "replaced"]
    """PATCH ignores ``labels`` up to 0.10.28; the client 0.10.109 expects them to be replaced."""

    not_found: str
    """The sentence of a 404 for a memory; ``{id}`` is filled in."""

    state_after_limit: bool
    """GET /memories filters by state after LIMIT, so pages may be short and still not the last."""

    state_in_metadata: bool
    """A caller's own ``metadata.state`` other than "active" hides a row from the list."""

    swallows_list_errors: bool
    """An internal error of GET /memories is answered as 200 with no memories."""

    search_needs_query: bool
    """POST search without a query is refused (OA), or answered with an empty list (RT)."""

    search_offset: bool
    """Whether POST search honours ``offset``."""

    error_codes: bool
    """Whether errors carry ``error_code`` and ``retryable``."""

    thread_exists: tuple[int, str]
    """Status and sentence of POST /threads with a known id."""

    append_wraps: bool
    """An empty append is a 500 that quotes the 400."""

    append_mode: bool
    """Whether acknowledgements say how they appended, and identity conflicts are refused."""

    health_details: bool
    """Whether GET /health/details exists; the client falls back to /health where it doesn't."""

    @property
    def number(self) -> tuple[int, ...]:
        """The version as numbers, to compare with a route's ``since``."""
        return tuple(int(part) for part in self.version.split("."))


OLDEST = Profile(
    version="0.6.6",
    refusals="json",
    client_ids=False,
    created_relationships="count",
    public_fields=frozenset(),
    patch_labels="ignored",
    not_found="Memory not found",
    state_after_limit=True,
    state_in_metadata=True,
    swallows_list_errors=True,
    search_needs_query=True,
    search_offset=False,
    error_codes=False,
    thread_exists=(500, "Thread creation failed"),
    append_wraps=True,
    append_mode=False,
    health_details=False,
)

PYTHON = replace(
    OLDEST,
    version="0.9.15",
    client_ids=True,
    public_fields=frozenset({"unit_type"}),
    thread_exists=(409, "Thread {id} already exists in space {space}"),
    append_wraps=False,
)

RUST = replace(
    PYTHON,
    version="0.10.28",
    refusals="text",
    created_relationships="list",
    public_fields=frozenset(
        (
            "unit_type",
            "created_at",
            "is_crystal",
            "review_status",
            "lifecycle_state",
            "is_latest",
            "claim_status",
            "source_grounding",
            "trust_warnings",
        )
    ),
    not_found="Memory not found: {id}",
    state_after_limit=False,
    state_in_metadata=False,
    swallows_list_errors=False,
    search_needs_query=False,
    search_offset=True,
    error_codes=True,
    thread_exists=(409, "Thread already exists."),
    append_mode=True,
    health_details=True,
)

NEWEST = replace(RUST, version="0.10.109", patch_labels="replaced", created_relationships="count")

PROFILES = {profile.version: profile for profile in (OLDEST, PYTHON, RUST, NEWEST)}
GENERATIONS = {"0.6": OLDEST, "0.9": PYTHON, "0.10": NEWEST}


def profile_of(name: str) -> Profile:
    """Return the profile of a generation ("0.10") or of one version ("0.10.28"); raise `ValueError` else."""
    found = GENERATIONS.get(name) or PROFILES.get(name)
    if found is None:
        raise ValueError(f"unknown generation {name!r}: known are {', '.join([*GENERATIONS, *PROFILES])}")
    return found
