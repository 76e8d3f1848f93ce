"""Fixtures of the tests of the LanceDB provider."""

from __future__ import annotations

import pytest

from .bucket import serving


@pytest.fixture(scope="session")
def server():
    """An S3 server on loopback."""
    with serving() as running:
        yield running
