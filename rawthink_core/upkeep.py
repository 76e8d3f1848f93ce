"""Requests and receipts of upkeep: erasing, copying, mending, and how a store is."""

from __future__ import annotations

from typing import Literal

from rawthink_core.frame import Answer, Scoped
from rawthink_core.model import Text


class Forget(Scoped):
    """What to erase: items by id, entities by name with all said of them, sessions, or all of the space."""

    ids: tuple[Text, ...] = ()
    names: tuple[Text, ...] = ()
    sessions: tuple[Text, ...] = ()
    everything: bool = False


class Place(Answer):
    """One place that held forgotten text, and what became of it there."""

    place: str
    outcome: Literal["erased", "pending", "kept"]
    note: str = ""


class ForgetReceipt(Answer):
    """What was erased, and from where."""

    ids: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()

    @property
    def count(self) -> int:
        """The number of items erased."""
        return len(self.ids)


class Export(Scoped):
    """Asks for every commit of the space, in order."""


class RestoreReceipt(Answer):
    """How many commits a restore added, and how many the store already had."""

    restored: int = 0
    skipped: int = 0


class Maintain(Scoped):
    """Upkeep. ``repair`` sets damaged parts aside; ``reindex`` builds derived indexes anew."""

    repair: bool = False
    reindex: bool = False


class MaintainReceipt(Answer):
    """What upkeep did, a sentence each."""

    done: tuple[str, ...] = ()


class Check(Answer):
    """One row of a health report, with the way to mend it."""

    name: str
    status: Literal["ok", "note", "warn", "fail"]
    detail: str
    fix: str = ""


class Health(Answer):
    """How a store is. ``checks`` go from its files to its indexes.

    ``exists`` is false where there is no store yet: it is ``down`` then, and opening would create it.
    """

    status: Literal["ok", "degraded", "down"]
    location: str
    checks: tuple[Check, ...] = ()
    pending_embeddings: int = 0
    exists: bool = True
