"""Chat turns as messages of the server's threads: beside the memories that hold them, never instead."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Final

from rawthink_core.errors import RawThinkError

if TYPE_CHECKING:
    from rawthink_core.operations import AfterChat, NewPassage
    from rawthink_nowledge.api import Api

log = logging.getLogger("rawthink.nowledge")

_MOST: Final = 20_000  # characters of a message


async def add_to_threads(api: Api, server_space: str, request: AfterChat) -> None:
    """Add the passages of a turn to threads. The memories stand already, so failures are only logged."""
    for passage in request.passages:
        try:
            await api.append(
                thread_id(request.scope.space, passage.session),
                passage.session[:200],
                _message(passage),
                server_space,
            )
        except RawThinkError as error:
            log.warning("a turn was stored, but not added to its thread in Nowledge Mem: %s", error)


def thread_id(space: str, session: str) -> str:
    """Return the id of a session's thread: lower case and of plain characters, as the server keeps ids."""
    return "rawthink-" + hashlib.blake2b(f"{space}\x00{session}".encode(), digest_size=16).hexdigest()


def _message(passage: NewPassage) -> dict[str, object]:
    key = f"{passage.session}\x00{passage.key or ''}\x00{passage.text}"
    external = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
    return {
        "role": "user",
        "content": passage.text[:_MOST],
        "metadata": {"external_id": external, "source": "rawthink"},
    }
