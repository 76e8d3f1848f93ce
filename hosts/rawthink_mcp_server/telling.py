"""What a model is told: compact lines of text, bounded, that say what was left out and how to get it.

Nothing here asks a store for anything. A text of the store stands in one line: as it is where it is one, else
as a JSON string, so that it can be handed back exactly and can't be taken for a line of ours.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rawthink_core.vault.documents import own_tags, source_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from rawthink_core.model import Entity, Hit, Observation, Passage, Relation
    from rawthink_core.operations import Advice, RecordReceipt

LIMIT = 20_000  # characters of one answer
EXCERPT = 300  # characters of one text in a list
_TAIL = 600  # characters that are kept free for what stands at the end
_IDS = 20  # ids that a receipt lists
CUT = "…"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

KINDS = ("decided", "because", "rejected", "touches", "note")  # the order in which a reader wants them
_STATES = {"entity": "entities"}
_DID = {"created": "new", "updated": "changed", "unchanged": "known already"}


class Told(NamedTuple):
    """The answer of a tool: its text, and the documents that a structured copy is made of."""

    text: str
    documents: Mapping[str, Any]


@dataclass
class Sheet:
    """An answer that is being written. What does not fit is counted, and said at the end."""

    room: int = LIMIT - _TAIL
    lines: list[str] = field(default_factory=list)
    left_out: int = 0
    shortened: bool = False

    def add(self, *lines: str) -> bool:
        """Add lines that belong together, or none of them; tell whether they fit."""
        size = sum(len(line) + 1 for line in lines)
        if self.left_out or size > self.room:
            if self.lines or self.left_out:
                self.left_out += 1
                return False
            lines = tuple(_cut("\n".join(lines), self.room).split("\n"))  # one item that is longer than all
            size, self.shortened = self.room, True
        self.room -= size
        self.lines += lines
        return True

    def always(self, *lines: str) -> None:
        """Add lines that must be said, in the room that is kept free for them."""
        self.lines += [_cut(line, _TAIL) for line in lines]

    def excerpt(self, text: str, most: int = EXCERPT) -> str:
        """Return a text in one line, the beginning of it where it is long."""
        if len(text) <= most:
            return one_line(text)
        self.shortened = True
        return f"{one_line(_cut(text, most))} ({len(text):,} characters)"

    def text(self) -> str:
        """Return the answer."""
        return "\n".join(self.lines)


@dataclass(frozen=True)
class Teller:
    """Writes items and dates in the zone of the store."""

    zone: ZoneInfo

    def day(self, moment: datetime) -> str:
        """Return the date of a moment."""
        local = moment.astimezone(self.zone)
        return f"{local.year:04}-{local.month:02}-{local.day:02}"

    def entity(self, item: Entity) -> str:
        """Return the line of an entity: what it is, and since when."""
        was = f" (was called {one_line(item.original_type)})" if item.original_type else ""
        facts = [f"{item.entity_type}{was}"]
        facts += [item.domain or "no domain"]
        facts += [item.epistemic] if item.epistemic != "unknown" else []
        facts += [item.visibility] if item.visibility != "private" else []
        facts += ["pinned"] if item.pinned else []
        facts += ["made up to complete a relation"] if item.reconstructed else []
        return f"{one_line(item.name)} ({', '.join(facts)}, {self.day(item.recorded_at)}) [{item.id}]"

    def observation(self, item: Observation, text: str) -> str:
        """Return the line of something said; ``text`` is its text as it is to be shown."""
        return f"- {item.kind}, {self.dates(item)}: {text} [{item.id}]"

    def relation(self, item: Relation, seen_from: str | None = None) -> str:
        """Return the line of a relation, seen from one of its ends or from neither."""
        kind = f"{item.type} (was called {one_line(item.original_type)})" if item.original_type else item.type
        source, target = one_line(item.source_name), one_line(item.target_name)
        if seen_from == item.source:
            arrow = f"—{kind}→ {target}"
        elif seen_from == item.target:
            arrow = f"←{kind}— {source}"
        else:
            arrow = f"{source} —{kind}→ {target}"
        state = "" if item.status == "active" else f", {self.dates(item)}"
        return f"- {arrow}{state} [{item.id}]"

    def passage(self, item: Passage, text: str) -> str:
        """Return the lines of a passage; ``text`` is its text as it is to be shown."""
        facts = [one_line(item.speaker)] if item.speaker else []
        facts += [*_source(item.tags), self.dates(item), *_tags(item.tags)]
        return f"session {one_line(item.session)} ({', '.join(facts)}) [{item.id}]\n{text}"

    def dates(self, item: Observation | Relation | Passage) -> str:
        """Return when an item is from, and what became of it."""
        said = self.day(item.valid_from or item.recorded_at)
        if item.status == "active":
            return f"{said} until {self.day(item.valid_to)}" if item.valid_to else said
        given_up = f" on {self.day(item.invalidated_at)}" if item.invalidated_at else ""
        until = f", held until {self.day(item.valid_to)}" if item.valid_to else ""
        heir = f", now {item.superseded_by}" if item.superseded_by else ""
        reason = f", because {one_line(item.reason)}" if item.reason else ""
        return f"{said}, {item.status}{given_up}{until}{heir}{reason}"

    def hit(self, sheet: Sheet, found: Hit, lead: str) -> list[str]:
        """Return the lines of what a search found that somebody said: where, what, and what became of it."""
        if found.entity_name is not None:
            where = one_line(found.entity_name)
        else:
            where = f"session {one_line(found.session or '')}"
        facts = [one_line(found.speaker)] if found.speaker else []
        facts += [found.kind] if found.kind else _source(found.tags)
        facts += [self.day(found.date), *_tags(found.tags)]
        facts += [found.status] if found.status != "active" else []
        facts += [f"until {self.day(found.valid_to)}"] if found.valid_to else []
        lines = [f"{lead}{where} ({', '.join(facts)}) [{found.id}]", f"  {sheet.excerpt(found.text)}"]
        lines += [f"  given up because: {sheet.excerpt(found.reason)}"] if found.reason else []
        lines += (
            [f"  now: {sheet.excerpt(found.successor)} [{found.superseded_by}]"] if found.successor else []
        )
        return lines


def _source(tags: Iterable[str]) -> list[str]:
    """Return the kind of file that a passage is of, where it is of one."""
    source = source_of(tags)
    return [source] if source else []


def _tags(tags: Iterable[str]) -> list[str]:
    return [f"#{one_line(tag)}" for tag in own_tags(tags)]


# --- receipts -----------------------------------------------------------------------------------


def count(number: int, noun: str) -> str:
    """Return a number with its noun: 1 entity, 2 entities."""
    return f"{number:,} {noun if number == 1 else _STATES.get(noun, noun + 's')}"


def receipt(done: RecordReceipt) -> Iterator[str]:
    """Yield what a write did, the ids of what is new, and its advice."""
    counts = Counter((item.kind, _DID.get(item.outcome, item.outcome)) for item in done.items)
    said = "; ".join(f"{count(number, kind)} {what}" for (kind, what), number in counts.items())
    yield f"{'Recorded' if done.status == 'stored' else 'Queued'}: {said or 'nothing to do'}."
    shown = [item for item in done.items if item.outcome != "unchanged"][:_IDS]
    for kind, what in dict.fromkeys((item.kind, item.outcome) for item in shown):
        ids = [
            f"{item.id} → {item.successor}" if item.successor else item.id
            for item in shown
            if (item.kind, item.outcome) == (kind, what)
        ]
        yield f"{kind} {what}: {', '.join(ids)}"
    if done.pending_embeddings:
        yield f"{count(done.pending_embeddings, 'vector')} follow later; words are found at once."
    yield from advice(done.advice)


def advice(given: Iterable[Advice]) -> Iterator[str]:
    """Yield advice so that it is seen."""
    titles = {"rejected_before": "Rejected before", "secret": "Secret", "capacity": "Capacity"}
    for one in given:
        yield f"! {titles[one.kind]}: {one_line(one.text)}"


def degraded(reason: str | None, *, empty: bool = False) -> list[str]:
    """Return the warning that an answer is incomplete, in words that no honest empty answer has."""
    if not reason:
        return []
    what = (
        "Nothing found so far, but not everything could be asked"
        if empty
        else "INCOMPLETE, more may be known"
    )
    return [f"! {what}: {one_line(reason)}"]


# --- texts --------------------------------------------------------------------------------------


def one_line(text: str) -> str:
    """Return a text in one line: as it is, or as a JSON string where it has lines or control characters."""
    if not text.startswith('"') and _CONTROL.search(text) is None:
        return text
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text, at most so long, that splits no character that a reader sees."""
    if len(text) <= most:
        return text
    if text[most - 2 : most].isascii() and text[most - 2 : most] != "\r\n":  # nothing joins the two
        return text[: most - 1].rstrip() + CUT
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415 - 20 ms to import; most texts need no cut

    kept = most - 1
    for grapheme in regex.finditer(r"\X", text, pos=max(kept - 100, 0)):
        if grapheme.end() > kept:
            kept = grapheme.start() if grapheme.start() > kept - 100 else kept
            break
    return text[:kept].rstrip() + CUT
