"""The block of fields at the head of a note: YAML between two lines of ``---``, read and written.

Values are kept as they stand in the file: ``2026-01-05`` stays that text, ``007`` is no number, ``yes`` no
truth. What is no such block counts as text; where it seems to be meant as one, it is said why it is none.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from rawthink_core.model import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

_OPENS = re.compile(r"---[ \t]*\r?\n")
_CLOSES = re.compile(r"^---[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
_A_FIELD = re.compile(r"[\w-]+:(?:[ \t\r]|$)", re.MULTILINE)
LONGEST = 1 << 16  # characters: no block of fields is longer, and a rule at the head of a book is no block
_NOTHING = ("", "~", "null")
_DAY = 10  # characters of 2026-01-05

# What YAML can't hold as it stands, or would take for the end of a line, though JSON writes it so.
_ESCAPED = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff\U0001fffe-\U0001ffff]")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The fields at the head of a text, where the text after them begins, and what is wrong with them."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    end: int = 0
    problem: str | None = None

    def text(self, name: str) -> str | None:
        """Return the value of a field on one line, None where it has none or is a list."""
        value = self.fields.get(name)
        said = " ".join(value.split()) if isinstance(value, str) else ""
        return None if said in _NOTHING else said

    def words(self, name: str) -> tuple[str, ...]:
        """Return the values of a field that is a list, or a text with commas or spaces; each of them once."""
        value = self.fields.get(name)
        if isinstance(value, str):
            value = value.split("," if "," in value else None)
        given = value if isinstance(value, list) else []
        said = (" ".join(word.split()).removeprefix("#") for word in given if isinstance(word, str))
        return tuple(dict.fromkeys(word for word in said if word not in _NOTHING))

    def time(self, name: str) -> date | None:
        """Return the time or the day that a field names, None where it names none."""
        said = self.text(name) or ""
        for form in (said, said[:_DAY]):
            with contextlib.suppress(ValueError):
                return parse_time(form)
        return None


def read(text: str) -> FrontMatter:
    """Return the front matter of a text, which has no byte order mark."""
    opens = _OPENS.match(text)
    if opens is None:
        return FrontMatter()
    closes = _CLOSES.search(text, opens.end())
    if closes is None or closes.start() > LONGEST:
        meant = _A_FIELD.match(text, opens.end())
        return FrontMatter(problem="the front matter has no closing line ---" if meant else None)
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415 - not every text has front matter

    twice: list[str] = []
    try:
        data = _parse(text[opens.end() : closes.start()], twice)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return FrontMatter(problem=f"the front matter is not YAML ({_where(error)}), so it counts as text")
    if data is None:
        data = {}
    if not isinstance(data, dict):  # a text between two rules
        return FrontMatter()
    fields = {str(name).strip().lower(): value for name, value in data.items()}
    named = ", ".join(dict.fromkeys(twice))
    problem = f"the front matter names {named} more than once; the last counts" if twice else None
    return FrontMatter(fields, closes.end(), problem)


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or type(error).__name__
    return f"line {mark.line + 2}: {problem}" if mark is not None else str(problem)


def _parse(block: str, twice: list[str]) -> Any:
    loader = _loader()(block)
    loader.twice = twice
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


@cache
def _loader() -> Any:
    """Return a loader that makes texts, lists and mappings only, and notes names that stand there twice."""
    import yaml  # noqa: PLC0415 - not every text has front matter

    base: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

    class Loader(base):  # type: ignore[misc] # one of two, by how PyYAML was built
        twice: list[str]

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            self.twice += [name for name in set(names) if names.count(name) > 1]
            return super().construct_mapping(node, deep=deep)

    return Loader


def write(fields: Mapping[str, str | Sequence[str]]) -> str:
    """Return front matter as rawthink-mcp writes it: texts in double quotes, lists in brackets.

    A value that begins like a day stands without quotes.
    """
    lines = []
    for name, value in fields.items():
        if isinstance(value, str):
            said = value if re.fullmatch(r"\d{4}-\d\d-\d\d", value) else quoted(value)
        else:
            said = "[" + ", ".join(map(quoted, value)) + "]"
        lines.append(f"{name}: {said}\n")
    return "---\n" + "".join(lines) + "---\n"


def quoted(text: str) -> str:
    """Return a text in double quotes, as YAML and JSON both read it where that can be."""
    return _ESCAPED.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - four digits, or eight
