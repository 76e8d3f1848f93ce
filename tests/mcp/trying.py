"""A backend that tries its host's patience: it prints where it should not, is slow on demand, and has bugs.

Registered as `trying` for the tests' server processes. Words in a text ask for it: ``be slow`` waits,
``be loud`` prints in every way there is, ``have a bug`` fails as no backend should.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from rawthink_core.plugins import ProviderPlugin
from rawthink_local.provider import LocalProvider
from rawthink_local.settings import LocalSettings

SLOW = 2.0
print("a module that prints while it is imported")  # noqa: T201 - what it is here for


def try_patience(text):
    if "be loud" in text:
        print("printed", flush=True)  # noqa: T201 - see above
        os.write(1, b"written to descriptor 1\n")
        subprocess.run([sys.executable, "-c", "print('a child prints')"], check=True)
        sys.stdout.buffer.write(b"\xff\xfe no UTF-8\n")
        assert sys.stdin.read() == ""
    if "have a bug" in text:
        raise ZeroDivisionError("somebody divided by zero")
    if "be slow" in text:
        time.sleep(SLOW)


class Trying(LocalProvider):
    async def search(self, query):
        await self._in_thread(try_patience, query.text)
        return await super().search(query)

    async def record(self, batch):
        text = " ".join(said.text for said in batch.observations)

        def work():
            Path(self.folder, "started").touch()
            try_patience(text)

        await self._write(work)
        return await super().record(batch)


plugin = ProviderPlugin(name="trying", title="For tests", make=Trying, settings=LocalSettings)
