"""The closed vocabulary: entity types, domains, relation types, and the synonyms that fold into them.

There is one `Vocabulary` object; validation, tool schemas, migration and the documentation are all
generated from it. A user adds a type, domain or relation with one line of configuration
(`Vocabulary.extended`). An unknown word is refused with the list of what is allowed and the nearest
match, never accepted with a warning: warnings are read by nobody, and the list grows by one a day.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from rawthink_core.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

Epistemic = Literal["assertion", "hypothesis", "speculation", "unknown"]
Visibility = Literal["private", "shareable"]
ObservationKind = Literal["note", "decided", "because", "rejected", "touches"]
Status = Literal["active", "ended", "invalidated"]
Cause = Literal["corrected", "changed"]

EPISTEMICS: tuple[str, ...] = get_args(Epistemic)
VISIBILITIES: tuple[str, ...] = get_args(Visibility)
OBSERVATION_KINDS: tuple[str, ...] = get_args(ObservationKind)
STATUSES: tuple[str, ...] = get_args(Status)
CAUSES: tuple[str, ...] = get_args(Cause)

_ENTITY_TYPES = (
    "decision", "concept", "finding", "rule", "open-question",
    "artifact", "insight", "task", "event", "thing",
)  # fmt: skip
_DOMAINS = (
    "software", "music", "history", "philosophy", "health",
    "writing", "neuro", "finance", "personal", "galaxy",
)  # fmt: skip
_RELATIONS = (
    "supports", "contradicts", "evolved_into", "depends_on", "exemplifies", "part_of", "caused_by",
    "enables", "supersedes", "related_to", "investigates", "informs", "uses",
)  # fmt: skip


class Folded(NamedTuple):
    """What a relation synonym means: the canonical type, and whether the arrow turns round."""

    type: str
    turned: bool = False


_RELATION_ALIASES = {
    "connected_to": Folded("related_to"),
    "aspect_of": Folded("part_of"),
    "part": Folded("part_of"),
    "demonstrates": Folded("exemplifies"),
    "instance_of": Folded("exemplifies"),
    "requires": Folded("depends_on"),
    "constrained_by": Folded("depends_on"),
    "solves": Folded("enables"),
    "validates": Folded("supports"),
    "supported_by": Folded("supports", turned=True),
    "validated_by": Folded("supports", turned=True),
    "informed_by": Folded("informs", turned=True),
    "used_by": Folded("uses", turned=True),
    "solved_by": Folded("enables", turned=True),
    "extends": Folded("evolved_into", turned=True),
    # Turkish, as the first users write them
    "parcasi": Folded("part_of"),
    "icerir": Folded("part_of", turned=True),
    "arastirir": Folded("investigates"),
    "bilgilendirir": Folded("informs"),
    "etkiler": Folded("related_to"),
}

# What files of other memory servers call their types. Read when such a file is adopted or imported;
# never accepted in a new record, where the caller can be asked.
_LEGACY_TYPES = {
    "karar": "decision", "teknik-karar": "decision", "proposal": "decision",
    "kavram": "concept", "pattern": "concept", "entitytype": "concept", "estandar": "rule",
    "bulgu": "finding", "bug": "finding", "bug-pattern": "finding", "saglik-bulgusu": "finding",
    "kural": "rule", "requirement": "rule", "convention": "rule", "convencion": "rule",
    "principle": "rule", "principio": "rule", "practice": "rule", "practica": "rule",
    "soru": "open-question", "question": "open-question", "risk": "open-question",
    "project": "artifact", "proje": "artifact", "proyecto": "artifact", "feature": "artifact",
    "file": "artifact", "module": "artifact", "tool": "artifact", "library": "artifact",
    "service": "artifact", "technology": "artifact", "dependency": "artifact", "document": "artifact",
    "reference": "artifact", "tracker": "artifact", "workflow": "artifact", "arquitectura": "artifact",
    "thought": "insight", "icgoru": "insight",
    "gorev": "task", "todo": "task",
    "olay": "event", "session": "event", "milestone": "event", "conversationsummary": "event",
    "kisi": "thing", "person": "thing", "persona": "thing",
}  # fmt: skip


def _slug(word: str) -> str:
    return word.strip().casefold().replace(" ", "_").replace("-", "_")


@dataclass(frozen=True)
class Vocabulary:
    """The words that records may use. Immutable; `extended` returns a larger one."""

    entity_types: tuple[str, ...] = _ENTITY_TYPES
    domains: tuple[str, ...] = _DOMAINS
    relations: tuple[str, ...] = _RELATIONS
    relation_aliases: Mapping[str, Folded] = field(
        default_factory=lambda: MappingProxyType(_RELATION_ALIASES)
    )
    legacy_types: Mapping[str, str] = field(default_factory=lambda: MappingProxyType(_LEGACY_TYPES))

    def extended(
        self,
        *,
        entity_types: Iterable[str] = (),
        domains: Iterable[str] = (),
        relations: Iterable[str] = (),
        relation_aliases: Mapping[str, str] | None = None,
    ) -> Vocabulary:
        """Return a vocabulary that also holds these words.

        ``relation_aliases`` maps a synonym to a type; ``"<uses"`` (a leading ``<``) turns the arrow round.
        Raises ValueError when a word is blank, or an alias is itself a type, or points at none.
        """
        types = _joined(self.relations, relations)
        aliases = dict(self.relation_aliases)
        for alias, target in (relation_aliases or {}).items():
            folded = Folded(target.removeprefix("<").strip(), turned=target.startswith("<"))
            if folded.type not in types:
                raise ValueError(f"relation alias {alias!r}: {unknown('relation type', folded.type, types)}")
            if not _slug(alias) or known_word(alias, types) is not None:
                raise ValueError(
                    f"relation alias {alias!r}: is blank or a relation type itself, so it can't be folded"
                )
            aliases[_slug(alias)] = folded
        return replace(
            self,
            entity_types=_joined(self.entity_types, entity_types),
            domains=_joined(self.domains, domains),
            relations=types,
            relation_aliases=MappingProxyType(aliases),
        )

    def entity_type(self, word: str) -> str | None:
        """Return the canonical entity type, or None when there is no such type."""
        return known_word(word, self.entity_types)

    def domain(self, word: str) -> str | None:
        """Return the canonical domain, or None when there is no such domain."""
        return known_word(word, self.domains)

    def relation(self, word: str) -> Folded | None:
        """Return the canonical relation type and whether the arrow turns, or None when there is none."""
        if (canonical := known_word(word, self.relations)) is not None:
            return Folded(canonical)
        return self.relation_aliases.get(_slug(word))

    def unknown_entity_type(self, word: str) -> str:
        """Say what is wrong with an entity type, what is allowed, and what was probably meant."""
        hint = unknown("entity type", word, self.entity_types)
        if self.domain(word) is not None:
            return f"{hint}. {quoted(word)} is a domain: what a thing is about goes into `domain`"
        if (meant := self.legacy_types.get(_slug(word).replace("_", "-"))) is not None:
            return f"{hint}. Elsewhere {quoted(word)} is called {meant!r} here"
        return hint

    def unknown_domain(self, word: str) -> str:
        """Say what is wrong with a domain, and how to add one."""
        hint = unknown("domain", word, self.domains)
        return f"{hint}. Add one with `domains = [...]` under [vocabulary] in rawthink.toml"

    def unknown_relation(self, word: str) -> str:
        """Say what is wrong with a relation type."""
        words = (*self.relations, *self.relation_aliases)
        hint = unknown("relation type", word, self.relations, also=words)
        return f"{hint}. Put the exact wording into an observation and use the closest type here"

    def adopted_entity_type(self, word: str | None) -> tuple[str, str | None]:
        """Return the type of an adopted entity and its original type where they differ.

        Types of other servers fold by the legacy map; what it does not know reads as ``thing``.
        """
        if not word or not word.strip():
            return "thing", None
        if (known := self.entity_type(word)) is not None:
            return known, None if known == word else word
        return self.legacy_types.get(_slug(word).replace("_", "-"), "thing"), word

    def adopted_relation(self, word: str | None) -> tuple[Folded, str | None]:
        """Return the type of an adopted relation and its original type where they differ."""
        if not word or not word.strip():
            return Folded("related_to"), None
        folded = self.relation(word) or Folded("related_to")
        return folded, None if folded == Folded(word) else word


def _joined(known: tuple[str, ...], added: Iterable[str]) -> tuple[str, ...]:
    """Return a closed list with words added, each once."""
    words = list(known)
    for word in added:
        if not _slug(word):
            raise ValueError("a word of the vocabulary can't be blank")
        if known_word(word, words) is None:
            words.append(word)
    return tuple(words)


def known_word(word: str, allowed: Collection[str]) -> str | None:
    """Match a word of a closed list exactly, else by its slug: `Open Question` is `open-question`."""
    if word in allowed:
        return word
    slug = _slug(word)
    return next((known for known in allowed if _slug(known) == slug), None)


def unknown(what: str, word: str, allowed: Collection[str], also: Collection[str] = ()) -> str:
    """Return a sentence for a word outside a closed list: what is allowed, and the nearest to it."""
    import difflib  # noqa: PLC0415 - only an error needs it

    near = difflib.get_close_matches(word.strip()[:60].casefold(), [*allowed, *also], n=1, cutoff=0.6)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    return f"unknown {what} {quoted(word)}.{meant} Allowed: {', '.join(allowed)}"


DEFAULT_VOCABULARY = Vocabulary()
