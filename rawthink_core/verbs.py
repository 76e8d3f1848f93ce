"""The verbs that a memory hands on to its provider as they are, for one space: reading and upkeep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_core import decisions
from rawthink_core.operations import (
    Export,
    Forget,
    Get,
    GraphQuery,
    HistoryQuery,
    Maintain,
    Scan,
    Scope,
    SearchQuery,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import date

    from rawthink_core.commits import Commit
    from rawthink_core.decisions import Challenge
    from rawthink_core.embedding import KeptVectors
    from rawthink_core.operations import (
        ForgetReceipt,
        GraphPage,
        Health,
        History,
        Items,
        MaintainReceipt,
        RestoreReceipt,
        ScanPage,
        SearchPage,
    )
    from rawthink_core.provider import Provider, ProviderInfo


class Verbs:
    """One space of a provider: every verb with its scope filled in, and its arguments checked."""

    def __init__(self, provider: Provider, space: str) -> None:
        self.provider = provider
        self.scope = parse(Scope, {"space": space})

    @property
    def info(self) -> ProviderInfo:
        """Who the provider is, where its store lies, and what it can do."""
        return self.provider.info

    async def close(self) -> None:
        """Close the store. May be called again."""
        await self.provider.close()

    # --- reading --------------------------------------------------------------------------------

    async def search(self, text: str, **filters: Any) -> SearchPage:
        """Return what ``text`` is about, best first. ``filters`` are the fields of `SearchQuery`.

        Raises InvalidRequest or a BackendError; a failure is never an empty page.
        """
        return await self.provider.search(parse(SearchQuery, {"scope": self.scope, "text": text, **filters}))

    async def challenge(self, topic: str, *, limit: int = 5) -> Challenge:
        """Return what speaks against ``topic``: options rejected, beliefs given up, open questions."""
        return await decisions.challenge(self.provider, self.scope, topic, limit)

    async def get(self, *ids: str, names: Sequence[str] = (), as_of: date | str | None = None) -> Items:
        """Return items by id and entities by name; with ``as_of``, as they were believed then."""
        return await self.provider.get(
            parse(Get, {"scope": self.scope, "ids": ids, "names": names, "as_of": as_of})
        )

    async def scan(self, **filters: Any) -> ScanPage:
        """Return one page of every item that passes the filters (the fields of `Scan`)."""
        return await self.provider.scan(parse(Scan, {"scope": self.scope, **filters}))

    async def graph(self, *names: str, **options: Any) -> GraphPage:
        """Return entities, what is said of them and their relations (``options``: fields of `GraphQuery`)."""
        return await self.provider.graph(parse(GraphQuery, {"scope": self.scope, "names": names, **options}))

    async def history(self, *, name: str | None = None, item_id: str | None = None) -> History:
        """Return all versions of an item, or of everything said about an entity. Raises NotFound."""
        return await self.provider.history(
            parse(HistoryQuery, {"scope": self.scope, "name": name, "id": item_id})
        )

    # --- upkeep ---------------------------------------------------------------------------------

    async def forget(self, **what: Any) -> ForgetReceipt:
        """Erase items for good (the fields of `Forget`). To change your mind, `revise` instead."""
        return await self.provider.forget(parse(Forget, {"scope": self.scope, **what}))

    def export(self) -> AsyncIterator[Commit]:
        """Yield every commit of this space, in order."""
        return self.provider.export(Export(scope=self.scope))

    async def restore(self, commits: Sequence[Commit], vectors: KeptVectors | None = None) -> RestoreReceipt:
        """Add exported commits; those already there are skipped, and so are ``vectors`` of another model."""
        return await self.provider.restore(self.scope, commits, vectors)

    async def kept_vectors(self, texts: Sequence[str]) -> KeptVectors:
        """Return the vectors that are kept of these very texts."""
        return await self.provider.kept_vectors(texts)

    async def maintain(self, **what: bool) -> MaintainReceipt:
        """Do upkeep (the fields of `Maintain`)."""
        return await self.provider.maintain(parse(Maintain, {"scope": self.scope, **what}))

    async def health(self) -> Health:
        """Return how the store is, and how to mend what is not well."""
        return await self.provider.health()
