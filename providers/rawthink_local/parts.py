"""What an open store consists of, from its journal to what is derived from it, opened and closed together."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from rawthink_core.activity import Activity
from rawthink_core.config import absolute
from rawthink_core.model import Rules, zone_named
from rawthink_local.adoption import FILE, Adoption
from rawthink_local.searchindex import SearchIndex
from rawthink_local.store import Store, header_of
from rawthink_local.vectors import Kept, read_model

if TYPE_CHECKING:
    from pathlib import Path

    from rawthink_core.provider import World
    from rawthink_local.places import IndexPlace
    from rawthink_local.settings import LocalSettings


class Parts(NamedTuple):
    """The parts of one open store."""

    store: Store
    activity: Activity
    search: SearchIndex
    rules: Rules

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
    return Parts(store, activity, search, rules)


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
