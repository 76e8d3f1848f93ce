"""`rawthink demo`: a small real memory, asked, changed and argued with, on one screen.

The story is `demo.jsonl`: what a team of three decided and found over ten months, a batch a line, in English,
Chinese and Turkish. It goes through the real provider into a store of its own; yours is not touched.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from rawthink_cli import challenge, paper, telling
from rawthink_cli.app import App, Verb, run_async
from rawthink_core.clock import CountingIds, ManualClock
from rawthink_core.memory import Memory
from rawthink_core.plugins import load_provider
from rawthink_core.provider import World

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from rawthink_core.decisions import Challenge
    from rawthink_core.operations import RecordReceipt, SearchPage

ZONE = "Europe/Istanbul"
QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("why not Redis?", {"limit": 2}),
    ("我对缓存做过什么决定？", {"limit": 2, "observation_kinds": ["decided"]}),
    ("hangi kararı değiştirdik?", {"limit": 1}),
    ("who is woken at night?", {"limit": 1}),
    ("what did cooks ask of us?", {"limit": 1}),
)
BELIEF = "One API process is enough for all our cooks"
NOW_BELIEVED = "Three API processes, each with a cache of its own"
REASON = "we were on television, and one could not keep up"
CHANGED_ON = "2025-11-04"
ASKED = "how many API processes?"
BEFORE = "2025-08-01"
PLAN = "put Redis in front of the API"


@dataclass(frozen=True)
class Told:
    """What happened in the demo."""

    batches: int
    asked: list[tuple[str, SearchPage]]
    revised: RecordReceipt
    now: SearchPage
    before: SearchPage
    against: Challenge

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "batches": self.batches,
            "asked": [
                {"question": question, **page.model_dump(mode="json")} for question, page in self.asked
            ],
            "revised": self.revised.model_dump(mode="json"),
            "now": self.now.model_dump(mode="json"),
            "before": self.before.model_dump(mode="json"),
            "challenge": self.against.model_dump(mode="json"),
        }


@click.command("demo", cls=Verb)
@click.option("--keep", metavar="DIR", help="Keep the store in this new folder, to go on with it.")
@click.pass_obj
def command(app: App, /, *, keep: str | None) -> None:
    """Show in one screen what this is for: a project's memory, asked, changed and argued with.

    Your own memory is neither read nor touched.
    """
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rawthink-demo-")))
        folder = _new_folder(keep) if keep else scratch / "vault"
        told = run_async(lambda: _tell(folder, scratch))
    app.answer(told.document(), lambda: _lines(told, folder if keep else None))


def _new_folder(keep: str) -> Path:
    folder = Path(keep).expanduser().absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise click.UsageError(f"{folder} is not empty; --keep wants a new folder")
    return folder


async def _tell(folder: Path, scratch: Path) -> Told:
    """Build the memory of the story, ask it, change it and argue with it; return what happened."""
    clock = ManualClock()
    world = World(
        path=folder,
        clock=clock,
        ids=CountingIds("demo"),
        timezone=ZONE,
        cache=scratch / "cache",
        state=scratch / "state",
    )
    plugin = load_provider("local")
    settings = plugin.settings()
    plugin.check(settings)
    memory = Memory(plugin.make(settings, world), ids=CountingIds("demo"))
    await memory.provider.open()
    try:
        await memory.search("ready?")  # without a search engine there is no story: say so once, at once
        batches = await _build(memory, clock)
        clock.set(datetime.fromisoformat("2025-11-03T09:00:00+03:00"))
        asked = [(question, await memory.search(question, **how)) for question, how in QUESTIONS]
        clock.set(datetime.fromisoformat("2025-11-05T09:00:00+03:00"))
        receipt = await memory.revise(
            [{"entity": "API", "text": BELIEF}],
            successor={"text": NOW_BELIEVED},
            cause="changed",
            effective=CHANGED_ON,
            reason=REASON,
        )
        now = await memory.search(ASKED, limit=1)
        before = await memory.search(ASKED, limit=1, as_of=BEFORE)
        against = await memory.challenge(PLAN, limit=2)
    finally:
        await memory.close()
    return Told(batches, asked, receipt, now, before, against)


async def _build(memory: Memory, clock: ManualClock) -> int:
    """Write the story, each batch at its time; return how many there are."""
    verbs: dict[str, Callable[..., Awaitable[RecordReceipt]]] = {
        "decide": memory.record_decision,
        "record": memory.record,
    }
    lines = (files("rawthink_cli") / "demo.jsonl").read_text(encoding="utf-8").splitlines()
    for line in lines:
        entry = json.loads(line)
        clock.set(datetime.fromisoformat(entry.pop("at")))
        for verb, arguments in entry.items():
            await verbs[verb](**arguments)
    return len(lines)


# --- printing -----------------------------------------------------------------------------------


def _lines(told: Told, kept: Path | None) -> Iterator[str]:
    tell = telling.Teller(ZoneInfo(ZONE))
    yield from paper.wrap(
        f"A team of three builds Sofra, a site for recipes, and remembers in English, 中文 and Türkçe: "
        f"{told.batches} notes from January to October 2025, written just now into a memory of its own."
    )
    yield ""
    yield "ASK IT"
    for question, page in told.asked:
        yield from _answers(tell, question, page)
    yield ""
    yield "CHANGE YOUR MIND: nothing is overwritten"
    yield from paper.wrap(f"  revise   {BELIEF}", rest=" " * 11)
    yield from paper.wrap(f"  to       {NOW_BELIEVED}", rest=" " * 11)
    yield from paper.wrap(f"  because  {REASON} ({CHANGED_ON})", rest=" " * 11)
    yield from _answers(tell, ASKED, told.now)
    yield from _answers(tell, f"{ASKED}  (as believed on {BEFORE})", told.before)
    yield ""
    yield f'LET IT ARGUE BACK: challenge "{PLAN}"'
    yield from (
        f"  {line}" for line in challenge.lines(told.against, tell._replace(columns=paper.COLUMNS - 2))
    )
    yield ""
    if kept is None:
        yield "Now yours:  rawthink init   then   rawthink decide --help"
    else:
        yield from paper.wrap(f"The memory is kept in {kept}. Go on with it:")
        yield f'  rawthink --vault "{kept}" search 照片'


def _answers(tell: telling.Teller, question: str, page: SearchPage) -> Iterator[str]:
    yield f"? {question}"
    yield from (f"  {line}" for line in telling.degraded(page.degraded, empty=not page.items))
    for found in page.items:
        yield from (f"  {line}" for line in telling.hit(tell._replace(columns=paper.COLUMNS - 2), found))
