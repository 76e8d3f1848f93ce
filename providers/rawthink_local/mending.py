"""How a local store is mended: what `rawthink doctor --fix` and `rawthink reindex --vectors` do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_core.commits import Commit
from rawthink_core.operations import MaintainReceipt
from rawthink_local.erasure import erase_returned
from rawthink_local.lines import read_line
from rawthink_local.store import header_of

if TYPE_CHECKING:
    from rawthink_core.operations import Maintain
    from rawthink_local.parts import Parts
    from rawthink_local.store import Store


def maintain(parts: Parts, request: Maintain) -> MaintainReceipt:
    """Repair or re-index a store and say what was done."""
    store = parts.store
    done: list[str] = []
    if request.repair:
        done += repair(store)
    if request.reindex:
        store.index.rebuild()
        done.append("built the row index anew")
        parts.lexical.forget()
        done.append("deleted the search index; the next search builds it")
    return MaintainReceipt(done=tuple(done))


def repair(store: Store) -> list[str]:
    """Set damaged lines and a torn tail aside, give a header that is missing; say what was done."""
    journal, index = store.journal, store.index
    if not journal.exists():
        return []
    done: list[str] = []
    index.check()
    with journal.locked():
        if journal.tidy():
            done.append("deleted what a rewriting that was cut short has left")
        index.refresh()
        now = store.world.clock.now()
        if index.torn:
            done.append(f"set a torn tail aside in {journal.cut_torn_tail(index.end, now)}")
            index.refresh()
        header = journal.header()
        bad = {item.position for item in index.damage()}
        if bad:
            aside = b"".join(line.data + b"\n" for line in index.lines() if line.position in bad)
            done.append(f"set {len(bad)} damaged line(s) aside in {journal.set_aside(aside, now)}")
        headless = not header.store
        if headless:
            header = header_of(store.world)
            done.append(f"gave the store a new header, with the zone {header.timezone}")
        if bad or headless:
            good = (line for line in index.lines() if line.position not in bad)
            commits = (line.data + b"\n" for line in good if isinstance(read_line(line), Commit))
            journal.rewrite(header, commits)
            index.refresh()
        if (erased := erase_returned(store)) > 0:
            done.append(f"erased {erased} row(s) of forgotten items that a merge had brought back")
    return done
