"""Whatever happens to files, ledger and store: after a run, the memory holds what the files say."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.clock import ManualClock
from rawthink_core.errors import BackendUnavailable, NotFound
from rawthink_core.memory import Memory
from rawthink_core.provider import World
from rawthink_core.vault import Vault, filing
from rawthink_core.vault.documents import parse, passages
from rawthink_core.vault.folder import walk

PATHS = st.sampled_from(["sessions/a.md", "sessions/deep/a.md", "qnotes/b.md", "sessions/c.md"])
HEADS = st.sampled_from(["", "---\nid: one\n---\n", "---\ntags: [x]\n---\n", "---\ntitle: *a* b\n---\n"])
BODIES = st.lists(st.sampled_from(["# A\none\n", "# B\ntwo\n", "three\n\n", "---\n"]), max_size=4).map(
    "".join
)


class Flaky(ReferenceProvider):
    """Fails when told to: before a write, or after it."""

    countdown = -1
    late = False

    async def record(self, batch):
        self.countdown -= 1
        if self.countdown == 0 and not self.late:
            raise BackendUnavailable("away")
        receipt = await super().record(batch)
        if self.countdown == 0:
            raise BackendUnavailable("the answer got lost")
        return receipt


class Files(RuleBasedStateMachine):
    most = filing.MAX_ITEMS

    def __init__(self):
        super().__init__()
        self.limit = patch.object(filing, "MAX_ITEMS", self.most)
        self.limit.start()
        self.place = TemporaryDirectory()
        self.folder, self.cache = Path(self.place.name) / "vault", Path(self.place.name) / "cache"
        (self.folder / "sessions").mkdir(parents=True)
        self.clock = ManualClock()
        self.loop = asyncio.Runner()
        self.stores = 0
        self.another_store()

    def teardown(self):
        self.limit.stop()
        self.loop.close()
        self.place.cleanup()

    @rule()
    def another_store(self):
        self.stores += 1
        self.provider = Flaky(World(path=Path(self.place.name) / f"store-{self.stores}", clock=self.clock))
        self.provider.info = replace(self.provider.info, location="the same place")
        self.loop.run(self.provider.open())
        self.open()
        self.indexed = False

    @rule()
    def open(self):
        self.vault = Vault(self.folder, Memory(self.provider), clock=self.clock, cache=self.cache)

    @rule(path=PATHS, head=HEADS, body=BODIES)
    def write(self, path, head, body):
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(head + body)
        self.indexed = False

    @rule(path=PATHS)
    def delete(self, path):
        (self.folder / path).unlink(missing_ok=True)
        self.indexed = False

    @rule(path=PATHS, to=PATHS)
    def move(self, path, to):
        if (self.folder / path).exists():
            (self.folder / to).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).rename(self.folder / to)
        self.indexed = False

    @rule(text=st.sampled_from(["a thought", "another"]))
    def note(self, text):
        if self.loop.run(self.vault.store_note(text)).problem:
            self.indexed = False

    @rule()
    def lose_the_ledger(self):
        shutil.rmtree(self.cache, ignore_errors=True)

    @rule(after=st.integers(1, 3), late=st.booleans())
    def fail_soon(self, after, late):
        self.provider.countdown, self.provider.late = after, late
        self.indexed = False

    @rule(session=st.sampled_from(["one", "a", "b"]))
    def index_one(self, session):
        self.loop.run(self._try(session=session))

    @precondition(lambda self: not self.indexed)
    @rule(full=st.booleans())
    def index(self, full):
        self.indexed = self.loop.run(self._try(full=full)) == "done"

    async def _try(self, **how):
        try:
            report = await self.vault.index(**how)
        except (BackendUnavailable, NotFound) as error:
            return type(error).__name__
        assert report.failed == ()
        return "done"

    @invariant()
    def the_memory_holds_what_the_files_say(self):
        if self.indexed:
            wanted = [
                (path, passage["session"], passage["key"], passage["text"])
                for path in walk(self.folder).files
                for passage in passages(parse(path, (self.folder / path).read_bytes()))
            ]
            assert sorted(self.loop.run(self._held())) == sorted(wanted)

    async def _held(self):
        page = await Memory(self.provider).scan(items=("passage",), limit=1000)
        return [(p.origin.path, p.session, p.key, p.text) for p in page.items]


class LongFiles(Files):
    """Where three passages are already too many for one batch."""

    most = 2


Files.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
LongFiles.TestCase.settings = Files.TestCase.settings
TestFiles, TestLongFiles = Files.TestCase, LongFiles.TestCase
