"""The behaviours that a client meets here. Each has a test of its name."""

from __future__ import annotations

from typing import NamedTuple


class Behaviour(NamedTuple):
    """One behaviour: its number, a name, and what it is."""

    number: int
    name: str
    sentence: str


BEHAVIOURS = (
    Behaviour(1, "create", "POST /memories answers 200 with a node, an action, no warnings, and defaults."),
    Behaviour(
        2, "upsert", "The same id again updates: labels are added, and only those of this call are told."
    ),
    Behaviour(3, "ids_ignored", "The oldest version ignores a given id and tells no action."),
    Behaviour(4, "missing_content", "A missing content is refused with 422: text today, a JSON list before."),
    Behaviour(5, "limits", "Content, title and importance out of their limits are refused with 422."),
    Behaviour(6, "malformed", "Malformed JSON is refused with 400 as text, another content type with 415."),
    Behaviour(
        7, "metadata", "The server writes into metadata, and reading adds four keys; `state` may hide a row."
    ),
    Behaviour(8, "event_dates", "A month becomes its first day; a date-time becomes nothing, in silence."),
    Behaviour(9, "title", "Without a title it is the first 50 characters and three dots."),
    Behaviour(10, "listing", "GET /memories takes a limit of 1 to 100 and shows the newest first, in pages."),
    Behaviour(
        11, "short_pages", "Old versions filter by state after the limit, and answer an error with nothing."
    ),
    Behaviour(12, "patch", "PATCH ignores or replaces labels, takes unknown keys, and keeps no history."),
    Behaviour(13, "not_found", "An unknown memory is 404 with its id; a second DELETE is 404."),
    Behaviour(14, "post_search", "POST search answers a bare array with scores from 0.20, without labels."),
    Behaviour(15, "get_search", "GET search answers pages; wrong names browse; scores lie over confidence."),
    Behaviour(16, "index_lag", "A new row is there by id at once, and in search later or never."),
    Behaviour(17, "degraded", "Without an embedder search matches whole words only, and says so."),
    Behaviour(18, "supersede", "A superseded memory is hidden by default, has an edge, and stays readable."),
    Behaviour(
        19, "supersede_refused", "Not across spaces, not by an unknown one, not against a person's word."
    ),
    Behaviour(20, "retired", "Archived and deprecated are hidden but readable; forgotten isn't readable."),
    Behaviour(21, "relations", "Relations are put by ends and type, within a space, and deleted softly."),
    Behaviour(22, "labels", "A label's id is made of its name, so that several names are one label."),
    Behaviour(23, "thread_exists", "An existing thread is 409 with a code; in the oldest version 500."),
    Behaviour(24, "append", "Appending knows messages by id, else by text; a wrong count is a conflict."),
    Behaviour(25, "import_fails_inside", "An import that fails is told inside a 200."),
    Behaviour(26, "thread_ids", "Thread ids are lower case, found by either id; past the end is empty."),
    Behaviour(27, "access", "Two sentences for 401, exempt paths, a block after eight wrong keys."),
    Behaviour(28, "free_plan", "On the free plan the 21st memory is refused with 402."),
    Behaviour(29, "busy", "Busy is 503 with a code and retryable; a broken search is 500 with a sentence."),
    Behaviour(30, "ambiguous_write", "A late answer, or none, to a write that was done."),
    Behaviour(
        31, "broken_answers", "Connections refused or broken off; answers that aren't what they should be."
    ),
    Behaviour(32, "unknown_space", "An unknown space is refused; a blank one isn't one left out."),
    Behaviour(33, "background", "Memories change between two calls."),
)
