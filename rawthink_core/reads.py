"""What can be asked of a memory, and the answers. An answer that carries ``degraded`` may be incomplete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field

from rawthink_core.errors import Fault, InvalidRequest
from rawthink_core.frame import MAX_LIMIT, MAX_SCAN, Answer, Scoped
from rawthink_core.model import (
    Entity,
    Hit,
    Item,
    KindWord,
    Observation,
    Passage,
    Relation,
    StatusWord,
    Text,
    When,
)

if TYPE_CHECKING:
    from rawthink_core.model import Rules


class Filters(Scoped):
    """What `search` and `scan` may narrow by. An item without a filtered field does not match.

    Words outside the vocabulary are refused: nothing could ever match them.
    """

    items: tuple[Literal["entity", "observation", "relation", "passage"], ...] = ()
    observation_kinds: tuple[KindWord, ...] = ()
    entity_types: tuple[Text, ...] = ()
    domains: tuple[Text, ...] = ()
    tags: tuple[Text, ...] = ()
    sessions: tuple[Text, ...] = ()
    since: When | None = None
    until: When | None = None
    statuses: tuple[StatusWord, ...] = ("active",)
    as_of: When | None = None
    valid_at: When | None = None

    def canonical(self, rules: Rules) -> Self:
        """Return this request with its times in UTC and its entity types and domains folded."""
        words, faults = rules.vocabulary, list[Fault]()
        changed: dict[str, tuple[str, ...]] = {}
        for field, given, fold, why in (
            ("entity_types", self.entity_types, words.entity_type, words.unknown_entity_type),
            ("domains", self.domains, words.domain, words.unknown_domain),
        ):
            known = {word: fold(word) for word in given}
            faults += [Fault(f"{field}.{n}", why(w)) for n, w in enumerate(given) if known[w] is None]
            if given:
                changed[field] = tuple(word for word in known.values() if word is not None)
        if faults:
            raise InvalidRequest(faults)
        return super().canonical(rules).model_copy(update=changed)


class SearchQuery(Filters):
    """A question in the words of a person. At most ``limit`` answers; a search is not paged.

    ``as_of`` asks what was believed then, ``valid_at`` what held then. ``group="entity"`` groups the
    hits of one entity, and counts entities. ``why`` adds how each hit came to its place.
    """

    text: Text
    limit: int = Field(default=10, ge=1, le=MAX_LIMIT)
    group: Literal["entity"] | None = None
    relevant_only: bool = False  # only hits that share a non-stop term, or pass the floor
    unasked: bool = False  # and words that only ask for something are none: nobody asked the memory
    why: bool = False


class SearchPage(Answer):
    """The best hits first. ``total`` is None where the engine can't count.

    ``degraded`` says what could not be asked (an index that is still building, say): an answer that
    carries it may be incomplete, and an empty one is not "nothing known".
    """

    items: tuple[Hit, ...] = ()
    total: int | None = 0
    truncated: bool = False
    degraded: str | None = None


class Get(Scoped):
    """Items by ``ids``, and entities by ``names``; with ``as_of``, as they were believed then."""

    ids: tuple[Text, ...] = ()
    names: tuple[Text, ...] = ()
    as_of: When | None = None


class Items(Answer):
    """What was found, in the order asked for, and which ids and names are not in this space."""

    items: tuple[Item, ...] = ()
    missing: tuple[str, ...] = ()
    degraded: str | None = None


class Scan(Filters):
    """Every item that passes the filters, page by page (``cursor`` of the page before).

    Oldest first, by ``recorded_at`` and then by id.
    """

    limit: int = Field(default=100, ge=1, le=MAX_SCAN)
    cursor: Text | None = None


class ScanPage(Answer):
    """One page of a scan. ``cursor`` is None on the last page."""

    items: tuple[Item, ...] = ()
    cursor: str | None = None
    degraded: str | None = None


class GraphQuery(Scoped):
    """The neighbourhood of entities: their observations, and relations up to ``depth`` steps away.

    Without ``observations`` none is fetched. With ``listing`` nothing counts as read: for a host that shows
    what a search found.
    """

    ids: tuple[Text, ...] = ()
    names: tuple[Text, ...] = ()
    depth: int = Field(default=1, ge=0, le=5)
    statuses: tuple[StatusWord, ...] = ("active",)
    as_of: When | None = None
    limit: int = Field(default=200, ge=1, le=MAX_SCAN)  # relations at most
    observations: bool = True
    listing: bool = False


class GraphPage(Answer):
    """Entities, their observations, and the relations between them."""

    entities: tuple[Entity, ...] = ()
    observations: tuple[Observation, ...] = ()
    relations: tuple[Relation, ...] = ()
    missing: tuple[str, ...] = ()
    truncated: bool = False
    degraded: str | None = None


class HistoryQuery(Scoped):
    """How one item, or everything said about one entity, came to be what it is."""

    id: Text | None = None
    name: Text | None = None


class History(Answer):
    """All versions, oldest first: fields of the entity, observations and relations, retired ones too."""

    entity: Entity | None = None
    observations: tuple[Observation, ...] = ()
    relations: tuple[Relation, ...] = ()
    passages: tuple[Passage, ...] = ()
    degraded: str | None = None


class BeforeChat(Scoped):
    """Asks for what is relevant before a chat turn. ``text`` is the derived query."""

    text: Text
    limit: int = Field(default=8, ge=1, le=MAX_LIMIT)

    def as_query(self) -> SearchQuery:
        """Return the search that this comes down to."""
        return SearchQuery(
            scope=self.scope,
            text=self.text,
            limit=self.limit,
            items=("observation", "passage"),  # a name alone tells a model nothing
            relevant_only=True,
            unasked=True,
        )


class Recall(Answer):
    """What a chat turn may want to know: hits, never rendered text."""

    items: tuple[Hit, ...] = ()
    degraded: str | None = None
