"""Mutants that lose text on the way, or get times wrong."""

from __future__ import annotations

import unicodedata
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rawthink_conformance.mutants.zoo import ChangesRows, breaks, remade
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.graph import Rules
from rawthink_core.model import zone_named

if TYPE_CHECKING:
    from datetime import datetime

    from rawthink_core.graph import Work
    from rawthink_core.operations import Scan, ScanPage, SearchPage, SearchQuery
    from rawthink_core.rows import Row, State


class ChangesTexts(ChangesRows):
    """Base: stores another text than was given."""

    def text(self, text: str) -> str:
        """Return what is stored instead."""
        raise NotImplementedError

    def changed(self, row: Row) -> Row:
        """Change the text."""
        return row | ({"text": self.text(row["text"])} if "text" in row else {})


@breaks("text.verbatim")
class NormalisesText(ChangesTexts):
    """Composes what was given decomposed."""

    def text(self, text: str) -> str:
        """Return NFC."""
        return unicodedata.normalize("NFC", text)


@breaks("text.verbatim")
class StripsText(ChangesTexts):
    """Drops white space at the ends."""

    def text(self, text: str) -> str:
        """Strip."""
        return text.strip()


@breaks("text.verbatim")
class SplitsLines(ChangesTexts):
    """Takes every line separator for a line feed."""

    def text(self, text: str) -> str:
        """Split and join."""
        return "\n".join(text.splitlines())


@breaks("text.verbatim")
class EndsAtNul(ChangesTexts):
    """Ends a text at a NUL, as C does."""

    def text(self, text: str) -> str:
        """Cut."""
        return text.split("\0", maxsplit=1)[0]


@breaks("text.long")
class Truncates(ChangesTexts):
    """Keeps the first hundred thousand characters."""

    def text(self, text: str) -> str:
        """Cut."""
        return text[:100_000]


@breaks("text.names")
class CleansLabels(ChangesRows):
    """Drops NULs from labels."""

    def changed(self, row: Row) -> Row:
        """Clean speakers and keys."""
        labels = {name: row[name].replace("\0", "") for name in ("speaker", "key") if name in row}
        return row | labels


# --- times --------------------------------------------------------------------------------------


@breaks("time.recorded_at", "write.parallel")
class TrustsTheClock(ReferenceProvider):
    """Takes the clock's time, whatever was recorded before."""

    def _next_instant(self) -> datetime:
        return self._clock.now()


@breaks("time.zone")
class ReadsUtc(ReferenceProvider):
    """Takes naive times for UTC."""

    def _settle(self, zone: str) -> None:
        super()._settle(zone)
        self._rules = Rules(self._world.vocabulary, zone_named("UTC"))


@breaks("time.zone")
class ClientClocks(ReferenceProvider):
    """Keeps the time of a provenance as the client wrote it."""

    def _plan(self, work: Work, at: datetime) -> tuple[Row, ...]:
        if (given := work.batch.provenance) is not None:
            work.by = given.model_dump(mode="json", exclude_none=True)
        return super()._plan(work, at)


@breaks("time.zone_fixed")
class MovesWithItsReader(ReferenceProvider):
    """Reads a store in the zone of whoever opens it."""

    async def open(self) -> None:
        """Open, and forget the store's zone."""
        await super().open()
        self._settle(self._world.timezone or "UTC")


@breaks("time.forms")
class DropsMicroseconds(ChangesRows):
    """Keeps whole seconds."""

    def changed(self, row: Row) -> Row:
        """Cut the times."""
        times = {n: f"{row[n][:19]}.000000Z" for n in ("valid_from", "valid_to") if row.get(n)}
        return row | times


@breaks("time.half_open")
class ClosedIntervals(ReferenceProvider):
    """Takes what lies at `until`."""

    def _scan(self, request: Scan) -> ScanPage:
        return super()._scan(_later(request))

    def _search(self, query: SearchQuery) -> SearchPage:
        return super()._search(_later(query))


def _later(request: Any) -> Any:
    return (
        request if request.until is None else remade(request, until=request.until + timedelta(microseconds=1))
    )


@breaks("time.filter_date")
class FiltersByRecording(ReferenceProvider):
    """Filters by when something was recorded, whatever it is about."""

    def _search(self, query: SearchQuery) -> SearchPage:
        page = super()._search(remade(query, since=None, until=None))
        since: Any = query.since
        until: Any = query.until
        kept = (
            hit
            for hit in page.items
            if (since is None or hit.recorded_at >= since) and (until is None or hit.recorded_at < until)
        )
        return remade(page, items=tuple(kept))


@breaks("time.as_of", "search.entities")
class TodaysFields(ReferenceProvider):
    """Shows the past with the fields of today."""

    def _standing(self, space: str, as_of: str | None = None) -> dict[str, State]:
        then, now = super()._standing(space, as_of), super()._standing(space)
        return {item: now[item] for item in then if item in now}


@breaks("time.as_of_search", "search.past_is_ageless")
class SearchesThePresent(ReferenceProvider):
    """Searches what is believed now, whenever it is asked about."""

    def _search(self, query: SearchQuery) -> SearchPage:
        return super()._search(remade(query, as_of=None))


@breaks("time.valid_at")
class EndedNeverHeld(ReferenceProvider):
    """Takes what has ended for what never held."""

    def _search(self, query: SearchQuery) -> SearchPage:
        return super()._search(query if query.valid_at is None else _stated(query))

    def _scan(self, request: Scan) -> ScanPage:
        return super()._scan(request if request.valid_at is None else _stated(request))


def _stated(request: Any) -> Any:
    return type(request).model_validate({**request.model_dump(exclude_unset=True), "statuses": ("active",)})


@breaks("time.valid_at")
class IgnoresIntervals(ReferenceProvider):
    """Takes everything to hold for ever."""

    def _search(self, query: SearchQuery) -> SearchPage:
        return super()._search(remade(query, valid_at=None))


@breaks("time.lapsed")
class HidesTheLapsed(ReferenceProvider):
    """Hides what is past its end."""

    def _search(self, query: SearchQuery) -> SearchPage:
        page = super()._search(query)
        return remade(page, items=tuple(hit for hit in page.items if not hit.lapsed))
