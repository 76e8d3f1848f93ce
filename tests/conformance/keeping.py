"""Which requirements a further set-up of a backend is held to, where another one is held to all of them."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from rawthink_conformance import machine
from rawthink_conformance.checking import DEEP_VARIABLE
from rawthink_conformance.requirements import REQUIREMENTS

FEWER = settings(machine.FAST, max_examples=6)  # stories, for set-ups whose steps are many requests
LONG = ("machine.agrees", "load.loop")  # half a minute, and on each set-up the same calls
WRITTEN = (  # topics that hang on how a backend takes, keeps, lists and retires what is written
    "batch", "crash", "export", "forget", "history", "ids", "maintain", "open", "passage", "restore", "revise",
    "same", "scan", "scope", "write", "writes",
)  # fmt: skip
FOUND = ("chat", "search")
AWAY = ("down", "health")


def kept(*topics):
    """Let a test check each requirement of some topics, or all short ones; all with `DEEP_VARIABLE` set."""
    deep = bool(os.environ.get(DEEP_VARIABLE))
    chosen = [
        pytest.param(requirement, id=requirement.id)
        for requirement in REQUIREMENTS.values()
        if deep or (requirement.id not in LONG and (not topics or requirement.id.partition(".")[0] in topics))
    ]
    return pytest.mark.parametrize("requirement", chosen)
