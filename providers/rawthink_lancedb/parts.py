"""What an open store consists of, and what its parts do together."""

from __future__ import annotations

import hashlib
import tomllib
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from rawthink_core.activity import Activity
from rawthink_core.commits import Header, new_header
from rawthink_core.config import absolute, machine_zone
from rawthink_core.errors import BackendUnavailable, ConfigError
from rawthink_core.model import Rules, zone_named
from rawthink_core.operations import ForgetReceipt, SearchPage
from rawthink_core.searching import answer
from rawthink_lancedb import erasure, mending
from rawthink_lancedb.bucket import keeps_versions
from rawthink_lancedb.catalogue import Catalogue
from rawthink_lancedb.engine import Engine
from rawthink_lancedb.errors import Vanished
from rawthink_lancedb.locks import CREATE, Locks
from rawthink_lancedb.retrieval import Retrieval
from rawthink_lancedb.shelf import LanceShelf
from rawthink_lancedb.store import Store
from rawthink_lancedb.vectors import Kept, read_model
from rawthink_lancedb.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rawthink_core import operations as ops
    from rawthink_core.asking import Asked
    from rawthink_core.commits import Commit
    from rawthink_core.embedding_shelf import Model
    from rawthink_core.provider import World
    from rawthink_lancedb.settings import LanceSettings
    from rawthink_lancedb.vectors import Vectors

FOLDER: Final = "lancedb"  # in the vault, where no address is given
_OPEN_MODE: Final = 0o077

T = TypeVar("T")


class Parts(NamedTuple):
    """The parts of one open store: core's `VectorStore`."""

    engine: Engine
    store: Store
    activity: Activity
    rules: Rules
    model: Model | None
    shelf: LanceShelf
    caretaker: mending.Caretaker
    settings: LanceSettings

    @property
    def changes(self) -> object:
        """How far the index of each space is."""
        return self.store.applied()

    def read(self, space: str, question: Callable[[View], T]) -> T:
        """Return the answer to a question of one state of a space."""
        return self.store.read(space, question)

    def answer(self, query: ops.SearchQuery, asked: Asked | None, why: str | None) -> ops.SearchPage:
        """Answer a search, of the index as it is when that has caught up."""
        world, space = self.store.world, self.store.space(query.scope.space)
        now = world.clock.now()
        if not space.log.look():
            return SearchPage(degraded=why)

        def work() -> ops.SearchPage:
            behind = space.index.catch_up()
            said = "; ".join(reason for reason in (behind, why) if reason)
            retrieval = Retrieval(space.index, View(space.log), self.activity)
            return answer(query, retrieval, now, said or None, asked, world.fusion)

        try:
            return space.index.sound(work)
        except Vanished as error:
            if error.table != space.index.table.name:
                raise
            return SearchPage(degraded=f"nothing was searched: files of the search index are gone ({error})")

    def commits(self, space: str) -> Iterator[Commit]:
        """Yield every commit of a space once, in the order of time."""
        return self.store.commits(space)

    def record(self, batch: ops.Batch) -> ops.RecordReceipt:
        """Write a batch in one commit of its space's table."""
        return self.store.record(batch, self.rules)

    def forget(self, request: ops.Forget) -> ops.ForgetReceipt:
        """Erase items from the log, the index and their files."""
        erased, missing = erasure.forget(self.store, request)
        space = request.scope.space
        places = erasure.places_of(self.store, space, erased, self.activity) if erased else ()
        ids = tuple(sorted(state.id for state in erased))
        return ForgetReceipt(ids=ids, missing=tuple(missing), places=tuple(places))

    def restore(self, space: str, commits: Sequence[Commit]) -> ops.RestoreReceipt:
        """Add commits as they are."""
        return self.store.restore(space, commits)

    def maintain(self, request: ops.Maintain) -> ops.MaintainReceipt:
        """Compact, finish what was cut short, or build the indexes anew."""
        return mending.maintain(self.store, self.settings, request)

    def vectors_of(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors that are kept of some of these texts."""
        return self.store.vectors_of(texts)

    def close(self) -> None:
        """Release everything."""
        self.caretaker.close()
        self.store.close()
        self.activity.close()
        self.engine.close()


def address_of(settings: LanceSettings, world: World) -> str:
    """Return where the store lies: an address, or an absolute path."""
    if settings.uri is None:
        return str(world.path / FOLDER)
    return settings.uri if "://" in settings.uri else str(absolute(settings.uri))


def engine_of(settings: LanceSettings, world: World) -> Engine:
    """Return the engine of a store, not open yet. Raises ConfigError."""
    secret = _options_in(settings)
    options = {**settings.options, **secret}
    secrets = tuple(secret.values())
    return Engine(
        address_of(settings, world), options, settings.timeout_seconds, secrets, settings.lock_seconds
    )


def _options_in(settings: LanceSettings) -> dict[str, str]:
    """Return the options of the file that the settings name."""
    if settings.options_file is None:
        return {}
    path = absolute(settings.options_file)
    try:
        mode = path.stat().st_mode
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no TOML"  # its words may hold a part of a secret
        raise ConfigError(f"[providers.lancedb] options_file: {path} can't be read: {why}") from None
    if mode & _OPEN_MODE:
        raise ConfigError(
            f"[providers.lancedb] options_file: others can read {path}; change that: chmod 600 '{path}'"
        )
    if not all(isinstance(value, str) for value in found.values()):
        raise ConfigError(f"[providers.lancedb] options_file: {path} holds something that is no text")
    return dict(found)


def open_parts(settings: LanceSettings, world: World) -> Parts:
    """Open the store, creating it where there is none. Raises StoreTooNew, ConfigError or a BackendError."""
    engine = engine_of(settings, world)
    if engine.folder is not None:
        _make_folder(engine.folder)
    engine.open()
    try:
        catalogue = Catalogue(engine)
        locks = Locks(engine, settings.lock_seconds)
        with locks.held(CREATE):
            header = catalogue.open(lambda: _new_header(world))
        rules = Rules(world.vocabulary, zone_named(header.timezone))
        model = read_model(catalogue)
        store = Store(engine, catalogue, locks, world)
        if model is not None and model.dimensions:
            store.go_by(Kept(model))
        if engine.remote:
            store.versioned = keeps_versions(engine.uri, engine.options)
    except BaseException:
        engine.close()
        raise
    caretaker = mending.Caretaker(store, settings)
    activity = Activity(_activity_file(engine.uri, world))
    return Parts(engine, store, activity, rules, model, LanceShelf(store), caretaker, settings)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BackendUnavailable(
            f"creating {folder} failed: {error.strerror or error}; choose another uri, or mend that"
        ) from error


def _new_header(world: World) -> Header:
    return new_header(world.ids.new(), world.clock.now(), world.timezone or machine_zone())


def _activity_file(uri: str, world: World) -> Path | None:
    if world.state is None:
        return None
    return world.state / f"lancedb-{hashlib.sha256(uri.encode()).hexdigest()[:16]}" / "activity.sqlite"
