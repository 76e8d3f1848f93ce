"""Mutants that read and copy wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_conformance.mutants.zoo import breaks, remade
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.clock import iso
from rawthink_core.commits import Commit
from rawthink_core.errors import InvalidRequest
from rawthink_core.operations import (
    ScanPage,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

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
        Scope,
        SearchPage,
        SearchQuery,
    )

EVERY = ("active", "ended", "invalidated")


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


@breaks("scan.cursor")
class TakesAnyCursor(ReferenceProvider):
    """Takes a cursor that means nothing for the end."""

    def _scan(self, request: Scan) -> ScanPage:
        try:
            return super()._scan(request)
        except InvalidRequest:
            return ScanPage()


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


@breaks("graph.bare")
class AlwaysSaysAll(ReferenceProvider):
    """Fetches what is said, whether it was asked for or not."""

    def _graph(self, query: GraphQuery) -> GraphPage:
        return super()._graph(remade(query, observations=True))


@breaks("graph.bare")
class BareOfRelations(ReferenceProvider):
    """Leaves out the relations together with what is said."""

    def _graph(self, query: GraphQuery) -> GraphPage:
        page = super()._graph(query)
        return page if query.observations else remade(page, relations=())


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
