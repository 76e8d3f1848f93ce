"""A provider of a store that blocks: whose thread does what, when it is open, what is noted, and what is passed on."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo

import pytest

from rawthink_core.activity import Activity
from rawthink_core.commits import Commit
from rawthink_core.errors import BackendUnavailable, InvalidRequest
from rawthink_core.graph import Rules
from rawthink_core.operations import (
    Batch,
    Export,
    Forget,
    ForgetReceipt,
    Get,
    GraphQuery,
    HistoryQuery,
    Maintain,
    MaintainReceipt,
    RestoreReceipt,
    Scan,
    Scope,
    SearchPage,
    SearchQuery,
    parse,
)
from rawthink_core.provider import ProviderInfo, World
from rawthink_core.store_provider import READS, StoreProvider
from rawthink_core.vocabulary import DEFAULT_VOCABULARY

from .ledger import SPACE, Ledger, Reader, batch, entity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rawthink_core.operations import RecordReceipt

    T = TypeVar("T")

pytestmark = pytest.mark.asyncio
ZONE = ZoneInfo("Asia/Shanghai")


class Toy:
    """A store that is a ledger, and can be made to wait in the middle of a read or a write."""

    def __init__(self) -> None:
        self.rules = Rules(DEFAULT_VOCABULARY, ZONE)
        self.activity = Activity(None)
        self.ledger = Ledger(self.rules)
        self.threads: dict[str, int] = {}
        self.asked: list[Any] = []
        self.closed = False
        self.reading, self.writing = _Gate(), _Gate()

    def _note(self, what: str) -> None:
        assert not self.closed
        self.threads[what] = threading.get_ident()

    def read(self, space: str, question: Callable[[Reader], T]) -> T:
        assert space == SPACE
        self._note("read")
        self.reading.pass_through()
        return question(Reader(self.ledger))

    def answer(self, query: SearchQuery, asked: object, why: str | None) -> SearchPage:
        self._note("answer")
        self.asked.append(query)
        return SearchPage(degraded=why)

    def commits(self, space: str) -> Iterator[Commit]:
        for commit in self.ledger.commits:
            self._note("commits")
            yield commit

    def record(self, batch: Batch) -> RecordReceipt:
        self._note("record")
        self.writing.pass_through()
        return self.ledger.write(batch)

    def forget(self, request: Forget) -> ForgetReceipt:
        self._note("forget")
        return ForgetReceipt(missing=request.ids)

    def restore(self, space: str, commits: Sequence[Commit]) -> RestoreReceipt:
        self._note("restore")
        return RestoreReceipt(restored=len(commits))

    def maintain(self, request: Maintain) -> MaintainReceipt:
        self._note("maintain")
        return MaintainReceipt(done=("swept",))

    def close(self) -> None:
        self._note("close")
        self.closed = True
        self.activity.close()


class _Gate:
    """Where a thread waits, from `shut` on until `open`."""

    def __init__(self) -> None:
        self.reached, self._open = threading.Event(), threading.Event()
        self._open.set()

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def pass_through(self) -> None:
        self.reached.set()
        assert self._open.wait(20)


class Author(StoreProvider[Toy]):
    """A provider as an author writes it."""

    def __init__(self, world: World) -> None:
        super().__init__(ProviderInfo("toy", "1", READS, location="the toy box"), world)
        self.toy = Toy()
        self.opening = _Gate()
        self.why: str | None = None
        self.fails = False

    def open_store(self) -> Toy:
        self.opening.pass_through()
        if self.fails:
            raise BackendUnavailable("the box is locked")
        self.toy._note("open")
        return self.toy

    def _degraded(self, store: Toy) -> str | None:
        return self.why


class OneThread(Author):
    readers = 0


class Hasty(Author):
    patient = False


def asked(kind: type[T], **what: Any) -> T:
    return parse(kind, {"scope": {"space": SPACE}, **what})  # type: ignore[type-var, return-value]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, clock=SimpleNamespace(now=lambda: datetime(2026, 5, 1, tzinfo=UTC)))


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 20)


async def filled(provider: Author) -> dict[str, str]:
    """Open a provider over two related entities, with something said of one; return ids by name and text."""
    provider.toy.ledger.record(
        entities=[entity("Redis"), entity("Valkey")],
        observations=[{"entity": "Redis", "text": "is fast"}],
        relations=[{"source": "Valkey", "type": "evolved_into", "target": "Redis"}],
    )
    await provider.open()
    items = provider.toy.ledger.items()
    return {getattr(i, "name", None) or getattr(i, "text", None) or "relation": i.id for i in items}


VERBS: dict[str, Callable[[Author], Any]] = {
    "get": lambda p: p.get(asked(Get, names=["Redis"])),
    "scan": lambda p: p.scan(asked(Scan)),
    "graph": lambda p: p.graph(asked(GraphQuery, names=["Redis"])),
    "history": lambda p: p.history(asked(HistoryQuery, name="Redis")),
    "search": lambda p: p.search(asked(SearchQuery, text="fast")),
    "export": lambda p: anext(p.export(asked(Export))),
    "record": lambda p: p.record(batch("another", entities=[entity("Postgres")])),
    "forget": lambda p: p.forget(asked(Forget, ids=["x"])),
    "restore": lambda p: p.restore(Scope(space=SPACE), []),
    "maintain": lambda p: p.maintain(asked(Maintain)),
}


# --- life ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
async def test_a_store_that_is_not_open_is_down_and_said_to_be(world: World, verb: str) -> None:
    provider = Author(world)
    with pytest.raises(BackendUnavailable, match="the toy box is not open"):
        await VERBS[verb](provider)
    await filled(provider)
    await VERBS[verb](provider)
    await provider.close()
    await provider.close()
    with pytest.raises(BackendUnavailable, match="the toy box is not open"):
        await VERBS[verb](provider)


async def test_it_is_opened_once_and_tells_the_zone_of_its_store(world: World) -> None:
    provider = Author(world)
    provider.fails = True
    with pytest.raises(BackendUnavailable, match="locked"):
        await provider.open()
    assert provider.info.timezone == "UTC"
    provider.fails = False
    await provider.open()
    provider.fails = True
    await provider.open()
    assert provider.info.timezone == "Asia/Shanghai"
    assert provider.opened is provider.toy
    await provider.close()


async def test_a_store_that_opens_for_nobody_is_closed(world: World) -> None:
    provider = Author(world)
    provider.opening.shut()
    task = asyncio.create_task(provider.open())
    await until(provider.opening.reached)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    provider.opening.open()
    for _ in range(2_000):
        if provider.toy.closed:
            break
        await asyncio.sleep(0.01)
    assert provider.toy.threads["close"] == provider.toy.threads["open"]


@pytest.mark.parametrize("kind", [Author, Hasty])
async def test_closing_waits_for_reads_or_cuts_them_short(world: World, kind: type[Author]) -> None:
    provider = kind(world)
    await filled(provider)
    provider.toy.reading.shut()
    reading = asyncio.create_task(VERBS["scan"](provider))
    await until(provider.toy.reading.reached)
    closing = asyncio.create_task(provider.close())
    await asyncio.wait({closing}, timeout=20 if kind is Hasty else 0.05)
    assert closing.done() == provider.toy.closed == (kind is Hasty)
    provider.toy.reading.open()
    await closing
    assert len((await reading).items) == 4


# --- threads ------------------------------------------------------------------------------------


async def test_writes_wait_for_each_other_and_reads_for_no_write(world: World) -> None:
    provider = Author(world)
    toy = provider.toy
    await filled(provider)
    toy.writing.shut()
    writes = [asyncio.create_task(VERBS[verb](provider)) for verb in ("record", "forget")]
    await until(toy.writing.reached)
    assert len((await VERBS["scan"](provider)).items) == 4
    assert "forget" not in toy.threads
    writes[0].cancel()  # it is finished all the same
    toy.writing.open()
    assert (await writes[1]).missing == ("x",)
    assert toy.ledger.entity("Postgres")
    await VERBS["restore"](provider)
    await VERBS["maintain"](provider)
    await provider.close()
    writing = {toy.threads[verb] for verb in ("open", "record", "forget", "restore", "maintain", "close")}
    assert len(writing) == 1
    assert toy.threads["read"] not in {*writing, threading.get_ident()}


async def test_with_no_threads_that_read_one_does_everything(world: World) -> None:
    provider = OneThread(world)
    await filled(provider)
    for verb in VERBS.values():
        await verb(provider)
    await provider.close()
    assert len(provider.toy.threads) == 9
    assert len(set(provider.toy.threads.values()) - {threading.get_ident()}) == 1
    assert not any(thread.name.startswith("rawthink-toy") for thread in threading.enumerate())


# --- what is passed on --------------------------------------------------------------------------


async def test_what_is_read_on_purpose_is_noted_and_nothing_else(world: World) -> None:
    provider = OneThread(world)  # what is noted after an answer is done before the next question
    ids = await filled(provider)

    async def used() -> set[str]:
        await provider.scan(asked(Scan))
        days = provider.toy.activity.last_used(ids.values())
        provider.toy.activity.forget(ids.values())
        assert set(days.values()) <= {date(2026, 5, 1)}
        return {name for name, item in ids.items() if item in days}

    await VERBS["search"](provider)
    await provider.graph(asked(GraphQuery, names=["Redis"], listing=True))
    assert await used() == set()
    await provider.get(asked(Get, ids=[ids["is fast"]]))
    assert await used() == {"is fast"}
    await provider.graph(asked(GraphQuery, names=["Valkey"], depth=1))
    assert await used() == {"Valkey", "Redis"}
    await VERBS["history"](provider)
    assert await used() == {"Redis", "is fast", "relation"}
    await provider.close()


async def test_times_are_those_of_the_zone_of_the_store(world: World) -> None:
    provider = Author(world)
    await filled(provider)
    await provider.search(asked(SearchQuery, text="x", since="2026-01-02"))
    assert provider.toy.asked[0].since == datetime(2026, 1, 1, 16, tzinfo=UTC)
    assert (await provider.get(asked(Get, names=["Redis"], as_of="2026-01-01T08:00:00"))).items == ()
    assert len((await provider.get(asked(Get, names=["Redis"], as_of="2026-01-01T08:00:01"))).items) == 1
    await provider.close()


@pytest.mark.parametrize("verb", ["get", "scan", "graph", "history"])
async def test_an_answer_says_what_could_not_be_read(world: World, verb: str) -> None:
    provider = Author(world)
    await filled(provider)
    assert (await VERBS[verb](provider)).degraded is None
    provider.why = "a line is damaged"
    assert (await VERBS[verb](provider)).degraded == "a line is damaged"
    await provider.close()


async def test_commits_of_another_space_are_refused_before_the_store_sees_any(world: World) -> None:
    provider = Author(world)
    await filled(provider)
    commits = [Commit(name, "2026-01-01T00:00:00.000000Z", name, ()) for name in (SPACE, "work")]
    with pytest.raises(InvalidRequest, match="another space"):
        await provider.restore(Scope(space=SPACE), commits)
    assert (await provider.restore(Scope(space=SPACE), commits[:1])).restored == 1
    assert [commit.id async for commit in provider.export(asked(Export))] == ["batch 1"]
    await provider.close()
