"""Conditions as the engine reads them. Every value goes through a function of this module, none is pasted.

Names of columns are our own. Texts are quoted as SQL quotes them; the engine knows no other escape, so a
backslash, a line break or a semicolon in a text is only itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def text(value: str) -> str:
    """Return a text as a literal."""
    return "'" + value.replace("'", "''") + "'"


def number(value: int) -> str:
    """Return a whole number as a literal. Raises TypeError where it is none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no whole number")
    return str(value)


def literal(value: str | int) -> str:
    """Return a text or a whole number as a literal."""
    return text(value) if isinstance(value, str) else number(value)


def equals(column: str, value: str | int) -> str:
    """Return the condition that a column is a value."""
    return f"{column} = {literal(value)}"


def one_of(column: str, values: Iterable[str | int]) -> str:
    """Return the condition that a column is one of some values; of none, nothing passes."""
    listed = ", ".join(map(literal, values))
    return f"{column} IN ({listed})" if listed else "false"


def any_in_list(column: str, values: Iterable[str]) -> str:
    """Return the condition that a column of lists holds one of some values."""
    listed = ", ".join(map(text, values))
    return f"array_has_any({column}, [{listed}])" if listed else "false"


def at_least(column: str, value: int) -> str:
    """Return the condition that a column is a number or higher."""
    return f"{column} >= {number(value)}"


def below(column: str, value: int) -> str:
    """Return the condition that a column is lower than a number."""
    return f"{column} < {number(value)}"


def or_missing(column: str, condition: str) -> str:
    """Return the condition that something holds of a column, or that it has no value."""
    return f"({column} IS NULL OR {condition})"


def between(column: str, first: int, last: int) -> str:
    """Return the condition that a column lies within two numbers, both included."""
    return f"({column} BETWEEN {number(first)} AND {number(last)})"


def all_of(conditions: Iterable[str]) -> str:
    """Return the condition that all of some hold; of none, an empty text."""
    return " AND ".join(conditions)


def some_of(conditions: Iterable[str]) -> str:
    """Return the condition that one of some holds; of none, nothing passes."""
    return f"({joined})" if (joined := " OR ".join(conditions)) else "false"
