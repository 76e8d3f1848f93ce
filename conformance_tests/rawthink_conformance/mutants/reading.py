"""Mutants that read, copy and date wrongly, or lose text on the way."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

from rawthink_conformance.mutants.zoo import ChangesRows, breaks, remade
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.clock import iso
from rawthink_core.commits import Commit
from rawthink_core.graph import Rules
from rawthink_core.model import zone_named

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from rawthink_core.operations import (
        Export,
        Get,
        GraphPage,
        GraphQuery,
        History,
        HistoryQuery,
        Items,
        RestoreReceipt,
        Scan,
        ScanPage,
        Scope,
        SearchPage,
        SearchQuery,
    )
    from rawthink_core.rows import Row, State

EVERY = ("active", "ended", "invalidated")


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
    from datetime import timedelta  # noqa: PLC0415 - one use

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


@breaks("time.as_of")
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


# --- verbs --------------------------------------------------------------------------------------


@breaks("get.order")
class TurnedItems(ReferenceProvider):
    """Returns items in another order than they were asked for."""

    def _get(self, request: Get) -> Items:
        found = super()._get(request)
        return remade(found, items=tuple(reversed(found.items)))


@breaks("scan.filters")
class ScansAllTags(ReferenceProvider):
    """Ignores tags in a scan."""

    def _scan(self, request: Scan) -> ScanPage:
        return super()._scan(remade(request, tags=()))


@breaks("search.filters")
class SearchesAllDomains(ReferenceProvider):
    """Ignores domains in a search."""

    def _search(self, query: SearchQuery) -> SearchPage:
        return super()._search(remade(query, domains=()))


@breaks("scan.pages")
class UnboundedPage(ReferenceProvider):
    """Returns everything in one page."""

    def _scan(self, request: Scan) -> ScanPage:
        return super()._scan(remade(request, limit=1_000_000))


@breaks("scan.pages")
class CursorByNumber(ReferenceProvider):
    """Counts how many items a page was behind."""

    def _scan(self, request: Scan) -> ScanPage:
        start = int(request.cursor or 0)
        every = super()._scan(remade(request, limit=1_000_000, cursor=None)).items
        end = start + request.limit
        page = super()._scan(remade(request, cursor=None))
        return remade(page, items=every[start:end], cursor=str(end) if end < len(every) else None)


@breaks("graph.walk")
class OutgoingOnly(ReferenceProvider):
    """Follows arrows in their own direction only."""

    def _graph(self, query: GraphQuery) -> GraphPage:
        page = super()._graph(remade(query, depth=0))
        start = {entity.id for entity in page.entities}
        links = super()._graph(query).relations
        return remade(super()._graph(query), relations=tuple(r for r in links if r.source in start))


@breaks("graph.cycles")
class WalksInCircles(ReferenceProvider):
    """Lists a relation each time it comes by."""

    def _graph(self, query: GraphQuery) -> GraphPage:
        page = super()._graph(query)
        again = page.relations if query.depth > 2 else ()  # noqa: PLR2004 - a ring of three
        return remade(page, relations=(*page.relations, *again))


@breaks("graph.limit")
class UnboundedGraph(ReferenceProvider):
    """Returns every relation, however many."""

    def _graph(self, query: GraphQuery) -> GraphPage:
        return super()._graph(remade(query, limit=1_000_000))


@breaks("graph.limit")
class CutInSilence(ReferenceProvider):
    """Does not say that there is more."""

    def _graph(self, query: GraphQuery) -> GraphPage:
        return remade(super()._graph(query), truncated=False)


@breaks("graph.statuses")
class GraphOfAllTimes(ReferenceProvider):
    """Shows what was retired in every graph."""

    def _graph(self, query: GraphQuery) -> GraphPage:
        return super()._graph(remade(query, statuses=EVERY))


@breaks("history.entity")
class HistoryOfThePresent(ReferenceProvider):
    """Leaves out of a history what no longer stands."""

    def _history(self, query: HistoryQuery) -> History:
        history = super()._history(query)
        return remade(history, observations=tuple(o for o in history.observations if o.status == "active"))


@breaks("history.entity")
class HistoryById(ReferenceProvider):
    """Orders what was said at one time by its ids."""

    def _history(self, query: HistoryQuery) -> History:
        history = super()._history(query)
        ordered = sorted(history.observations, key=lambda said: (said.recorded_at, said.id))
        return remade(history, observations=tuple(ordered))


@breaks("history.chain")
class ForwardOnly(ReferenceProvider):
    """Follows a history to what came later only."""

    def _history(self, query: HistoryQuery) -> History:
        history = super()._history(query)
        known = {said.id: said for said in history.observations}
        chain = [query.id] if query.id in known else []
        while chain and (heir := known[chain[-1] or ""].superseded_by) in known:
            chain.append(heir)
        return remade(history, observations=tuple(known[i] for i in chain if i)) if chain else history


# --- copies -------------------------------------------------------------------------------------


@breaks("export.restores", "restore.times")
class RestoresAnew(ReferenceProvider):
    """Gives what is restored the time of the restore."""

    def _restore(self, scope: Scope, commits: Sequence[Commit]) -> RestoreReceipt:
        now = iso(self._next_instant())
        fresh = [Commit(c.id, now, c.space, c.rows, c.by, c.request) for c in commits]
        return super()._restore(scope, fresh)


@breaks("export.portable")
class ExportsWithoutLinks(ReferenceProvider):
    """Exports items without what happened to them later."""

    async def export(self, request: Export) -> AsyncIterator[Commit]:
        """Drop fields and links."""
        async for commit in super().export(request):
            rows = tuple(row for row in commit.rows if row["op"] not in ("field", "link"))
            yield Commit(commit.id, commit.at, commit.space, rows, commit.by, commit.request)


@breaks("export.order")
class NewestFirst(ReferenceProvider):
    """Exports in the wrong order."""

    async def export(self, request: Export) -> AsyncIterator[Commit]:
        """Turn it round."""
        for commit in reversed([commit async for commit in super().export(request)]):
            yield commit


@breaks("restore.again")
class RestoresTwice(ReferenceProvider):
    """Adds commits that are there already once more."""

    def _restore(self, scope: Scope, commits: Sequence[Commit]) -> RestoreReceipt:
        copies = [Commit(f"{c.id} (copy)", c.at, c.space, c.rows, c.by, c.request) for c in commits]
        known = {commit.id for commit in self._shelf.commits}
        return super()._restore(
            scope, [c for c, copy in zip(commits, copies, strict=True) if c.id not in known] + copies
        )


@breaks("restore.space")
class RestoresAnything(ReferenceProvider):
    """Takes commits of any space for its own."""

    def _restore(self, scope: Scope, commits: Sequence[Commit]) -> RestoreReceipt:
        return super()._restore(
            scope, [Commit(c.id, c.at, scope.space, c.rows, c.by, c.request) for c in commits]
        )


@breaks("export.restores")
class LosesProvenanceOfCopies(ReferenceProvider):
    """Restores without who said it."""

    def _restore(self, scope: Scope, commits: Sequence[Commit]) -> RestoreReceipt:
        return super()._restore(
            scope, [Commit(c.id, c.at, c.space, c.rows, None, c.request) for c in commits]
        )
