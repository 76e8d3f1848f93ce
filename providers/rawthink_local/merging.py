"""What a merge of two clones leaves to be looked at: beliefs revised on both sides, text that was forgotten.

Of two revisions of one item the earlier counts. The later is told of until somebody has settled it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rawthink_core.commits import Commit
from rawthink_core.errors import quoted
from rawthink_core.rows import CREATES
from rawthink_core.text import same_text
from rawthink_core.upkeep import Check
from rawthink_local.lines import read_line
from rawthink_local.returned import brought_back

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rawthink_core.rows import Row, State
    from rawthink_local.questions import Spot
    from rawthink_local.store import Store
    from rawthink_local.view import View

_MANY = 5
_CONTENT = ("entity", "kind", "source", "type", "target", "session", "key")


def merged(store: Store) -> list[Check]:
    """List what a merge has left."""
    found = store.index.retired_twice()
    if found is None:
        return [
            Check(
                name="merged revisions",
                status="note",
                detail="not looked for while the row index is being built",
                fix="look again in a minute",
            )
        ]
    checks = []
    back = brought_back(store)
    if back is not None and (rows := back.rows + back.filed_rows):
        detail = f"{rows} row(s) of forgotten items came back with a merge; nothing shows them"
        checks.append(Check(name="forgotten text", status="warn", detail=detail, fix="rawthink doctor --fix"))
    told = list(dict.fromkeys(note for spots in found for note in _later(store, spots)))
    fix = "look at it with `rawthink history`; where the later is right, revise what stands"
    checks += [Check(name="merged revisions", status="warn", detail=d, fix=fix) for d in told[:_MANY]]
    if len(told) > _MANY:
        more = f"{len(told) - _MANY} more beliefs were revised on both sides of a merge"
        checks.append(Check(name="merged revisions", status="warn", detail=more, fix=fix))
    return checks


def _later(store: Store, spots: list[Spot]) -> list[str]:
    """Say which of an item's retirements came too late and are not settled, and what each would have said."""
    commits: dict[str, Commit] = {}
    for line in {spot.line: spot for spot in spots}:
        commit = next((read_line(found) for found in store.index.lines(line)), None)
        if isinstance(commit, Commit):
            commits[commit.id] = commit
    first, *later = sorted(commits.values(), key=lambda commit: (commit.at, commit.id))
    ids = [{row["id"] for row in commit.rows if row["op"] == "retire"} for commit in (first, *later)]
    told = []
    for item in sorted(set.intersection(*ids)) if later else ():
        for commit in later:
            heir = _heir(commit, item)
            if store.read(commit.space, partial(_settled, item=item, later=commit, heir=heir)):
                continue
            instead = f" by {quoted(heir['text'])}" if heir and heir.get("text") else ""
            told.append(
                f"{item} was revised{instead} in {commit.id} ({commit.at}), earlier in {first.id} on the "
                f"other side of a merge; the earlier stands"
            )
    return told


def _heir(commit: Commit, item: str) -> Row | None:
    """Return the row of what a commit puts in an item's place, where it creates that."""
    heirs = [row.get("superseded_by") for row in commit.rows if row["id"] == item]
    return next((row for row in commit.rows if row["id"] in heirs and row["op"] in CREATES), None)


def _settled(view: View, item: str, later: Commit, heir: Row | None) -> bool:
    """Tell whether nobody need look at a later revision of an item any more.

    It is so once what stands in the item's place, or what the later revision put there, was itself revised
    after it; or where the later's own content stands by another revision or record.
    """
    line = list(_line(view, item))
    own = view.state(heir["id"]) if heir is not None else None
    for state in (*line, own):
        if state is not None and state.invalidated_at is not None and state.invalidated_at > later.at:
            return True
    if heir is None:
        return not any(state.active for state in line)
    return any(state.active and _same(state.row, heir) for state in (*line, *_said_since(view, heir, later)))


def _line(view: View, item: str) -> Iterator[State]:
    """Yield what stands in an item's place, and what came after that."""
    state, seen = view.state(item), {item}
    while state is not None and (heir := state.superseded_by) is not None and heir not in seen:
        seen.add(heir)
        if (state := view.state(heir)) is not None:
            yield state


def _said_since(view: View, heir: Row, later: Commit) -> list[State]:
    if heir["op"] != "observation":
        return []
    return [state for state in view.about([heir["entity"]]) if state.recorded_at > later.at]


def _same(row: Row, other: Row) -> bool:
    """Tell whether two rows create the same content."""
    return _content(row) == _content(other)


def _content(row: Row) -> list[Any]:
    return [same_text(row.get("text", "")), *(row.get(name) for name in _CONTENT)]
