"""All rules at once: whatever is done in whatever order, a provider is what the reference is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rawthink_conformance.checking import Unseen, check

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench


@check("machine.agrees")
async def the_machine_finds_no_difference(bench: Bench) -> None:
    """Whatever is done in whatever order, every verb answers as the reference does."""
    try:
        from rawthink_conformance.machine import compare  # noqa: PLC0415 - hypothesis is for those who test
    except ImportError as error:
        raise Unseen(f"it needs hypothesis: pip install 'rawthink[conformance]' ({error})") from error
    await asyncio.to_thread(compare, bench.subject, deep=bench.deep)
