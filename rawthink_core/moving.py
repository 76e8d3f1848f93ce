"""Moving house: everything of one space, from one memory into another, as it is.

Commits travel whole, so a copy has the same ids, times, chains and batches, and can be copied back. Vectors
that the source keeps travel with their texts. A copy that was cut short is made again: what is there is
skipped.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rawthink_core.errors import InvalidRequest, UnsupportedOperation
from rawthink_core.provider import Capability
from rawthink_core.rows import CREATES, fold
from rawthink_core.selection import text_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from rawthink_core.commits import Commit
    from rawthink_core.provider import ProviderInfo
    from rawthink_core.rows import Row, Stamped
    from rawthink_core.verbs import Verbs

_COMMITS_AT_ONCE, _CHARACTERS_AT_ONCE = 500, 2 * 2**20
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An item that the target can't hold, and why."""

    id: str
    kind: str
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Survey:
    """What is to be copied: commits, items by kind, and what the target can't hold of them."""

    commits: int
    items: Mapping[str, int]
    obstacles: tuple[Obstacle, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)  # by what such an entity is found now


@dataclass(slots=True)
class CopyReport:
    """What a copy did: commits that were new to the target, those it had, texts that came with vectors."""

    restored: int = 0
    skipped: int = 0
    vectors: int = 0
    left_out: int = 0


@dataclass(slots=True)
class _Piece:
    commits: list[Commit] = field(default_factory=list)
    size: int = 0


async def survey(source: Verbs, target: ProviderInfo) -> Survey:
    """Look through a space before anything of it is copied.

    Raises UnsupportedOperation where the source can't export or the target can't restore.
    """
    _able(source.info, Capability.EXPORT, "export")
    _able(target, Capability.RESTORE, "restore")
    commits, items = 0, Counter[str]()
    found: list[Obstacle] = []
    named: defaultdict[str, list[Stamped]] = defaultdict(list)
    longest = int(target.capabilities.get(Capability.MAX_TEXT, 0)) or None
    async for commit in source.export():
        commits += 1
        for stamped in commit.stamped():
            row = stamped.row
            if row["op"] in ("entity", "field"):
                named[row["id"]].append(stamped)
            if row["op"] in CREATES:
                items[row["op"]] += 1
                if longest is not None and len(text := _said(row)) > longest:
                    why = f"{len(text):,} characters; {target.name} holds {longest:,} at most"
                    found.append(Obstacle(row["id"], row["op"], text[:_SHOWN], why))
    renamed = {
        item: text_of(state) for item, rows in named.items() if len(rows) > 1 and (state := fold(rows))
    }
    return Survey(commits, dict(items), tuple(found), renamed)


async def copy(
    source: Verbs, target: Verbs, found: Survey, progress: Callable[[int], None] | None = None
) -> CopyReport:
    """Copy every commit of the source's space into the target's, but for the obstacles that were found.

    ``progress`` is told after each piece how many commits are done. Raises InvalidRequest where the spaces
    differ, and what `export` and `restore` raise: what was restored by then stays, and a second run goes on.
    """
    if source.scope != target.scope:
        raise InvalidRequest(
            f"a copy keeps its space: {source.scope.space!r} can't become {target.scope.space!r}"
        )
    gone = frozenset(obstacle.id for obstacle in found.obstacles)
    report, done = CopyReport(left_out=len(gone)), 0
    async for piece in _pieces(source):
        done += len(piece)
        kept = await source.kept_vectors(_texts(piece, found.renamed))
        whole = [_without(commit, gone) for commit in piece] if gone else piece
        receipt = await target.restore(whole, kept)
        report.restored += receipt.restored
        report.skipped += receipt.skipped
        report.vectors += len(kept.of)
        if progress is not None:
            progress(done)
    return report


def _able(info: ProviderInfo, capability: Capability, verb: str) -> None:
    if not info.can(capability):
        raise UnsupportedOperation(info.name, verb, "a copy needs it")


async def _pieces(source: Verbs) -> AsyncIterator[list[Commit]]:
    """Yield the commits of a space some at a time."""
    piece = _Piece()
    async for commit in source.export():
        piece.commits.append(commit)
        piece.size += sum(len(_said(row)) for row in commit.rows)
        if len(piece.commits) >= _COMMITS_AT_ONCE or piece.size >= _CHARACTERS_AT_ONCE:
            yield piece.commits
            piece = _Piece()
    if piece.commits:
        yield piece.commits


def _texts(piece: Iterable[Commit], renamed: Mapping[str, str]) -> list[str]:
    """Return the texts by which the items of some commits are found."""
    texts: dict[str, None] = {}
    for commit in piece:
        for row in commit.rows:
            if text := _said(row):
                texts[text] = None
            if text := renamed.get(row["id"], ""):
                texts[text] = None
    return list(texts)


def _said(row: Row) -> str:
    """Return the text by which the item that a row creates is found; empty where there is none."""
    match row["op"]:
        case "observation" | "passage":
            return str(row["text"])
        case "entity":
            return _joined(row["name"], row.get("aliases", ()))
    return ""


def _joined(name: Any, aliases: Iterable[str]) -> str:
    return "\n".join([str(name), *aliases])


def _without(commit: Commit, gone: frozenset[str]) -> Commit:
    """Return a commit without the rows about some items, and with no link to them."""
    rows = []
    for row in commit.rows:
        if row["id"] in gone:
            continue
        changed = dict(row)
        if changed.get("superseded_by") in gone:
            del changed["superseded_by"]
        if supersedes := [item for item in changed.get("supersedes", ()) if item not in gone]:
            changed["supersedes"] = supersedes
        else:
            changed.pop("supersedes", None)
        rows.append(changed)
    return replace(commit, rows=tuple(rows))
