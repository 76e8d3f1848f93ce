"""Emulators of the Nowledge Mem API, each stopped at the end of its test."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from .asking import Asking


@pytest.fixture
def start():
    """Start an emulator and return a plain client of it."""
    with ExitStack() as stack:
        yield lambda generation="0.10", **more: stack.enter_context(Asking(generation, **more))
