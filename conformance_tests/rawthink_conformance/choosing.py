"""Which requirements to check: an expression over their ids, as pytest's ``-k``.

A word stands for every id that holds it, in any case; ``not``, ``and``, ``or`` and brackets join words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rawthink_conformance.requirements import REQUIREMENTS, Requirement
from rawthink_core.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    Judge = Callable[[str], bool]

_TOKEN = re.compile(r"\s*(\(|\)|[^\s()]+)")


def choose(expression: str) -> list[Requirement]:
    """Return the requirements that an expression chooses; all where it is empty.

    Raises InvalidRequest where it is no expression, or chooses nothing.
    """
    if not expression.strip():
        return list(REQUIREMENTS.values())
    judge = _Parser(expression).whole()
    chosen = [requirement for requirement in REQUIREMENTS.values() if judge(requirement.id.lower())]
    if not chosen:
        topics = ", ".join(sorted({requirement.partition(".")[0] for requirement in REQUIREMENTS}))
        raise InvalidRequest(f"{expression!r} chooses no requirement. Topics: {topics}")
    return chosen


class _Parser:
    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = [*_TOKEN.findall(expression), ""]

    def whole(self) -> Judge:
        judge = self._either()
        if self._tokens[0]:
            self._refuse()
        return judge

    def _either(self) -> Judge:
        judges = [self._both()]
        while self._take("or"):
            judges.append(self._both())
        return lambda name: any(judge(name) for judge in judges)

    def _both(self) -> Judge:
        judges = [self._one()]
        while self._take("and"):
            judges.append(self._one())
        return lambda name: all(judge(name) for judge in judges)

    def _one(self) -> Judge:
        if self._take("not"):
            judge = self._one()
            return lambda name: not judge(name)
        if self._take("("):
            judge = self._either()
            if not self._take(")"):
                self._refuse()
            return judge
        word = self._tokens.pop(0)
        if word in ("", ")", "and", "or"):
            self._tokens.insert(0, word)
            self._refuse()
        part = word.lower()
        return lambda name: part in name

    def _take(self, token: str) -> bool:
        if self._tokens[0] != token:
            return False
        self._tokens.pop(0)
        return True

    def _refuse(self) -> None:
        at = f"at {self._tokens[0]!r}" if self._tokens[0] else "at its end"
        raise InvalidRequest(
            f"{self._expression!r} can't be read {at}: join words with `and`, `or`, `not` and brackets"
        )
