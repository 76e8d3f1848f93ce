"""What the tests of the proxy share: a memory, an upstream on loopback, and the proxy before it, in one loop."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import httpx2
import pytest

from rawthink_chat.exchange import ChatMemory
from rawthink_chat.proxy.admission import Doorkeeper
from rawthink_chat.proxy.app import Proxy
from rawthink_chat.proxy.house import House
from rawthink_chat.proxy.running import bound
from rawthink_chat.proxy.server import server_of
from rawthink_chat.proxy.upstream import Upstream
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.hosting import ProxySettings
from rawthink_core.memory import Memory
from rawthink_core.provider import World

from . import upstreams

TOOL = {"name": "Deploys", "entity_type": "thing", "domain": "software"}
SAID = {"entity": "Deploys", "text": "deploys go out on Tuesday mornings"}
QUESTION = "When do deploys go out?"


class Running:
    """A proxy that serves: its port, its memory, and what it is made of."""

    def __init__(self, port, memory, house, proxy, server):
        self.port, self.memory, self.house, self.proxy, self.server = port, memory, house, proxy, server

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def client(self, **more):
        return httpx2.AsyncClient(base_url=self.address, trust_env=False, timeout=30, **more)

    async def raw(self, data, *, until=None):
        """Send bytes, and return all that comes until the connection ends, or until these bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        await writer.drain()
        try:
            async with asyncio.timeout(20):
                return await (reader.read() if until is None else reader.readuntil(until))
        finally:
            writer.close()

    async def turns(self, space="default"):
        """Return the texts that are remembered, once nothing more is being written."""
        memory = self.memory.in_space(space) if space != self.memory.scope.space else self.memory
        await memory.flush()
        return sorted(item.text for item in (await memory.scan(items=["passage"])).items)


@pytest.fixture
def world(tmp_path):
    return World(path=tmp_path / "store", state=tmp_path / "state", timezone="UTC")


@pytest.fixture
def running(world):
    """Serve: ``async with running(upstream.address, memory=…) as proxy``."""

    @asynccontextmanager
    async def serve(
        address, *, build=None, tokens=None, names=(), limit=1 << 20, most=100, patience=10, pause=2, **chat
    ):
        made = []

        def memory():
            made.append(build() if build else Memory(ReferenceProvider(world)))
            return made[-1]

        house = House(memory, lambda one: ChatMemory(one, **chat), pause=pause)
        await house.open(patience)
        upstream = Upstream(address, connect_seconds=5)
        proxy = Proxy(upstream, house, Doorkeeper(tokens or {}, names), limit=limit, most=most)
        listening = bound(ProxySettings(port=0))
        server = server_of(proxy, closing_seconds=1)
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.startup(
            sockets=[listening]
        )  # without the loop that polls for its end: that takes a while
        one = Running(listening.getsockname()[1], made[-1], house, proxy, server)
        try:
            yield one
        finally:
            server.servers[0].close()
            for connection in list(server.server_state.connections):
                connection.shutdown()
            for task in (left := list(server.server_state.tasks)):
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await house.close(10)
            await upstream.close()
            listening.close()

    return serve


@pytest.fixture
def chatting(running):
    """Serve with an upstream that follows a script, and something to recall: ``async with chatting(script)``."""

    @asynccontextmanager
    async def serve(script, **options):
        async with upstreams.upstream(script) as up, running(up.address, **options) as proxy:
            if proxy.house.chat is not None:
                await proxy.memory.record(entities=[TOOL], observations=[SAID])
            yield up, proxy

    return serve


async def until(true):
    """Wait until something is so."""
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - files and counters ring no bell
            await asyncio.sleep(0.005)


def asking(text=QUESTION, **more):
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}
