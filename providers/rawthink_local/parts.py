"""What an open store consists of, from its journal to what is derived from it, and what these do together."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rawthink_core.activity import Activity
from rawthink_core.config import absolute
from rawthink_core.model import Rules, zone_named
from rawthink_core.operations import ForgetReceipt
from rawthink_core.searching import answer
from rawthink_local import erasure, mending, restoring
from rawthink_local.adoption import FILE, Adoption
from rawthink_local.retrieval import Retrieval
from rawthink_local.searchindex import SearchIndex
from rawthink_local.shelf import LocalShelf
from rawthink_local.store import Store, header_of
from rawthink_local.vectors import Kept, read_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rawthink_core import operations as ops
    from rawthink_core.asking import Asked
    from rawthink_core.commits import Commit
    from rawthink_core.embedding_shelf import Model
    from rawthink_core.provider import World
    from rawthink_local.fields import Vectors
    from rawthink_local.places import IndexPlace
    from rawthink_local.settings import LocalSettings
    from rawthink_local.view import View


T = TypeVar("T")


class Parts(NamedTuple):
    """The parts of one open store: core's `VectorStore`."""

    store: Store
    activity: Activity
    search: SearchIndex
    rules: Rules
    shelf: LocalShelf
    model: Model | None

    @property
    def changes(self) -> int:
        """How often the index took anything in."""
        return self.search.changes

    def read(self, space: str, question: Callable[[View], T]) -> T:
        """Return the answer to a question of one state of a space."""
        return self.store.read(space, question)

    def answer(self, query: ops.SearchQuery, asked: Asked | None, why: str | None) -> ops.SearchPage:
        """Answer a search, of the index as it is when that has caught up, or could not."""
        store, index, world = self.store, self.search, self.store.world
        now = world.clock.now()

        def ask(view: View) -> ops.SearchPage:
            behind = index.catch_up()
            lost = index.lost() if asked else None  # met by catching up
            said = "; ".join(reason for reason in (behind, store.degraded(), why, lost) if reason) or None
            retrieval = Retrieval(index, view, self.activity)
            return answer(query, retrieval, now, said, None if lost else asked, world.fusion)

        return store.read(query.scope.space, ask)

    def commits(self, space: str) -> Iterator[Commit]:
        """Yield every commit of a space once, in the order of time."""
        return self.store.commits(space)

    def record(self, batch: ops.Batch) -> ops.RecordReceipt:
        """Write a batch in one line of the journal."""
        return self.store.record(batch, self.rules)

    def forget(self, request: ops.Forget) -> ops.ForgetReceipt:
        """Erase items from the journal and everything derived from it."""
        gone = erasure.forget(self.store, request)
        places = erasure.places_of(self, gone) if gone.states else ()
        ids = tuple(sorted(state.id for state in gone.states))
        return ForgetReceipt(ids=ids, missing=tuple(gone.missing), places=tuple(places))

    def restore(self, space: str, commits: Sequence[Commit]) -> ops.RestoreReceipt:
        """Add commits as they are."""
        return restoring.restore(self.store, space, commits)

    def maintain(self, request: ops.Maintain) -> ops.MaintainReceipt:
        """Set damaged parts aside, or build the indexes anew; else erase what ended with its file."""
        return mending.maintain(self, request)

    def vectors_of(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors that are kept of some of these texts."""
        kept = self.search.kept
        return {} if kept is None else kept.some(texts)

    def close(self) -> None:
        """Release everything."""
        kept = self.search.kept
        for part in (self.search, kept, self.activity, self.store):
            if part is not None:
                part.close()


def open_parts(folder: Path, settings: LocalSettings, world: World) -> Parts:
    """Open the store in a folder, creating it where there is none. Raises StoreTooNew or a BackendError."""
    cache, state = _own_folder(folder, world.cache), _own_folder(folder, world.state)
    store = Store(folder, cache / "rows.sqlite" if cache else None, world, settings.lock_seconds)
    foreign = foreign_file(folder, settings)
    try:
        header = store.open(lambda: header_of(world), keep_out=foreign.exists())
        rules = Rules(world.vocabulary, zone_named(header.timezone))
        store.adoption = Adoption(foreign, settings.memory_space, rules, store.index, world.clock)
        model = read_model(store.derived)
        kept = Kept(store.derived, model) if model is not None and model.dimensions else None
    except BaseException:
        store.close()
        raise
    activity = Activity(state / "activity.sqlite" if state else None)
    search = SearchIndex(
        store, cache / "slots" if cache else None, world.clock, kept, _server(store, settings, world)
    )
    return Parts(store, activity, search, rules, LocalShelf(store, search), model)


def _server(store: Store, settings: LocalSettings, world: World) -> IndexPlace | None:
    """Return the server that holds the search index, None where each process has its own."""
    if settings.url is None:
        return None
    from rawthink_local.leftovers import Collections  # noqa: PLC0415 - most stores have none
    from rawthink_local.serverplace import ServerPlace  # noqa: PLC0415 - see above

    noted = Collections(world.state / "local" / "collections" if world.state else None)
    return ServerPlace(store, settings, noted)


def foreign_file(folder: Path, settings: LocalSettings) -> Path:
    """Return the graph file of another server that is read in place."""
    return absolute(settings.memory_file) if settings.memory_file else folder / FILE


def _own_folder(folder: Path, root: Path | None) -> Path | None:
    """Return this store's place under a folder of the user: two copies of a store never share one."""
    if root is None:
        return None
    name = hashlib.blake2b(str(folder.resolve()).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return root / "local" / name
