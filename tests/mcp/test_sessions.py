"""Tools for texts: sessions and notes by exact id, page by page, kept and indexed."""

from __future__ import annotations

import re

import pytest

from rawthink_core.memory import open_memory
from rawthink_mcp_server.telling import LIMIT

pytestmark = pytest.mark.asyncio


def session(home, text, name="2025-01-02_001_talk.md", number="2025-01-02_001"):
    folder = home / "vault" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    head = f'---\nid: "{number}"\ntitle: "Talk"\ndate: 2025-01-02\ntags: ["a"]\n---\n'
    (folder / name).write_text(head + text, encoding="utf-8")
    return head + text


async def test_a_note_is_kept_found_and_read(connected, home):
    async with connected() as tools:
        told = await tools.store_thought(
            text="缓存要小心\nikinci satır", session_id="2025-01-02_001", tags=["work"]
        )
        [number, place] = re.fullmatch(r"Stored note (\S+) in (\S+)\.", told.text).groups()
        assert "缓存要小心" in (home / "vault" / place).read_text(encoding="utf-8")
        assert number in (await tools.search_thoughts(query="缓存", source_type="qnote", tags=["work"])).text
        read = (await tools.get_session(session_id=number)).text
        assert "缓存要小心\n" in read
        assert "ikinci satır" in read
        again = await tools.store_thought(text="缓存要小心\nikinci satır")
        assert again.text != told.text
        assert (await tools.store_thought(text=" \n")).failed


async def test_a_long_session_is_read_page_by_page_and_nothing_is_lost(connected, home):
    whole = session(home, "".join(f"line {n} 缓存 {'z' * 40}\n" for n in range(1_500)))
    async with connected() as tools:
        parts, offset = [], 0
        while True:
            text = (await tools.get_session(session_id="2025-01-02_001", offset=offset)).text
            assert len(text) <= LIMIT
            more = re.search(r"\n\nMore: get_session with offset (\d+)\.\Z", text)
            body = text[: more.start()] if more else text
            parts.append(re.sub(r"\Asession.*\nCharacters .*\n\n", "", body))
            if not more:
                break
            offset = int(more[1])
        assert len(parts) >= 4
        assert "".join(parts) == whole


async def test_an_id_is_exact_and_never_a_path(connected, home):
    session(home, "hello\n")
    (home / "vault" / "secret.md").write_text("hidden", encoding="utf-8")
    async with connected() as tools:
        assert "hello" in (await tools.get_session(session_id="2025-01-02_001")).text
        for wrong in ("2025-01-02", "*", "../secret", "secret", str(home / "vault" / "secret.md"), "nobody"):
            told = await tools.get_session(session_id=wrong)
            assert told.failed, wrong
            assert "hidden" not in told.text
        assert "No session or note has the id nobody" in told.text
        assert (await tools.get_session(session_id=" ")).failed
        assert (await tools.get_session(session_id="2025-01-02_001", offset=-1)).failed
        assert "Characters" in (await tools.get_session(session_id="2025-01-02_001", offset=10**6)).text


async def test_a_session_without_a_file_is_put_together_in_its_order(connected, home):
    async with open_memory(path=str(home / "vault")) as memory:
        await memory.record(
            passages=[
                {"session": "chat", "text": "second", "ordinal": 1, "speaker": "me"},
                {"session": "chat", "text": "[张三] first", "ordinal": 0, "speaker": "张三"},
            ]
        )
    async with connected() as tools:
        text = (await tools.get_session(session_id="chat")).text
        assert "2 passages" in text
        assert text.endswith("[张三] first\n\n[me] second")


async def test_reindex_takes_what_changed_and_says_what_it_could_not(connected, home):
    session(home, "first words\n")
    async with connected() as tools:
        reports = []

        async def heard(done, total, text):
            reports.append((done, total))

        result = await tools.client.call_tool("reindex", {}, progress_callback=heard)
        assert re.match(r"1 file read, 0 unchanged; [1-9] passages? indexed", result.content[0].text)
        assert "first words" in (await tools.search_thoughts(query="first")).text
        session(home, "other words\n")
        (home / "vault" / "sessions" / "bad.md").write_bytes(b"\xff\xfe\xff not text")
        told = await tools.reindex(session_id="2025-01-02_001")
        assert re.search("[1-9] ended", told.text)
        assert "other words" in (await tools.search_thoughts(query="other")).text
        everything = await tools.reindex(full=True)
        assert "! sessions/bad.md: " in everything.text
        assert "index" in everything.text
        assert (await tools.reindex(session_id="nobody")).failed
        assert reports == sorted(reports)
