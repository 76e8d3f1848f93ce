"""Mutants that get names, words, relations and what is not stated wrong."""

from __future__ import annotations

from asyncio import to_thread
from typing import TYPE_CHECKING

from rawthink_conformance.brute import facts
from rawthink_conformance.mutants.zoo import ChangesBatches, ChangesRows, breaks, remade
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.errors import Fault, InvalidRequest
from rawthink_core.graph import Rules
from rawthink_core.model import Entity
from rawthink_core.operations import Change, EntityFields, NewEntity, Target
from rawthink_core.text import identity_key
from rawthink_core.vocabulary import DEFAULT_VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rawthink_core.graph import Facts, Needs
    from rawthink_core.model import Item
    from rawthink_core.operations import Batch, RecordReceipt, SearchPage, SearchQuery
    from rawthink_core.rows import Row, State


class FindsNames(ReferenceProvider):
    """Base: decides by itself which names an entity answers to when it is read."""

    def answers(self, state: State, name: str) -> bool:
        """Tell whether an entity answers to a name."""
        raise NotImplementedError

    def _named(self, space: str, name: str) -> State | None:
        entities = (state for state in self._standing(space).values() if state.kind == "entity")
        return next((state for state in entities if self.answers(state, name)), None)


@breaks("entity.keys")
class AsciiNames(FindsNames):
    """Compares names in the lower case of ASCII."""

    def answers(self, state: State, name: str) -> bool:
        """Fold A to Z only."""
        fold = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
        return name.strip().translate(fold) in {known.translate(fold) for known in state.names()}


@breaks("entity.keys")
class CaseSensitiveNames(FindsNames):
    """Compares names letter by letter."""

    def answers(self, state: State, name: str) -> bool:
        """Compare exactly."""
        return name in state.names()


@breaks("entity.keys")
class KeepsTheLastSpelling(ChangesBatches):
    """Writes a name anew whenever it is spelled otherwise."""

    def changed(self, batch: Batch) -> Batch:
        """Revise the name to the spelling in the batch."""
        space = batch.scope.space
        changes = [
            Change(targets=(Target(id=known.id),), fields=EntityFields(name=entity.name))
            for entity in batch.entities
            if (known := self._named(space, entity.name)) is not None and entity.name != known.value("name")
        ]
        return remade(batch, revisions=(*batch.revisions, *changes))


@breaks("entity.renamed")
class AnswersToTheNewNameOnly(FindsNames):
    """Forgets former names."""

    def answers(self, state: State, name: str) -> bool:
        """Know the present names only."""
        return identity_key(name) in map(identity_key, [state.value("name"), *state.value("aliases")])


@breaks("entity.aliases")
class IgnoresAliases(FindsNames):
    """Answers to names, not to aliases."""

    def answers(self, state: State, name: str) -> bool:
        """Know no aliases."""
        return identity_key(name) == identity_key(state.value("name"))


@breaks("entity.old_names")
class FormerNamesAreFree(ReferenceProvider):
    """Lets other entities take the former names of one."""

    def _facts(self, wanted: Needs, states: Mapping[str, State]) -> Facts:
        found = facts(wanted, states)
        for state in found.states:
            if state.kind == "entity":
                state.row = state.row | {"name": state.value("name"), "aliases": state.value("aliases")}
                state.versions = [v for v in state.versions if v.field not in ("name", "aliases")]
        return found


@breaks("entity.kept")
class Upserts(ChangesBatches):
    """Overwrites the fields of an entity that is recorded again."""

    def changed(self, batch: Batch) -> Batch:
        """Turn what differs into a revision."""
        revisions, entities = list(batch.revisions), list[NewEntity]()
        for entity in batch.entities:
            known = self._named(batch.scope.space, entity.name)
            stated = {
                name: getattr(entity, name) for name in ("entity_type", "domain", "epistemic", "visibility")
            }
            stated = {
                n: v for n, v in stated.items() if known is not None and v not in (None, known.value(n))
            }
            if stated:
                target = (Target(entity=entity.name),)
                revisions.append(Change(targets=target, fields=EntityFields(**stated)))
            entities.append(remade(entity, **dict.fromkeys(stated)))
        return remade(batch, entities=tuple(entities), revisions=tuple(revisions))


@breaks("entity.filling")
class NeverFills(ChangesBatches):
    """Leaves unknown what was unknown at first."""

    def changed(self, batch: Batch) -> Batch:
        """Drop what an entity that exists could learn."""
        known = [self._named(batch.scope.space, entity.name) is not None for entity in batch.entities]
        plain = (
            remade(entity, epistemic=None) if old else entity
            for entity, old in zip(batch.entities, known, strict=True)
        )
        return remade(batch, entities=tuple(plain))


@breaks("entity.versions")
class OverwritesFields(ReferenceProvider):
    """Keeps only the present value of a field."""

    def _nouns(self, states: Iterable[State], known: Mapping[str, State]) -> list[Item]:
        items = super()._nouns(states, known)
        return [remade(item, versions=()) if isinstance(item, Entity) else item for item in items]


@breaks("entity.complete")
class CompletesEntities(ChangesBatches):
    """Guesses the type and domain of a new entity."""

    def changed(self, batch: Batch) -> Batch:
        """Fill in what is missing."""
        space = batch.scope.space
        full = (
            entity
            if self._named(space, entity.name)
            else remade(entity, entity_type=entity.entity_type or "thing", domain=entity.domain or "personal")
            for entity in batch.entities
        )
        return remade(batch, entities=tuple(full))


# --- words --------------------------------------------------------------------------------------


@breaks("vocabulary.closed")
class OpenVocabulary(ChangesBatches):
    """Takes an unknown type for a thing."""

    def changed(self, batch: Batch) -> Batch:
        """Map unknown types."""
        words = self._rules.vocabulary
        known = (
            entity
            if entity.entity_type is None or words.entity_type(entity.entity_type)
            else remade(entity, entity_type="thing")
            for entity in batch.entities
        )
        return remade(batch, entities=tuple(known))


@breaks("vocabulary.closed")
class SuggestsNothing(ReferenceProvider):
    """Refuses unknown words without a suggestion."""

    def _record(self, batch: Batch) -> RecordReceipt:
        try:
            return super()._record(batch)
        except InvalidRequest as error:
            faults = [Fault(fault.where, fault.problem.split(" Did you mean")[0]) for fault in error.faults]
            raise InvalidRequest(faults) from None


@breaks("vocabulary.filters")
class UnknownIsNothing(ReferenceProvider):
    """Finds nothing of a type or domain that there is not."""

    async def search(self, query: SearchQuery) -> SearchPage:
        """Look at the times only."""
        return await to_thread(self._search, query.in_zone(self._zone))


@breaks("vocabulary.synonyms")
class ArrowsNotTurned(ChangesBatches):
    """Folds synonyms, and leaves the arrow as it is."""

    def changed(self, batch: Batch) -> Batch:
        """Replace the words only."""
        words = self._rules.vocabulary
        folded = (
            remade(link, type=known.type) if (known := words.relation(link.type)) else link
            for link in batch.relations
        )
        return remade(batch, relations=tuple(folded))


@breaks("vocabulary.extended")
class FactoryVocabulary(ReferenceProvider):
    """Knows the words that it was shipped with."""

    def _settle(self, zone: str) -> None:
        super()._settle(zone)
        self._rules = Rules(DEFAULT_VOCABULARY, self._zone)


@breaks("relation.ends")
class CreatesGhosts(ChangesBatches):
    """Creates an entity for each end that is missing."""

    def changed(self, batch: Batch) -> Batch:
        """Add what is missing."""
        ends = {end for link in batch.relations for end in (link.source, link.target)}
        known = {identity_key(entity.name) for entity in batch.entities}
        missing = [
            NewEntity(name=end, entity_type="thing", domain="personal")
            for end in sorted(ends)
            if identity_key(end) not in known
            and self._named(batch.scope.space, end) is None
            and end not in self._standing(batch.scope.space)
        ]
        return remade(batch, entities=(*batch.entities, *missing))


@breaks("relation.sense")
class AllowsReversal(ReferenceProvider):
    """Lets two things supersede each other."""

    def _facts(self, wanted: Needs, states: Mapping[str, State]) -> Facts:
        found = facts(wanted, states)
        kept = [
            s
            for s in found.states
            if s.kind != "relation" or s.row["type"] != "supersedes" or s.id in wanted.ids
        ]
        return type(found)(wanted, kept, found.ordinals)


@breaks("defaults.unknown")
class Assertive(ChangesBatches):
    """Takes what nobody graded for an assertion."""

    def changed(self, batch: Batch) -> Batch:
        """Raise the epistemic status."""
        raised = (remade(entity, epistemic=entity.epistemic or "assertion") for entity in batch.entities)
        return remade(batch, entities=tuple(raised))


@breaks("defaults.unknown")
class Outspoken(ChangesRows):
    """Takes what nobody marked for shareable."""

    def changed(self, row: Row) -> Row:
        """Publish passages."""
        return {**row, "visibility": "shareable"} if row["op"] == "passage" else row
