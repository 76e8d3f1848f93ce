"""What an error tells: all that is wrong, where, and what to do; and nothing that was not meant to be told."""

from __future__ import annotations

import inspect
import re

import pytest

from rawthink_core import errors
from rawthink_core.errors import (
    AlreadyRevised,
    Fault,
    HookRefused,
    InvalidRequest,
    UnsupportedOperation,
    quoted,
)


def drawn() -> dict[str, str]:
    """Return the tree of the module's docstring: each error with the one above it."""
    tree: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"    ([│├└─ ]*)([A-Z]\w+)", line):
            depth = len(found[1]) // 4
            path[depth:] = [found[2]]
            tree[found[2]] = path[depth - 1] if depth else "Exception"
    return tree


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    classes = {
        name: kind.__mro__[1].__name__
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, Exception)
    }
    assert drawn() == classes


def test_one_fault_is_one_sentence() -> None:
    assert str(InvalidRequest([Fault("entities.0.name", "is required")])) == "entities.0.name: is required"
    assert str(InvalidRequest("say what")) == "say what"


def test_many_faults_are_told_at_once() -> None:
    refused = InvalidRequest([Fault("a", "is wrong"), Fault("", "all is wrong")])
    assert refused.faults == (Fault("a", "is wrong"), Fault("", "all is wrong"))
    assert str(refused) == "2 faults, nothing was written:\n  - a: is wrong\n  - all is wrong"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (AlreadyRevised("old", "new"), ["old", "new", "Nothing was written"]),
        (AlreadyRevised("old", None), ["old", "retracted"]),
        (UnsupportedOperation("mine", "history", "no versions"), ["mine", "history", "no versions"]),
        (
            HookRefused("strict", "before_record", "a swear word"),
            ["strict", "before_record", "RAWTHINK_PLUGINS"],
        ),
    ],
)
def test_an_error_names_what_it_is_about(error: Exception, told: list[str]) -> None:
    assert all(word in str(error) for word in told)


def test_a_long_word_is_cut_before_it_is_repeated() -> None:
    assert quoted("short") == "'short'"
    assert len(quoted("x" * 1_000_000)) < 80
