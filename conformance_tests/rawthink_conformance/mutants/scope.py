"""Mutants that mix up spaces and ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_conformance.brute import Everything
from rawthink_conformance.mutants.zoo import breaks, remade
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.errors import InvalidRequest
from rawthink_core.graph import prepare
from rawthink_core.identity import looks_like_id
from rawthink_core.operations import Scope

if TYPE_CHECKING:
    from datetime import datetime

    from rawthink_core.commits import Commit
    from rawthink_core.graph import Facts, Needs, Work
    from rawthink_core.operations import (
        Batch,
        Forget,
        ForgetReceipt,
        Get,
        Items,
        Scan,
        ScanPage,
        SearchPage,
        SearchQuery,
    )
    from rawthink_core.rows import Row, State

_SALT = ", salted"


class AllSpaces(ReferenceProvider):
    """Base: can look into every space at once."""

    def everywhere(self, as_of: str | None = None) -> dict[str, State]:
        """Return the states of all spaces."""
        found: dict[str, State] = {}
        for space in {commit.space for commit in self._shelf.commits}:
            found |= self._states(space, as_of)
        return found


@breaks("scope.exact", "scope.scan")
class PrefixSpaces(ReferenceProvider):
    """Reads every space whose name begins with the one asked for."""

    def _states(self, space: str, as_of: str | None = None) -> dict[str, State]:
        found: dict[str, State] = {}
        for other in {commit.space for commit in self._shelf.commits if commit.space.startswith(space)}:
            found |= super()._states(other, as_of)
        return found


@breaks("scope.exact")
class FoldedSpaces(ReferenceProvider):
    """Searches in the space of this name in lower case, trimmed."""

    def _record(self, batch: Batch) -> Any:
        space = batch.scope.space.strip().casefold()
        return super()._record(remade(batch, scope=Scope(space=space)))

    def _search(self, query: SearchQuery) -> SearchPage:
        return super()._search(remade(query, scope=Scope(space=query.scope.space.strip().casefold())))


@breaks("scope.exact")
class JoinedSpaces(ReferenceProvider):
    """Takes a space with a slash for a space and something else."""

    def _states(self, space: str, as_of: str | None = None) -> dict[str, State]:
        found: dict[str, State] = {}
        for other in {commit.space for commit in self._shelf.commits}:
            if other.split("/")[0] == space.split("/", maxsplit=1)[0]:
                found |= super()._states(other, as_of)
        return found


@breaks("scope.scan")
class NormalisedScans(AllSpaces):
    """Scans spaces that differ in case as one."""

    def _scan(self, request: Scan) -> ScanPage:
        wanted = request.scope.space.casefold()
        pages = [
            super(NormalisedScans, self)._scan(remade(request, scope=Scope(space=space)))
            for space in sorted({c.space for c in self._shelf.commits})
            if space.casefold() == wanted
        ]
        return (
            remade(pages[0], items=tuple(item for page in pages for item in page.items))
            if pages
            else super()._scan(request)
        )


@breaks("scope.entities")
class GlobalNames(AllSpaces):
    """Keeps one list of names for all spaces."""

    def _facts(self, wanted: Needs, states: Any) -> Facts:
        entities = {i: s for i, s in self.everywhere().items() if s.kind == "entity"}
        return super()._facts(wanted, {**states, **entities})


@breaks("scope.ids")
class GlobalIds(AllSpaces):
    """Looks ids up in all spaces."""

    def _get(self, request: Get) -> Items:
        found, states = super()._get(request), self.everywhere()
        extra = self._nouns((states[i] for i in found.missing if i in states), states)
        return remade(found, items=(*found.items, *extra))


@breaks("scope.ids")
class RevisesElsewhere(AllSpaces):
    """Finds what is to be revised in all spaces."""

    def _facts(self, wanted: Needs, states: Any) -> Facts:
        return super()._facts(wanted, {**states, **self.everywhere()} if wanted.ids else states)


@breaks("scope.forget_ids")
class ForgetsElsewhere(AllSpaces):
    """Forgets an id in whichever space it is."""

    def _forget(self, request: Forget) -> ForgetReceipt:
        receipt = super()._forget(request)
        with self._shelf.lock:
            states = self.everywhere()
            chosen = {i: states[i] for i in request.ids if i in states and not states[i].forgotten}
            for space in {commit.space for commit in self._shelf.commits}:
                self._erase(space, chosen)
        return remade(receipt, ids=(*receipt.ids, *chosen))


@breaks("scope.statistics")
class SharedStatistics(AllSpaces):
    """Counts how often a term occurs in all spaces together."""

    def _retrieval(self, space: str) -> Everything:
        return _SharedTerms(lambda as_of: self._standing(space, as_of), self._shelf.used, {}, self)


class _SharedTerms(Everything):
    def __init__(self, standing: Any, used: Any, vectors: Any, owner: AllSpaces) -> None:
        super().__init__(standing, used, vectors)
        self._owner = owner

    def documents(self) -> dict[str, dict[int, float]]:
        owner = self._owner
        others = Everything(
            lambda as_of: {i: s for i, s in owner.everywhere(as_of).items() if not s.forgotten}, {}, {}
        )
        return super().documents() | Everything.documents(others)


@breaks("scope.batches")
class GlobalBatchIds(ReferenceProvider):
    """Keeps one list of batch ids for all spaces."""

    def _committed(self, batch: Batch) -> Commit | None:
        return next((commit for commit in self._shelf.commits if commit.id == batch.id), None)


@breaks("scope.sessions")
class GlobalSessions(AllSpaces):
    """Keeps one list of sessions for all spaces."""

    def _facts(self, wanted: Needs, states: Any) -> Facts:
        passages = {i: s for i, s in self.everywhere().items() if s.kind == "passage"}
        return super()._facts(wanted, {**states, **passages})


@breaks("scope.forget_everything")
class ForgetsOnePage(ReferenceProvider):
    """Forgets everything, as far as the first page of a hundred goes."""

    def _to_forget(self, request: Forget, states: dict[str, State]) -> tuple[set[str], tuple[str, ...]]:
        chosen, missing = super()._to_forget(request, states)
        return set(sorted(chosen)[:100]), missing


@breaks("scope.forget_everything")
class WipesEveryone(ReferenceProvider):
    """Forgets everything of everyone."""

    def _forget(self, request: Forget) -> ForgetReceipt:
        receipt = super()._forget(request)
        if request.everything:
            for space in {commit.space for commit in self._shelf.commits} - {request.scope.space}:
                super()._forget(remade(request, scope=Scope(space=space)))
        return receipt


@breaks("ids.same_everywhere")
class SaltedIds(ReferenceProvider):
    """Mints ids of its own."""

    def _plan(self, work: Work, at: datetime) -> tuple[Row, ...]:
        salted = remade(work.batch, scope=Scope(space=f"{work.space}{_SALT}"))
        return super()._plan(prepare(salted, self._rules), at)

    def _states(self, space: str, as_of: str | None = None) -> dict[str, State]:
        return super()._states(space.removesuffix(_SALT), as_of)


@breaks("ids.opaque")
class UuidsOnly(ReferenceProvider):
    """Takes an error for the right answer to an id that is no UUID."""

    def _get(self, request: Get) -> Items:
        if strange := [item for item in request.ids if not looks_like_id(item)]:
            raise InvalidRequest(f"{strange[0]!r} is no UUID")
        return super()._get(request)


@breaks("ids.opaque")
class CaseSensitiveIds(ReferenceProvider):
    """Compares ids letter by letter."""

    def _get(self, request: Get) -> Items:
        known = tuple(item for item in request.ids if item == item.lower())
        return super()._get(remade(request, ids=known))
