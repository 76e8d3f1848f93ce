"""What an error tells: all that is wrong, where, and what to do; and nothing that was not meant to be told."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest

import rawthink_core
from rawthink_core import errors
from rawthink_core.errors import (
    AlreadyRevised,
    Fault,
    HookRefused,
    InvalidRequest,
    RawThinkError,
    TextsNotEmbedded,
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


ELSEWHERE = {
    "rawthink_core.embedders.batches.Refused": "how the requests of an embedder tell each other that a text may be to blame",
}


def test_every_error_of_core_stands_in_the_tree() -> None:
    for module in pkgutil.walk_packages(rawthink_core.__path__, "rawthink_core."):
        importlib.import_module(module.name)
    kinds, found = [RawThinkError], set[str]()
    while kinds:
        kinds += kinds.pop().__subclasses__()
        found |= {f"{kind.__module__}.{kind.__name__}" for kind in kinds}
    ours = {name for name in found if name.startswith("rawthink_core.")}
    assert {name for name in ours if not name.startswith("rawthink_core.errors.")} == ELSEWHERE.keys()


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
            TextsNotEmbedded({n: f"reason {n}" for n in range(5)}, {7: [1.0]}),
            ["5 of 6 texts", "text 0: reason 0", "and 2 more", "go by their words"],
        ),
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
