"""What the tests of embedders share: servers that end with their test, and no proxy of this machine."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from .servers import Asked, Reply, Server, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Serve = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return what starts a server from a function of requests, or from replies to give in turn."""
    with ExitStack() as running:

        def start(*answers: Callable[[Asked], Reply] | Reply, **where: str) -> Server:
            if callable(answers[0]):
                return running.enter_context(serving(answers[0], **where))
            replies = [answer for answer in answers if isinstance(answer, Reply)]
            left = iter(replies)
            return running.enter_context(serving(lambda _: next(left, replies[-1]), **where))

        yield start


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("OLLAMA_HOST", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
