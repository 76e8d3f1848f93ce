"""What arguments of tools may look like: the JSON Schema that clients read, and the check of what they send.

Both come from one description, so what is listed is what is checked. The schemas keep to what every client
converts without loss: flat types, ``items`` everywhere, no unions, no references, closed objects, an optional
property is one that is not ``required``.

Words of the vocabulary are listed as ``enum`` but checked by the store, which knows synonyms too and reports
them together with what only it can see; `Shape.words` speaks of them where the store will not be asked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rawthink_core.errors import Fault
from rawthink_core.vocabulary import (
    EPISTEMICS,
    OBSERVATION_KINDS,
    VISIBILITIES,
    Vocabulary,
    known_word,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Schema = dict[str, Any]

_LARGE = 10**15
_SHOWN = 40  # characters of an unknown argument's name that an error repeats


class Shape(Protocol):
    """One kind of value."""

    def schema(self, words: Vocabulary) -> Schema:
        """Return the JSON Schema of the value."""
        ...

    def faults(self, value: Any, where: str) -> Iterator[Fault]:
        """Yield what is wrong with the form of a value that was sent."""
        ...

    def words(self, value: Any, where: str, words: Vocabulary) -> Iterator[Fault]:
        """Yield the words in a value that are outside the vocabulary."""
        ...


class _Plain:
    """What shapes without words of the vocabulary share."""

    def words(self, value: Any, where: str, words: Vocabulary) -> Iterator[Fault]:  # noqa: ARG002
        """Yield nothing: there are no words in it."""
        yield from ()


@dataclass(frozen=True)
class Text(_Plain):
    """Any text."""

    about: str = ""

    def schema(self, words: Vocabulary) -> Schema:  # noqa: ARG002 - the same in every vocabulary
        """Return the JSON Schema of the value."""
        return _described({"type": "string"}, self.about)

    def faults(self, value: Any, where: str) -> Iterator[Fault]:
        """Yield what is wrong with the form of a value that was sent."""
        if not isinstance(value, str):
            yield Fault(where, f"must be a text, not {_named(value)}")


@dataclass(frozen=True)
class Whole(_Plain):
    """A whole number. ``7.0`` is one, as in JSON Schema; a text never is."""

    about: str = ""

    def schema(self, words: Vocabulary) -> Schema:  # noqa: ARG002 - the same in every vocabulary
        """Return the JSON Schema of the value."""
        return _described({"type": "integer"}, self.about)

    def faults(self, value: Any, where: str) -> Iterator[Fault]:
        """Yield what is wrong with the form of a value that was sent."""
        if isinstance(value, bool) or not (
            isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        ):
            hint = ": write it without quotes" if isinstance(value, str) else ""
            yield Fault(where, f"must be a whole number, not {_named(value)}{hint}")


@dataclass(frozen=True)
class Flag(_Plain):
    """True or false."""

    about: str = ""

    def schema(self, words: Vocabulary) -> Schema:  # noqa: ARG002 - the same in every vocabulary
        """Return the JSON Schema of the value."""
        return _described({"type": "boolean"}, self.about)

    def faults(self, value: Any, where: str) -> Iterator[Fault]:
        """Yield what is wrong with the form of a value that was sent."""
        if not isinstance(value, bool):
            yield Fault(where, f"must be true or false, not {_named(value)}")


@dataclass(frozen=True)
class Choice(_Plain):
    """One of a few words that the tool itself defines."""

    what: str
    options: tuple[str, ...]
    about: str = ""

    def schema(self, words: Vocabulary) -> Schema:  # noqa: ARG002 - the same in every vocabulary
        """Return the JSON Schema of the value."""
        return _described({"type": "string", "enum": list(self.options)}, self.about)

    def faults(self, value: Any, where: str) -> Iterator[Fault]:
        """Yield what is wrong with the form of a value that was sent."""
        if not isinstance(value, str):
            yield Fault(where, f"must be one of {', '.join(self.options)}, not {_named(value)}")
        elif value not in self.options:
            yield Fault(where, unknown(self.what, value, self.options))


@dataclass(frozen=True)
class Word:
    """A word of the vocabulary, checked by the store, which folds synonyms.

    ``listed`` is false where another tool beside this one lists the same words already.
    """

    options: Callable[[Vocabulary], tuple[str, ...]]
    judge: Callable[[Vocabulary, str], str | None]  # what is wrong with a word, if anything
    listed: bool = True
    about: str = ""

    def schema(self, words: Vocabulary) -> Schema:
        """Return the JSON Schema of the value."""
        listed = {"enum": list(self.options(words))} if self.listed else {}
        return _described({"type": "string", **listed}, self.about)

    def faults(self, value: Any, where: str) -> Iterator[Fault]:
        """Yield what is wrong with the form of a value that was sent."""
        if not isinstance(value, str):
            yield Fault(where, f"must be a text, not {_named(value)}")

    def words(self, value: Any, where: str, words: Vocabulary) -> Iterator[Fault]:
        """Yield the word, if it is outside the vocabulary."""
        if isinstance(value, str) and (problem := self.judge(words, value)) is not None:
            yield Fault(where, problem)


@dataclass(frozen=True)
class Listed:
    """A list of values of one shape."""

    of: Shape
    about: str = ""

    def schema(self, words: Vocabulary) -> Schema:
        """Return the JSON Schema of the value."""
        return _described({"type": "array", "items": self.of.schema(words)}, self.about)

    def faults(self, value: Any, where: str) -> Iterator[Fault]:
        """Yield what is wrong with the form of a value that was sent."""
        if not isinstance(value, list):
            yield Fault(where, f"must be a list, not {_named(value)}: put it in [ ]")
            return
        for index, item in enumerate(value):
            yield from self.of.faults(item, f"{where}.{index}")

    def words(self, value: Any, where: str, words: Vocabulary) -> Iterator[Fault]:
        """Yield the words in a value that are outside the vocabulary."""
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from self.of.words(item, f"{where}.{index}", words)


@dataclass(frozen=True)
class Thing:
    """A closed object. A property that is null counts as left out: strict clients fill optional ones so."""

    properties: Mapping[str, Shape] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    about: str = ""

    def schema(self, words: Vocabulary) -> Schema:
        """Return the JSON Schema of the value."""
        made: Schema = {
            "type": "object",
            "properties": {name: shape.schema(words) for name, shape in self.properties.items()},
        }
        if self.required:
            made["required"] = list(self.required)
        made["additionalProperties"] = False
        return _described(made, self.about)

    def faults(self, value: Any, where: str) -> Iterator[Fault]:
        """Yield what is wrong with the form of a value that was sent."""
        if not isinstance(value, dict):
            yield Fault(where, f"must be an object with {', '.join(self.properties)}, not {_named(value)}")
            return
        for name in value:
            if name not in self.properties and value[name] is not None:
                yield Fault(_at(where, _cut(name)), unknown("argument", name, tuple(self.properties)))
        for name, shape in self.properties.items():
            if value.get(name) is not None:
                yield from shape.faults(value[name], _at(where, name))
            elif name in self.required:
                yield Fault(_at(where, name), "is required")

    def words(self, value: Any, where: str, words: Vocabulary) -> Iterator[Fault]:
        """Yield the words in a value that are outside the vocabulary."""
        for name, shape in self.properties.items() if isinstance(value, dict) else ():
            if value.get(name) is not None:
                yield from shape.words(value[name], _at(where, name), words)


def taken(value: Any) -> Any:
    """Return a value that was sent and found right, as tools take it: without nulls, numbers whole."""
    if isinstance(value, dict):
        return {name: taken(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [taken(item) for item in value]
    return int(value) if isinstance(value, float) else value


# --- words of the vocabulary --------------------------------------------------------------------


def entity_type(about: str = "", *, listed: bool = True) -> Word:
    """Return the shape of an entity type."""
    return Word(
        lambda words: words.entity_types,
        lambda words, word: None if words.entity_type(word) else words.unknown_entity_type(word),
        listed,
        about,
    )


def domain(about: str = "", *, listed: bool = True) -> Word:
    """Return the shape of a domain."""
    return Word(
        lambda words: words.domains,
        lambda words, word: None if words.domain(word) else words.unknown_domain(word),
        listed,
        about,
    )


def relation_type(about: str = "", *, listed: bool = True) -> Word:
    """Return the shape of a relation type."""
    return Word(
        lambda words: words.relations,
        lambda words, word: None if words.relation(word) else words.unknown_relation(word),
        listed,
        about,
    )


def _closed(what: str, options: tuple[str, ...], about: str, *, listed: bool) -> Word:
    return Word(
        lambda _: options,
        lambda _, word: None if known_word(word, options) else unknown(what, word, options),
        listed,
        about,
    )


def epistemic(about: str = "", *, listed: bool = True) -> Word:
    """Return the shape of an epistemic status."""
    return _closed("epistemic status", EPISTEMICS, about, listed=listed)


def visibility(about: str = "", *, listed: bool = True) -> Word:
    """Return the shape of a visibility."""
    return _closed("visibility", VISIBILITIES, about, listed=listed)


def kind(about: str = "", *, listed: bool = True) -> Word:
    """Return the shape of a kind of observation."""
    return _closed("observation kind", OBSERVATION_KINDS, about, listed=listed)


# --- telling ------------------------------------------------------------------------------------


def _described(schema: Schema, about: str) -> Schema:
    return schema | {"description": about} if about else schema


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _cut(name: str) -> str:
    return name.encode("utf-8", "replace").decode()[:_SHOWN]


def _named(value: Any) -> str:
    """Return what a wrong value is; its content is not repeated."""
    match value:
        case None | bool() | float():
            return json.dumps(value)
        case int():
            return str(value) if abs(value) < _LARGE else "a number"
        case str():
            return "a text"
        case list():
            return "a list"
    return "an object"
