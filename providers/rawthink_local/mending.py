"""How a local store is mended: what `rawthink doctor --fix`, `rawthink reindex` and upkeep do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rawthink_core.commits import Commit
from rawthink_core.operations import MaintainReceipt
from rawthink_local.ended import erase_ended
from rawthink_local.erasure import erase_returned
from rawthink_local.lines import read_line
from rawthink_local.store import header_of

if TYPE_CHECKING:
    from rawthink_core.commits import Header
    from rawthink_core.operations import Maintain
    from rawthink_local.lookup import RowIndex
    from rawthink_local.parts import Parts
    from rawthink_local.store import Store


def maintain(parts: Parts, request: Maintain) -> MaintainReceipt:
    """Repair or re-index a store and say what was done; without either, do what is due.

    What is due is done before a re-indexing too, as all is built anew then in any case.
    """
    store = parts.store
    store.notice(there=store.journal.exists())
    done: list[str] = []
    if request.repair:
        done += repair(store)
    if request.reindex or not request.repair:
        done += erase_ended(parts)
    if request.reindex:
        store.index.rebuild()
        done.append("built the row index anew")
        parts.search.forget()
        done.append("deleted the search index; the next search builds it")
    return MaintainReceipt(done=tuple(done))


def repair(store: Store) -> list[str]:
    """Set damaged lines and torn tails aside, give a header that is missing; say what was done."""
    journal, passages, index = store.journal, store.passages, store.index
    if not journal.exists():
        return []
    done: list[str] = []
    index.check()
    with store.lock.held():
        if journal.tidy() or passages.tidy():
            done.append("deleted what a rewriting that was cut short has left")
        index.refresh()
        if passages.drop_untrusted():
            done.append(f"deleted {passages.path}, which can't be trusted; index the files again")
            index.refresh()
        done += _mend(store, index.main)
        if index.filed is not None and passages.exists():
            done += _mend(store, index.filed)
        if (erased := erase_returned(store)) > 0:
            done.append(f"erased {erased} row(s) of forgotten items that a merge had brought back")
    return done


def _mend(store: Store, index: RowIndex) -> list[str]:
    """Mend one log, under the lock."""
    log, now = index.journal, store.world.clock.now()
    done: list[str] = []
    if index.torn:
        done.append(f"set a torn tail aside in {log.cut_torn_tail(index.end, now)}")
        index.refresh()
    header = log.header()
    bad = {item.position for item in index.damage()}
    if bad:
        aside = b"".join(line.data + b"\n" for line in index.lines() if line.position in bad)
        done.append(f"set {len(bad)} damaged line(s) aside in {log.set_aside(aside, now)}")
    headless = not header.store
    if headless:
        header = _new_header(store)
        done.append(f"gave the store a new header, with the zone {header.timezone}")
    if bad or headless:
        good = (line for line in index.lines() if line.position not in bad)
        commits = (line.data + b"\n" for line in good if isinstance(read_line(line), Commit))
        log.rewrite(header, commits)
        index.refresh()
    return done


def _new_header(store: Store) -> Header:
    """Return a header for a journal that has lost it: as the log of files still says it, if there is one."""
    if store.passages.exists() and (known := store.passages.header()).store:
        return replace(known, generation=1)
    return header_of(store.world)
