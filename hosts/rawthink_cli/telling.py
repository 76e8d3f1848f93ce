"""What people are told of hits, items and receipts: lines of text, in the zone of the store.

Nothing here asks a store for anything.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from rawthink_cli import paper

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from rawthink_core.memory import Memory
    from rawthink_core.model import Entity, Hit, Observation, Passage, Relation
    from rawthink_core.operations import Advice, RecordReceipt

INDENT = "   "
_EXCERPT_LINES = 8
_EXCERPT_CHARACTERS = 2_000


class Teller(NamedTuple):
    """How to write for one reader: the zone of dates, the columns, and whether to show ids."""

    zone: ZoneInfo
    columns: int = paper.COLUMNS
    ids: bool = False

    def day(self, moment: datetime) -> str:
        """Return the date of a moment."""
        return f"{moment.astimezone(self.zone):%Y-%m-%d}"

    def minute(self, moment: datetime) -> str:
        """Return the date and time of a moment."""
        return f"{moment.astimezone(self.zone):%Y-%m-%d %H:%M}"

    def text(self, text: str, first: str = INDENT, rest: str | None = None) -> list[str]:
        """Return lines of a text of the store."""
        return paper.wrap(text, self.columns, first, rest)

    def excerpt(self, text: str, first: str = INDENT, rest: str | None = None) -> list[str]:
        """Return the first lines of a text, and say where there is more."""
        lines = self.text(text[:_EXCERPT_CHARACTERS], first, rest)
        if len(lines) > _EXCERPT_LINES or len(text) > _EXCERPT_CHARACTERS:
            more = f"… {len(text):,} characters in all; `rawthink show ID` prints them (--ids)"
            return [*lines[:_EXCERPT_LINES], *paper.wrap(more, self.columns, INDENT)]
        return lines

    def label(self, item_id: str) -> list[str]:
        """Return the line that names an id, where ids were asked for."""
        return [f"{INDENT}id {item_id}"] if self.ids else []


def teller_for(memory: Memory, columns: int, *, ids: bool = False) -> Teller:
    """Return the teller for an open memory."""
    return Teller(ZoneInfo(memory.info.timezone), columns, ids)


async def emptiness(memory: Memory) -> str:
    """Return what to add to an answer that found nothing: where it looked, if nothing is there at all."""
    from rawthink_core.provider import Capability  # noqa: PLC0415 - with the rest of the core

    if not memory.info.can(Capability.SCAN) or (await memory.scan(limit=1)).items:
        return ""
    return f" The memory in {memory.info.location} holds nothing in this space yet."


# --- searches -----------------------------------------------------------------------------------


def hit(tell: Teller, found: Hit, lead: str = "") -> Iterator[str]:
    """Yield the lines of something that a search found: where from, what, and what became of it."""
    yield from paper.wrap(
        f"{lead}{_where(found)}  ({_about(tell, found)})", tell.columns, rest=" " * len(lead)
    )
    if found.item != "entity":
        yield from tell.excerpt(found.text)
    if found.reason:
        yield from tell.text(found.reason, f"{INDENT}given up because: ")
    if found.successor:
        yield from tell.excerpt(found.successor, f"{INDENT}now: ")
    yield from tell.label(found.id)
    if found.why is not None:
        yield f"{INDENT}{_why(found)}"


def _where(found: Hit) -> str:
    if found.entity_name is not None:
        return paper.one_line(found.entity_name)
    session = paper.one_line(found.session or "")
    return f"{paper.one_line(found.speaker)}, in {session}" if found.speaker else session


def _about(tell: Teller, found: Hit) -> str:
    parts = ["by its name"] if found.item == "entity" else []
    parts += [] if found.kind in (None, "note") else [str(found.kind)]
    parts.append(tell.day(found.date))
    if found.status != "active":
        parts.append(_standing(found.status, tell, found.valid_to))
    elif found.lapsed and found.valid_to is not None:
        parts.append(f"until {tell.day(found.valid_to)}")
    return ", ".join(parts)


def _standing(status: str, tell: Teller, valid_to: datetime | None) -> str:
    if status == "ended":
        return f"no longer so since {tell.day(valid_to)}" if valid_to else "no longer so"
    return "was never so"


def _why(found: Hit) -> str:
    why = found.why
    if why is None:
        return ""
    parts = [f"score {found.score:.3f}"]
    parts += [f"{why.lexical_rank}. by words"] if why.lexical_rank is not None else []
    parts += [f"{why.dense_rank}. by meaning"] if why.dense_rank is not None else []
    parts += [f"neighbours +{why.neighbours:.3f}"] if why.neighbours else []
    parts.append(f"age x{why.decay:.3f}")
    return ", ".join(parts)


# --- items --------------------------------------------------------------------------------------


def entity(tell: Teller, item: Entity) -> Iterator[str]:
    """Yield an entity's own lines."""
    kind = f"{item.entity_type} (was called {item.original_type})" if item.original_type else item.entity_type
    facts = [kind, item.domain or "no domain"]
    facts += [item.epistemic] if item.epistemic != "unknown" else []
    facts += [item.visibility] if item.visibility != "private" else []
    facts += ["pinned"] if item.pinned else []
    facts += ["made up to complete a relation"] if item.reconstructed else []
    yield from paper.wrap(paper.one_line(item.name), tell.columns)
    yield from tell.text(f"{', '.join(facts)}; since {tell.day(item.recorded_at)}")
    if item.aliases:
        yield from tell.text(f"also called {', '.join(map(paper.one_line, item.aliases))}")
    yield from tell.label(item.id)


def observation(tell: Teller, item: Observation, *, owner: bool = False) -> Iterator[str]:
    """Yield the lines of something said."""
    lead = f"{INDENT}{item.kind}: " if item.kind != "note" else f"{INDENT}- "
    yield from tell.text(f"{item.text}", lead)
    notes = [f"in {paper.one_line(item.entity_name)}"] if owner else []
    notes += validity(tell, item)
    yield from (line for note in notes for line in tell.text(note, INDENT * 2))
    yield from tell.label(item.id)


def validity(tell: Teller, item: Observation | Relation | Passage) -> list[str]:
    """Return what the dates of an item say: since when, until when, and why it was given up."""
    notes: list[str] = []
    if item.valid_from is not None or (item.valid_to is not None and item.status == "active"):
        since = f"from {tell.day(item.valid_from)}" if item.valid_from else ""
        until = f"until {tell.day(item.valid_to)}" if item.valid_to else ""
        notes.append(f"held {since} {until}".replace("  ", " ").strip())
    if item.status != "active":
        given_up = f" on {tell.day(item.invalidated_at)}" if item.invalidated_at else ""
        what = "ended" if item.status == "ended" else "corrected"
        notes.append(f"{what}{given_up}" + (f": {item.reason}" if item.reason else ""))
    return notes


def relation(tell: Teller, item: Relation) -> Iterator[str]:
    """Yield the line of a relation."""
    original = f" (was called {paper.one_line(item.original_type)})" if item.original_type else ""
    source, target = paper.one_line(item.source_name), paper.one_line(item.target_name)
    yield from tell.text(f"{source} —{item.type}→ {target}{original}")
    yield from (line for note in validity(tell, item) for line in tell.text(note, INDENT * 2))
    yield from tell.label(item.id)


def passage(tell: Teller, item: Passage) -> Iterator[str]:
    """Yield the lines of a passage."""
    speaker = f"{paper.one_line(item.speaker)}, " if item.speaker else ""
    tags = f"  [{', '.join(map(paper.one_line, item.tags))}]" if item.tags else ""
    when = tell.minute(item.valid_from or item.recorded_at)
    yield from paper.wrap(f"{speaker}{paper.one_line(item.session)}, {when}{tags}", tell.columns)
    yield from tell.text(item.text)
    yield from (line for note in validity(tell, item) for line in tell.text(note, INDENT * 2))
    yield from tell.label(item.id)


# --- receipts -----------------------------------------------------------------------------------

_PLURAL = {"entity": "entities"}
_DID = {"created": "New", "updated": "Changed", "unchanged": "Known already"}


def count(number: int, noun: str) -> str:
    """Return a number with its noun: 1 entity, 2 entities."""
    return f"{number:,} {noun if number == 1 else _PLURAL.get(noun, noun + 's')}"


def receipt(tell: Teller, done: RecordReceipt) -> Iterator[str]:
    """Yield what a write did, and its advice set off from the rest."""
    counts = Counter((_DID.get(item.outcome, "Given up"), item.kind) for item in done.items)
    for title in ("New", "Changed", "Given up", "Known already"):
        nouns = [count(n, kind) for (outcome, kind), n in counts.items() if outcome == title]
        if nouns:
            yield from paper.wrap(", ".join(nouns), tell.columns, f"{title}: ")
    if not counts:
        yield "Nothing to do."
    if tell.ids:
        yield from (f"{INDENT}{item.kind} {item.id} {item.outcome}" for item in done.items)
    yield from advice(tell, done.advice)


def advice(tell: Teller, given: Sequence[Advice]) -> Iterator[str]:
    """Yield advice so that it is seen."""
    for one in given:
        title = {"rejected_before": "Rejected before", "secret": "Secret", "capacity": "Capacity"}[one.kind]
        yield from paper.wrap(one.text, tell.columns, f"!  {title}: ", INDENT)


def degraded(reason: str | None, *, empty: bool) -> list[str]:
    """Return the warning that an answer is incomplete, in words that no honest empty answer has."""
    if not reason:
        return []
    what = (
        "Nothing found so far, and not everything could be asked"
        if empty
        else "INCOMPLETE, more may be known"
    )
    return paper.wrap(f"!  {what}: {reason}", rest=INDENT)


def section(title: str, lines: Iterable[str]) -> list[str]:
    """Return lines under a title, and nothing where there are none."""
    listed = list(lines)
    return [title, *listed] if listed else []
