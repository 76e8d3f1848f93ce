"""`with_memory`: an `openai` client that remembers.

It is the same client, of the same class, with a memory beside the connection: `create`, `parse`, `stream`,
raw responses and whatever else wraps the client work as before, because what they send and read is HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import httpx2

from rawthink_chat.calls import Call
from rawthink_chat.exchange import ChatMemory
from rawthink_chat.transports import AsyncMemoryTransport, MemoryTransport
from rawthink_core.memory import Memory
from rawthink_core.sync import SyncMemory
from rawthink_core.turns import MAX_ITEMS, MAX_TOKENS

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable

    from openai import AsyncOpenAI, OpenAI

    from rawthink_chat.exchange import Recalled

C = TypeVar("C", bound="OpenAI | AsyncOpenAI")


def with_memory(
    client: C,
    memory: Memory | SyncMemory,
    *,
    space: str | None = None,
    session: str | None = None,
    speaker: str | None = None,
    remember: bool = True,
    recall: bool = True,
    forbidden: Iterable[str | re.Pattern[str]] = (),
    limit: int = MAX_ITEMS,
    tokens: int = MAX_TOKENS,
    on_recall: Callable[[Recalled], None] | None = None,
) -> C:
    """Return ``client`` with ``memory`` beside it, for chat completions and responses.

    An `AsyncOpenAI` (or a class derived from it) takes a `Memory`, an `OpenAI` a `SyncMemory`. ``space``,
    ``session`` and ``speaker`` hold for every call that doesn't say otherwise: ``extra_headers=per_call(…)``.
    With ``remember`` False nothing is kept, with ``recall`` False the model is told nothing. ``forbidden``,
    ``limit``, ``tokens`` and ``on_recall`` are those of `ChatMemory`. The client that was given stays as it
    is; both share its connections. Raises TypeError where client and memory don't fit.
    """
    call = Call(space, session, speaker, remember="yes" if remember else "no", recall=recall)

    def chat(of: Memory) -> ChatMemory:
        return ChatMemory(of, forbidden=forbidden, limit=limit, tokens=tokens, on_recall=on_recall)

    sender = getattr(client, "_client", None)  # there is no public name for it
    if isinstance(sender, httpx2.AsyncClient):
        if not isinstance(memory, Memory):
            raise TypeError(f"{type(client).__name__} takes a memory of open_memory(), not {_name(memory)}")
        beneath = _beneath(sender)
        transport = AsyncMemoryTransport(beneath, chat(memory), call)
        return _copied(client, httpx2.AsyncClient(transport=transport, **_as(beneath)))
    if isinstance(sender, httpx2.Client):
        if not isinstance(memory, SyncMemory):
            raise TypeError(
                f"{type(client).__name__} takes a memory of open_memory_sync(), not {_name(memory)}"
            )

        async def made(of: Memory) -> ChatMemory:
            return chat(of)

        under = _beneath(sender)
        through = MemoryTransport(under, memory, memory.run(made), call)
        return _copied(client, httpx2.Client(transport=through, **_as(under)))
    raise TypeError(f"with_memory takes an OpenAI or AsyncOpenAI client (openai>=3.57), not {_name(client)}")


S = TypeVar("S", httpx2.Client, httpx2.AsyncClient)


def _beneath(sender: S) -> S:
    """Return the client that sends; of one that has a memory already, the one beneath that."""
    transport = getattr(sender, "_transport", None)
    if isinstance(transport, (AsyncMemoryTransport, MemoryTransport)):
        return cast("S", transport.client)
    return sender


def _as(sender: httpx2.Client | httpx2.AsyncClient) -> dict[str, Any]:
    """Return the settings of a client that builds requests as another does."""
    names = ("headers", "cookies", "params", "timeout", "base_url")
    return {name: getattr(sender, name) for name in names} | {"trust_env": False}


def _copied(client: C, sender: httpx2.Client | httpx2.AsyncClient) -> C:
    copy = cast("Callable[..., C]", client.copy)
    return copy(http_client=sender)


def _name(thing: object) -> str:
    return type(thing).__name__
