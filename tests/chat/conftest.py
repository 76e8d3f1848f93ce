"""What the tests of the chat host share: examples may take as long as the machine needs."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
