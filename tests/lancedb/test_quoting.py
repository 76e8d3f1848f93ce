"""No text of a caller is ever a part of a condition but as a quoted literal (B42)."""

from __future__ import annotations

import pytest

from rawthink_core.selection import Selection
from rawthink_lancedb import sql
from rawthink_lancedb.filters import condition

from .house import EVERY, finds, memory_at, say, tell

NASTY = (
    "O'Brien",
    "x' OR 1=1 --",
    "'; DROP TABLE s; --",
    'say "so"',
    "back\\slash'",
    "a\nb'\tc",
    "''",
    "%_'",
    "张三'的",
    "\u2028'",
    "x') OR (1=1",
)


def test_a_quote_in_a_text_is_doubled_and_nothing_else_changed():
    assert sql.text("O'Brien") == "'O''Brien'"
    assert sql.text("a\\b\n%") == "'a\\b\n%'"


@pytest.mark.parametrize("value", [True, 1.5, "1", None])
def test_what_is_no_whole_number_is_not_pasted_as_one(value):
    with pytest.raises(TypeError):
        sql.number(value)


def test_no_values_match_nothing():
    assert sql.one_of("kind", []) == "false"
    assert sql.any_in_list("tags", []) == "false"
    assert sql.some_of([]) == "false"


def test_every_filter_is_a_condition():
    chosen = Selection(
        space="s",
        items=("passage",),
        statuses=("active",),
        sessions=("it's",),
        tags=("a'b",),
        since="2026-01-01T00:00:00.000000Z",
    )
    assert condition(chosen) == (
        "kind IN ('passage') AND array_has_any(tags, ['a''b']) AND session IN ('it''s') "
        "AND date >= 1767225600000000 AND status IN ('active')"
    )


@pytest.mark.asyncio
async def test_any_text_names_a_session_a_tag_or_a_space_and_reaches_itself_only(tmp_path):
    async with memory_at(tmp_path) as memory:
        for number, word in enumerate(NASTY):
            await tell(memory, f"heron {number}", session=word, tags=[word])
        for number, word in enumerate(NASTY):
            assert await finds(memory, "heron", sessions=(word,)) == [f"heron {number}"]
            assert await finds(memory, "heron", tags=(word,)) == [f"heron {number}"]
            other = memory.in_space(word)
            await tell(other, f"stork {number}")
            assert await finds(other, "stork heron") == [f"stork {number}"]
        assert len((await memory.scan(limit=100)).items) == len(NASTY)


@pytest.mark.asyncio
async def test_forgetting_one_name_with_quotes_forgets_nothing_else(tmp_path):
    async with memory_at(tmp_path) as memory:
        for word in NASTY:
            await say(memory, f"n {word}", f"said of {word}")
        for number, word in enumerate(NASTY[:3], 1):
            receipt = await memory.forget(names=(f"n {word}",))
            assert receipt.count == 2
            left = await memory.scan(items=("observation",), statuses=EVERY, limit=100)
            assert len(left.items) == len(NASTY) - number
        assert (await memory.forget(ids=("x' OR 1=1 --",))).count == 0
