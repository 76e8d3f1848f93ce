"""How fast the MCP server is, over stdio as clients use it: ``python bench/mcp.py [--peer PROGRAM]``.

Prints what clients wait for: from the start of the process to the reply to `initialize`, the size of the list
of tools, records and searches in stores of any size, the same with a second process on the store, searches
with vectors, and the end. ``--peer`` names rawthink-mcp's script, or the Python that it is installed for (an
environment of its own): it is then asked the same in the same run, and each of our figures is also given as a
ratio to its. Vectors come from a stand-in for Ollama that embeds at once. Everything is made in a temporary
folder. A write that is not found right away ends the run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from client import Client, Refused
from made import Texts, make_vault
from rows import rounds, show_times, show_values
from servers import Ours, Peer, Server
from speed import machine
from stub import Ollama, backwards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from made import Part

STARTS = 10
WORDS_A_QUESTION = 8
SECONDS_TO_SETTLE = 900
FOUND = 0.9  # of the questions that are a few words of a passage, how many must bring its session up


class Run(NamedTuple):
    """What is measured, and where."""

    root: Path
    servers: Sequence[Server]
    ollama: Ollama
    number: int
    seconds: float


class Kind(NamedTuple):
    """A tool that writes, one that finds what was written, and the arguments of the first."""

    write: str
    search: str
    arguments: Callable[[str, list[str]], dict[str, Any]]


ENTITY = {"entityType": "concept", "domain": "software"}
GRAPH = Kind(
    "record",
    "search_nodes",
    lambda name, said: {"entities": [{"name": name, **ENTITY, "observations": said}]},
)
NOTES = Kind("store_thought", "search_thoughts", lambda name, said: {"text": f"{name} {said[0]}"})


class Sample:
    """What was measured of one server: times by label, and what is to be said of it."""

    def __init__(self) -> None:
        self.times: defaultdict[str, list[float]] = defaultdict(list)
        self.notes: list[str] = []
        self.resident = self.alone = 0.0

    def weigh(self, client: Client) -> None:
        """Note the memory that a server holds now."""
        self.resident, self.alone = client.resident(), client.resident(alone=True)


def show(samples: dict[str, Sample]) -> None:
    for label in dict.fromkeys(label for sample in samples.values() for label in sample.times):
        show_times(label, {name: sample.times[label] for name, sample in samples.items()})
    show_memory("resident after these", samples)
    for name, sample in samples.items():
        for note in sample.notes:
            print(f"  {name}: {note}", flush=True)


def show_memory(label: str, samples: dict[str, Sample]) -> None:
    show_values(f"{label}, with children", {name: each.resident for name, each in samples.items()}, "MB")
    show_values(f"{label}, alone", {name: each.alone for name, each in samples.items()}, "MB")


def clock(times: list[float], call: Callable[[], str], *, counts: bool) -> str:
    began = time.perf_counter()
    said = call()
    if counts:
        times.append(time.perf_counter() - began)
    return said


def settle(client: Client, tool: str) -> None:
    """Wait until a server's index has caught up."""
    began = time.perf_counter()
    while "INCOMPLETE" in (said := client.call(tool, query="settle")):
        if time.perf_counter() - began > SECONDS_TO_SETTLE:
            raise SystemExit(f"the index has not caught up: {said[:300]}")
        time.sleep(0.5)


def start(run: Run) -> None:
    print("\nprocesses on an empty store")
    samples = {server.name: Sample() for server in run.servers}
    for counts in rounds(STARTS, run.seconds * len(run.servers), warm=1):  # the first fills the caches
        for server in run.servers:
            sample = samples[server.name]
            with server.start(run.root / f"start {server.name}") as client:
                took = client.greet()
                client.ask("tools/list")
                listed = time.perf_counter() - client.began
                client.call("search_nodes", query="anything")
                time.sleep(0.3)
                sample.weigh(client)
                ended = client.end()
            if counts:
                sample.times["spawn to initialize"].append(took)
                sample.times["spawn to tools/list"].append(listed)
                sample.times["end of input to exit"].append(ended)
    show(samples)


def lists(run: Run) -> None:
    print("\ntools/list, one line of JSON-RPC")
    for profile in Ours.profiles:
        lengths = {}
        for server in run.servers:
            if profile not in server.profiles:
                continue
            with server.start(run.root / f"start {server.name}", profile) as client:
                client.greet()
                line = client.ask("tools/list").rstrip()
            lengths[f"{server.name}, {len(json.loads(line)['result']['tools'])}"] = float(len(line))
        show_values(profile, lengths, "characters")


def graphs(run: Run, sizes: Iterable[int]) -> None:
    for size in sizes:
        print(f"\n{size:,} entities of 3 observations, no vectors")
        samples = {}
        for server in run.servers:
            home = run.root / f"{size} {server.name}"
            if size:
                server.make_graph(home, size)
            samples[server.name] = sample = Sample()
            with server.start(home) as client:
                client.greet()
                settle(client, "search_nodes")
                os.sync()  # what building left to be written is no part of a call
                write_and_search(run, server, sample, [client], GRAPH)
                sample.weigh(client)
                with server.start(home) as second:
                    second.greet()
                    settle(second, "search_nodes")
                    name, said = write_and_search(run, server, sample, [client, second], GRAPH)
            with server.start(home) as client:
                client.greet()
                if said not in client.call("open_nodes", names=[name]):
                    raise SystemExit(f"{server.name}: {name} was not on the disk after it was recorded")
        show(samples)


def write_and_search(
    run: Run, server: Server, sample: Sample, clients: Sequence[Client], kind: Kind
) -> tuple[str, str]:
    """Write in each process in turn and search in the next one, which must find it.

    Return the name that was written last, and what was said of it.
    """
    texts, missed, turn, name, said = Texts(5), 0, 0, "", [""]
    label = f"{len(clients)} processes: " if len(clients) > 1 else ""
    for turn, counts in enumerate(rounds(run.number, run.seconds), 1):
        writer, reader = clients[turn % len(clients)], clients[(turn + 1) % len(clients)]
        mark = time.monotonic_ns()
        name, said = f"new-{mark}", [texts.sentence() for _ in range(3)]
        said[0] += f" mark{mark}"
        write = partial(writer.call, kind.write, **kind.arguments(name, said))
        search = partial(reader.call, kind.search, query=" ".join(said[0].split()[-5:]))
        clock(sample.times[f"{label}{kind.write}"], write, counts=counts)
        shown = clock(sample.times[f"{label}{kind.search} right after"], search, counts=counts)
        clock(sample.times[f"{label}{kind.search} once more"], search, counts=counts)
        missed += name not in shown
    where = "by the other process" if len(clients) > 1 else "right after"
    if missed and server.shares:
        raise SystemExit(f"{server.name}: {missed} of {turn} writes were not found {where}")
    sample.notes.append(f"{kind.write}: {turn - missed} of {turn} found {where}")
    return name, said[0]


def thoughts(run: Run, passages: int) -> None:
    print(f"\n{passages:,} passages of 100 words, with vectors")
    cost = run.ollama.cost(max(Ours.sizes), Texts(3).sentence(WORDS_A_QUESTION))
    show_times("a question's vector, part of a search", {"stand-in for Ollama": cost})
    samples, indexed = {}, {}
    for server in run.servers:
        for size in server.sizes:
            home, name = run.root / f"passages {size} {server.name}", f"{server.name}, {size}-d"
            parts, before = make_vault(home / "vault", passages), run.ollama.texts
            samples[name] = sample = Sample()
            with server.start(home, "full", size) as client:
                client.greet()
                began = time.perf_counter()
                client.call("reindex")
                while run.ollama.texts - before < passages:
                    if time.perf_counter() - began > SECONDS_TO_SETTLE:
                        raise SystemExit(f"{name}: only {run.ollama.texts - before:,} passages were embedded")
                    time.sleep(0.1)
                settle(client, "search_thoughts")
                indexed[name] = time.perf_counter() - began
            for counts in rounds(STARTS, run.seconds, warm=1):
                with server.start(home, size=size) as client:
                    took = client.greet()
                    if counts:
                        sample.times["spawn to initialize"].append(took)
            with server.start(home, size=size) as client:
                client.greet()
                settle(client, "search_thoughts")
                questions(run, sample, client, parts)
                sample.weigh(client)
                write_and_search(run, server, sample, [client], NOTES)
                with server.start(home, size=size) as second:
                    second.greet()
                    try:
                        settle(second, "search_thoughts")
                        write_and_search(run, server, sample, [client, second], NOTES)
                    except Refused as refused:
                        if server.shares:
                            raise
                        sample.notes.append(
                            f"a second process is refused: {str(refused).replace(str(home), '…')}"
                        )
    show_values("index all, vectors too", indexed, "s")
    show(samples)


def questions(run: Run, sample: Sample, client: Client, parts: list[Part]) -> None:
    """Ask for passages with some words of each, and for one with what only its vector brings up."""
    source, found, asked, embedded = random.Random(13), 0, 0, run.ollama.texts
    for counts in rounds(run.number, run.seconds):
        part = source.choice(parts)
        words = part.text.split()
        at = source.randrange(len(words) - WORDS_A_QUESTION)
        search = partial(client.call, "search_thoughts", query=" ".join(words[at : at + WORDS_A_QUESTION]))
        found += part.session in clock(sample.times["search_thoughts"], search, counts=counts)
        known = sample.times[
            "search_thoughts, vector known"
        ]  # by who keeps the vectors of the last questions
        clock(known, search, counts=counts)
        asked += 1
    if found < FOUND * asked:
        raise SystemExit(f"only {found} of {asked} searches found the session that their words are from")
    if run.ollama.texts - embedded < asked:
        raise SystemExit(f"of {asked} questions only {run.ollama.texts - embedded} were embedded")
    part = parts[len(parts) // 2]
    if part.session not in client.call("search_thoughts", query=backwards(part.text), limit=3):
        raise SystemExit("a passage was not found by its vector")
    sample.notes.append(f"{found} of {asked} searches found the session that their words are from")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="0,10000,50000", help="entities of each store")
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--number", type=int, default=300, help="calls of each sort")
    parser.add_argument("--seconds", type=float, default=30, help="after which there are fewer")
    parser.add_argument("--peer", type=Path, help="rawthink-mcp, to be measured in the same run")
    parser.add_argument("--root", type=Path, help="a new folder to work in, which is kept")
    chosen = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="rawthink-bench-") as temporary, Ollama() as ollama:
        if chosen.root:
            chosen.root.mkdir(parents=True)
        servers = [Ours(ollama), *([Peer(ollama, chosen.peer)] if chosen.peer else [])]
        run = Run(chosen.root or Path(temporary), servers, ollama, chosen.number, chosen.seconds)
        start(run)
        lists(run)
        graphs(run, [int(size) for size in chosen.sizes.split(",")])
        if chosen.passages:
            thoughts(run, chosen.passages)


if __name__ == "__main__":
    main()
