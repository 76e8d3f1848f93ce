"""Fixtures of the tests of the local provider."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def no_sync(monkeypatch):
    """Leave the disk alone: for tests that write often and never cut the power."""
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
