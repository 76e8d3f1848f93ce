"""Stories of many processes on one store, told by one warmed process that forks the others.

``python -m tests.local.writers STORY ROOT …`` plays one and prints what came of it as JSON. It has no threads of
its own when it forks, and no time is lost on starting Python.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rawthink_core.clock import SystemClock
from rawthink_core.commits import Commit, decode
from rawthink_core.errors import AlreadyRevised
from rawthink_core.operations import Batch, Forget, SearchQuery
from rawthink_core.selection import selection
from rawthink_core.text import query_vector
from rawthink_local.erasure import forget
from rawthink_local.searchindex import SearchIndex

from .house import RULES, SPACE, batch, note, store_at, texts_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rawthink_local.store import Store

CLOCK = SystemClock()
SAYS = 3  # texts a batch


class Child:
    """A forked process that runs a function of a pipe to write to."""

    def __init__(self, work: Callable[[int], None]) -> None:
        self._output, output = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(self._output)
                work(output)
                status = 0
            except BaseException as error:  # noqa: BLE001 - it must never go on as a second parent
                os.write(2, f"child: {type(error).__name__}: {error}\n".encode())
            finally:
                os._exit(status)
        os.close(output)

    def speaks(self) -> None:
        """Wait for its first word."""
        ready, _, _ = select.select([self._output], [], [], 30)
        assert ready, "the child says nothing"

    def kill(self) -> list[str]:
        """Kill it as hard as can be; return the lines that it had written."""
        os.kill(self.pid, signal.SIGKILL)
        return self.end(-signal.SIGKILL)

    def end(self, expected: int = 0) -> list[str]:
        """Wait for its end; return the lines that it wrote."""
        with os.fdopen(self._output, "rb") as file:
            said = file.read()
        _, status = os.waitpid(self.pid, 0)
        assert os.waitstatus_to_exitcode(status) == expected, os.waitstatus_to_exitcode(status)
        return said.decode().split("\n")[:-1]


def told(name: str, number: int) -> tuple[str, list[str]]:
    """Return a batch id and the texts of the batch."""
    return f"{name}-{number}", [f"{name} number{number} part{part}" for part in range(SAYS)]


def writes_on(root: Path, name: str, *, piecemeal: bool) -> Callable[[int], None]:
    """Return work that records for ever and says the id of each batch that was confirmed."""

    def work(output: int) -> None:
        write = os.write
        os.fdatasync = os.fsync = lambda descriptor: None  # what the kernel has, a kill does not take
        with store_at(root, CLOCK) as store:
            if piecemeal:
                os.write = lambda descriptor, data: write(descriptor, bytes(data)[:64])  # type: ignore[misc]
            for number in range(10_000):
                batch_id, texts = told(name, number)
                store.record(note(f"thing of {name}", *texts, batch_id=batch_id), RULES)
                write(output, f"{batch_id}\n".encode())

    return work


def lines_of(root: Path, log: str = "rawthink.jsonl") -> list[bytes]:
    return (root / "vault" / log).read_bytes().split(b"\n")


def filed(path: str, texts: list[str], batch_id: str) -> Batch:
    """Return a batch of passages of a file."""
    origin = {"path": path}
    said = [{"session": path, "key": text, "text": text, "origin": origin} for text in texts]
    return batch(batch_id, passages=said)


def check(root: Path, acknowledged: list[str], *, searching: bool) -> None:
    """Look whether the store is whole, works, and has what was confirmed."""
    os.fdatasync = os.fsync = lambda descriptor: None
    with store_at(root, CLOCK) as store:
        store.record(note("a probe", f"probe {random.random()}"), RULES)
        commits = {commit.id: commit for commit in store.commits(SPACE)}
        assert store.degraded() is None
        lost = [batch_id for batch_id in acknowledged if batch_id not in commits]
        assert not lost, f"lost {lost}"
        for commit in commits.values():
            said = [row["text"] for row in commit.rows if row["op"] == "observation"]
            if not said[0].startswith("probe"):
                name, _, number = commit.id.rpartition("-")
                assert said == told(name, int(number))[1], f"half a batch: {commit}"
        if searching:
            index = SearchIndex(store, root / "cache" / "slots", CLOCK)
            try:
                for batch_id in acknowledged[-3:]:
                    assert found(store, index, told(*_split(batch_id))[1][-1]), f"{batch_id} is not found"
            finally:
                index.close()
    *lines, rest = lines_of(root)
    assert all(decode(line) for line in lines)
    assert not rest


def _split(batch_id: str) -> tuple[str, int]:
    name, _, number = batch_id.rpartition("-")
    return name, int(number)


def found(store: Store, index: SearchIndex, words: str) -> bool:
    """Tell whether a search finds exactly these words."""
    assert index.catch_up() is None
    chosen = selection(SearchQuery(scope={"space": SPACE}, text=words))  # type: ignore[arg-type]
    ids = [item for item, _, _ in index.find(query_vector(words), None, chosen, 20)[0]]
    states = store.read(SPACE, lambda view: view.states(ids))
    return any(state.row.get("text") == words for state in states.values())


# --- stories --------------------------------------------------------------------------------------------


def killed(root: Path, rounds: int, seed: int) -> dict[str, int]:
    """One or two writers, killed at any instant, again and again."""
    chance = random.Random(seed)
    kills = confirmed = 0
    for number in range(rounds):
        place = root / str(number // 8)
        names = [f"r{number}w{k}" for k in range(1 + number % 2)]
        children = [Child(writes_on(place, name, piecemeal=number % 3 > 0)) for name in names]
        for child in children:
            child.speaks()
        acknowledged: list[str] = []
        for child in children:
            time.sleep(chance.random() * 0.004)
            acknowledged += child.kill()
            kills += 1
        confirmed += len(acknowledged)
        searching = number % 40 == 39
        Child(lambda _, a=acknowledged, s=searching, p=place: check(p, a, searching=s)).end()  # type: ignore[misc]
    return {"kills": kills, "confirmed": confirmed}


def killed_while_indexing(root: Path, rounds: int, seed: int) -> dict[str, int]:
    """A writer that searches for what it wrote, killed between journal and index or within either."""
    chance = random.Random(seed)

    def work(output: int) -> None:
        os.fdatasync = os.fsync = lambda descriptor: None
        with store_at(root, CLOCK) as store:
            index = SearchIndex(store, root / "cache" / "slots", CLOCK)
            name = f"p{os.getpid()}"
            for number in range(10_000):
                batch_id, texts = told(name, number)
                store.record(note(f"thing of {name}", *texts, batch_id=batch_id), RULES)
                assert found(store, index, texts[0])
                os.write(output, f"{batch_id}\n".encode())

    confirmed = 0
    for _ in range(rounds):
        child = Child(work)
        child.speaks()
        time.sleep(chance.random() * 0.01)
        acknowledged = child.kill()
        confirmed += len(acknowledged)
        Child(lambda _, a=acknowledged: check(root, a, searching=True)).end()  # type: ignore[misc]
    return {"kills": rounds, "confirmed": confirmed}


def killed_while_forgetting(root: Path, rounds: int, seed: int) -> dict[str, Any]:
    """A process that forgets, killed while the journal is written anew."""
    chance = random.Random(seed)
    ends: Counter[str] = Counter()
    for number in range(rounds):
        secret = f"secret{number}"

        def prepare(_: int, secret: str = secret, number: int = number) -> None:
            with store_at(root, CLOCK) as store:
                store.record(note(f"thing {number}", secret), RULES)
                store.record(note(f"thing {number}", *(f"kept {number} {k}" for k in range(40))), RULES)

        def work(output: int, number: int = number) -> None:
            with store_at(root, CLOCK) as store:
                write = os.write
                os.write = lambda descriptor, data: write(descriptor, bytes(data)[:200])  # type: ignore[misc]
                os.write(output, b"go\n")
                ids = store.read(SPACE, lambda view: _ids(view, number))
                forget(store, Forget(scope={"space": SPACE}, ids=ids))  # type: ignore[arg-type]
                os.write(output, b"done\n")
                time.sleep(30)

        def look(output: int, secret: str = secret, number: int = number) -> None:
            with store_at(root, CLOCK) as store:
                left = sorted(path.name for path in (root / "vault").glob(".rawthink.jsonl*"))
                assert not left, left
                texts = texts_in(store)
                assert [t for t in texts if t.startswith(f"kept {number} ")] == [
                    f"kept {number} {k}" for k in range(40)
                ]
                os.write(output, b"old\n" if secret in texts else b"new\n")
                store.record(note("a probe", f"probe {number}"), RULES)

        Child(prepare).end()
        child = Child(work)
        child.speaks()
        time.sleep(chance.random() * (0.02 if number % 3 else 0.5))  # a busy machine takes its time
        done = "done" in child.kill()
        (state,) = Child(look).end()
        assert not (done and state == "old"), "what was confirmed as forgotten is there"
        ends[state] += 1
    return dict(ends)


def _ids(view: Any, number: int) -> list[str]:
    (owner,) = view.named([f"thing {number}"]).values()
    return [state.id for state in view.about([owner]) if state.row["text"].startswith("secret")]


def killed_between_logs(root: Path, rounds: int, seed: int) -> dict[str, int]:
    """A writer of journal and log of files by turns, killed at any instant, again and again."""
    chance = random.Random(seed)

    def work(output: int) -> None:
        write = os.write
        os.fdatasync = os.fsync = lambda descriptor: None
        with store_at(root, CLOCK) as store:
            os.write = lambda descriptor, data: write(descriptor, bytes(data)[:64])  # type: ignore[misc]
            name = f"p{os.getpid()}"
            for number in range(10_000):
                batch_id, texts = told(name, number)
                of_file = number % 2 == 0
                what = (
                    filed(f"{name}.md", texts, batch_id) if of_file else note(name, *texts, batch_id=batch_id)
                )
                store.record(what, RULES)
                write(output, f"{batch_id}\n".encode())

    def look(_: int, acknowledged: list[str]) -> None:
        os.fdatasync = os.fsync = lambda descriptor: None
        with store_at(root, CLOCK) as store:
            for what in (
                note("a probe", f"p {random.random()}", batch_id=f"probe {random.random()}"),
                filed("probe.md", ["probe"], f"probe-{random.getrandbits(60)}"),
            ):
                store.record(what, RULES)
            assert store.degraded() is None
            commits = {commit.id: commit for commit in store.commits(SPACE)}
            lost = [batch_id for batch_id in acknowledged if batch_id not in commits]
            assert not lost, f"lost {lost}"
            for commit in commits.values():
                said = [row["text"] for row in commit.rows if row["op"] in ("observation", "passage")]
                if commit.id.startswith("p") and not commit.id.startswith("probe"):
                    assert said == told(*_split(commit.id))[1], f"half a batch: {commit}"
        for log in ("rawthink.jsonl", ".rawthink/passages.jsonl"):
            *lines, rest = lines_of(root, log)
            assert all(decode(line) for line in lines)
            assert not rest

    confirmed: list[str] = []
    for _ in range(rounds):
        child = Child(work)
        child.speaks()
        time.sleep(chance.random() * 0.004)
        acknowledged = child.kill()
        confirmed += acknowledged
        Child(lambda out, a=acknowledged: look(out, a)).end()  # type: ignore[misc]
    in_files = sum(_split(batch_id)[1] % 2 == 0 for batch_id in confirmed)
    return {"confirmed": len(confirmed), "filed": in_files}


def file_together(root: Path, processes: int, records: int) -> dict[str, int]:
    """Many processes that each write passages of files into a store that has none yet."""
    gate, open_gate = os.pipe()
    Child(lambda _: _say(root, 0)).end()

    def work(output: int) -> None:
        with store_at(root, CLOCK, wait=60) as store:
            os.write(output, b"ready\n")
            os.read(gate, 1)
            for number in range(records):
                text = f"{os.getpid()} {number}"
                store.record(filed(f"{text}.md", [text], text), RULES)

    children = [Child(work) for _ in range(processes)]
    for child in children:
        child.speaks()
    os.write(open_gate, b"g" * processes)
    for child in children:
        child.end()
    entries = [decode(line) for line in lines_of(root, ".rawthink/passages.jsonl")[:-1]]
    commits = [entry for entry in entries if isinstance(entry, Commit)]
    return {
        "passages": len({row["text"] for commit in commits for row in commit.rows}),
        "headers": len(entries) - len(commits),
        "commits": len(commits),
    }


def crowd(root: Path, processes: int, records: int) -> dict[str, Any]:
    """Many processes that write at once."""

    def work(output: int) -> None:
        name = f"p{os.getpid()}"
        slowest = 0.0
        with store_at(root, CLOCK, wait=60) as store:
            for number in range(records):
                batch_id, texts = told(name, number)
                began = time.perf_counter()
                store.record(note("shared", *texts, batch_id=batch_id), RULES)
                slowest = max(slowest, time.perf_counter() - began)
                os.write(output, f"{batch_id}\n".encode())

    children = [Child(work) for _ in range(processes)]
    acknowledged = [batch_id for child in children for batch_id in child.end()]
    commits = [entry for line in lines_of(root)[:-1] if isinstance(entry := decode(line), Commit)]
    return {
        "acknowledged": sorted(acknowledged),
        "written": sorted(commit.id for commit in commits),
        "times": [commit.at for commit in commits],
        "texts": sum(row["op"] == "observation" for commit in commits for row in commit.rows),
    }


def race(root: Path, rounds: int) -> list[dict[str, Any]]:
    """Two processes that revise one belief at the same moment."""
    outcomes = []
    for number in range(rounds):
        Child(lambda _, n=number: _say(root, n)).end()  # type: ignore[misc]
        gate, open_gate = os.pipe()

        def work(output: int, gate: int = gate, number: int = number) -> None:
            with store_at(root, CLOCK) as store:
                change = {
                    "targets": [{"entity": "belief", "text": f"believed {number}"}],
                    "successor": {"text": f"revised {number} by {os.getpid()}"},
                }
                wanted = batch(revisions=[change])
                os.write(output, b"ready\n")
                os.read(gate, 1)
                try:
                    receipt = store.record(wanted, RULES)
                    os.write(output, f"won {receipt.ids('observation', 'created')[0]}\n".encode())
                except AlreadyRevised as error:
                    os.write(output, f"lost {error.successor}\n".encode())

        children = [Child(work) for _ in range(2)]
        for child in children:
            child.speaks()
        os.write(open_gate, b"go")
        told_by = sorted(child.end()[1].split() for child in children)
        os.close(gate)
        os.close(open_gate)
        outcomes.append(dict(told_by))
    return outcomes


def _say(root: Path, number: int) -> None:
    with store_at(root, CLOCK) as store:
        store.record(note("belief", f"believed {number}"), RULES)


def adopters(root: Path, processes: int) -> list[str]:
    """Many processes that each write first into a store that lies beside another server's file."""
    from rawthink_local.adoption import Adoption

    gate, open_gate = os.pipe()

    def work(output: int) -> None:
        with _with_foreign(root, Adoption) as store:
            os.write(output, b"ready\n")
            os.read(gate, 1)
            store.record(note("mine", f"says {os.getpid()}"), RULES)

    children = [Child(work) for _ in range(processes)]
    for child in children:
        child.speaks()
    os.write(open_gate, b"g" * processes)
    for child in children:
        child.end()
    entries = (decode(line) for line in lines_of(root)[:-1])
    return [(entry.by or {}).get("host", "own") for entry in entries if isinstance(entry, Commit)]


def _with_foreign(root: Path, kind: Any) -> Any:
    from contextlib import contextmanager

    @contextmanager
    def opened() -> Iterator[Store]:
        with store_at(root, CLOCK, keep_out=True) as store:
            path = root / "vault" / "memory.jsonl"
            store.adoption = kind(path, SPACE, RULES, store.index, CLOCK)
            yield store

    return opened()


if __name__ == "__main__":
    story = {
        "killed": killed,
        "killed_while_indexing": killed_while_indexing,
        "killed_while_forgetting": killed_while_forgetting,
        "killed_between_logs": killed_between_logs,
        "file_together": file_together,
        "crowd": crowd,
        "race": race,
        "adopters": adopters,
    }[sys.argv[1]]
    result: Any = story(Path(sys.argv[2]), *map(int, sys.argv[3:]))  # type: ignore[operator]
    json.dump(result, sys.stdout)
