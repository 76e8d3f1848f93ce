"""Failures, switched on per request: refusals, broken connections, hanging and late answers, wrong bodies."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

from rawthink_nowledge_emulator.refusals import Refusal
from rawthink_nowledge_emulator.wire import Cut, Reply

if TYPE_CHECKING:
    from rawthink_nowledge_emulator.wire import Request

# What changes an answer on its way; whether the request is carried out all the same.
WAYS = {
    "drop": False,  # the connection closes without an answer
    "hang": False,  # no answer until `release`, or ever
    "internal": False,  # the handler breaks: a 500 in its route's words, or what old versions answer instead
    "cut": True,  # half of the body, then the connection closes
    "slow": True,  # the answer comes after `seconds`: the write was done before
    "truncated": True,  # half of the body, well delivered: no JSON
    "chunked": True,  # the answer as it is, in chunks: no failure, but not every client can
}

HTML = "<!doctype html><html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"
PAGES = {
    "html": Reply(200, HTML.format(title="Sign in").encode(), "text/html; charset=utf-8"),
    "bad_gateway": Reply(502, HTML.format(title="502 Bad Gateway").encode(), "text/html"),
    "too_large": Reply(413, HTML.format(title="413 Request Entity Too Large").encode(), "text/html"),
    "empty": Reply(200, b""),
    "no_type": Reply(200, b"", ""),
    "object": Reply(200, b"{}"),
    "list": Reply(200, b"[]"),
    "null": Reply(200, b"null"),
    "no_json": Reply(200, b"ok", "text/plain; charset=utf-8"),
    "allowlist": Reply.of(
        {
            "detail": "Access denied by IP allowlist. Add this device IP/CIDR in "
            "Settings > Access Anywhere > Restrict by IP."
        },
        403,
    ),
    "not_exposed": Reply.of(
        {
            "detail": "Target endpoint is not exposed in remote mode. "
            "Remote mode only exposes memory-center APIs."
        },
        403,
    ),
    "no_key_configured": Reply.of({"detail": "Remote API key is not configured"}, 503),
}

BUSY = 0  # stands for the status assumed of the busy family
# Codes of the server's registry that no request provokes here: status, sentence, retryable.
CODES: dict[str, tuple[int, str, bool]] = {
    "hawdb_search_admission_busy": (BUSY, "Search is busy. Retry shortly.", True),
    "hawdb_search_deadline_exceeded": (BUSY, "Search took too long. Retry shortly.", True),
    "thread_capture_authority_busy": (BUSY, "Thread capture is busy. Retry shortly.", True),
    "thread_content_read_busy": (BUSY, "Thread reads are busy. Retry shortly.", True),
    "thread_content_read_timeout": (BUSY, "Reading the thread took too long.", True),
    "storage_admission_unavailable": (BUSY, "Storage is not ready. Retry shortly.", True),
    "memory_search_projection_unavailable": (BUSY, "The search projection is not ready.", True),
    "local_graph_mirror_recovery_required": (BUSY, "The graph mirror must be recovered first.", False),
    "memory_history_search_sync_failed": (
        BUSY,
        "Memory history was corrected, but search visibility could not sync. Retry.",
        True,
    ),
    "vector_search_failed": (500, "Vector search failed", False),
    "memory_fts_search_failed": (500, "Full-text search failed", False),
    "write_destination_required": (422, "A write destination is required", False),
    "space_client_upgrade_required": (426, "This client is too old for Spaces", False),
}
# Of these the request was carried out before it failed.
DONE_ALL_THE_SAME = {"memory_history_search_sync_failed"}


@dataclass
class Failure:
    """One failure: which requests it meets, and what becomes of them.

    ``match`` is a pattern on "METHOD /path", as of a shell. The first ``after`` such requests pass; the next
    ``times`` are met (none: all of them). ``applied`` says whether they are carried out.
    """

    match: str
    what: str
    applied: bool
    times: int | None = 1
    after: int = 0
    seconds: float = 0.0
    answer: Reply | Refusal | None = None
    met: int = field(default=0, init=False)

    def takes(self, request: Request) -> bool:
        """Return whether this request is met, and count it."""
        if not matches(self.match, request) or self.times == 0:
            return False
        if self.after:
            self.after -= 1
            return False
        self.times = None if self.times is None else self.times - 1
        self.met += 1
        return True

    def status(self, reply: Reply) -> int:
        """Return the status that is sent in place of ``reply``; 0 where none is."""
        if self.answer is not None:
            return self.answer.status
        unanswered = self.what == "drop" or (self.what == "hang" and not self.applied)
        return 0 if unanswered else reply.status

    async def spoil(self, reply: Reply, released: asyncio.Event, *, codes: bool) -> Reply:
        """Return what is sent in place of ``reply``, when it is due."""
        if isinstance(self.answer, Refusal):
            return self.answer.answer(codes=codes)
        if self.answer is not None:
            return self.answer
        if self.what == "hang":
            await released.wait()
            return reply if self.applied else replace(reply, cut=Cut.ANSWER)
        if self.what == "slow":
            await asyncio.sleep(self.seconds)
        changes: dict[str, dict[str, Any]] = {
            "drop": {"cut": Cut.ANSWER},
            "cut": {"cut": Cut.BODY},
            "truncated": {"body": reply.body[: len(reply.body) // 2]},
            "chunked": {"chunked": True},
        }
        return replace(reply, **changes.get(self.what, {}))


def matches(pattern: str, request: Request) -> bool:
    """Return whether a request is meant by a pattern on "METHOD /path"."""
    return fnmatchcase(f"{request.method} {request.path}", pattern)


def failure(
    match: str,
    what: str | int,
    *,
    busy: int,
    body: Any = None,
    headers: dict[str, str] | None = None,
    applied: bool | None = None,
    times: int | None = 1,
    after: int = 0,
    seconds: float = 0.0,
) -> Failure:
    """Return a failure by name: of `WAYS`, of `PAGES`, of `CODES`, or a status with ``body`` and ``headers``.

    A body that is text is sent as text, anything else as JSON. Raises `ValueError` for an unknown name.
    """
    build = partial(Failure, match, times=times, after=after, seconds=seconds)
    if isinstance(what, int):
        extra = tuple((headers or {}).items())
        made = Reply.text(body, what, extra) if isinstance(body, str) else Reply.of(body, what, extra)
        return build(str(what), bool(applied), answer=made)
    if what in WAYS:
        return build(what, WAYS[what] if applied is None else applied)
    if what in PAGES:
        return build(what, bool(applied), answer=PAGES[what])
    if what in CODES:
        status, sentence, retryable = CODES[what]
        refusal = Refusal(status or busy, sentence, what, retryable=retryable)
        done = what in DONE_ALL_THE_SAME if applied is None else applied
        return build(what, done, answer=refusal)
    raise ValueError(f"no such failure: {what!r}; known are {json.dumps([*WAYS, *PAGES, *CODES])}")
