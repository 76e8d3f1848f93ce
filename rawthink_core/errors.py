"""Every error that RAWThink raises on purpose, as one tree.

::

    RawThinkError
    ├── InvalidRequest              the caller must change the call; carries every fault at once
    │   ├── BatchIdReused           this batch id was committed with other content
    │   └── UnknownSpace            the backend needs to be told what this space is
    ├── NotFound                    no such item in this space
    ├── AlreadyRevised              another revision came first; carries the successor's id
    ├── UnsupportedOperation        this provider does not do this, by its own declaration
    ├── BackendError                the store could not do its work; never an empty answer
    │   ├── BackendUnavailable      it cannot be reached, opened or written
    │   ├── BackendTimeout          it did not answer in time, or its lock is held
    │   ├── AuthenticationFailed    it refused our credentials
    │   ├── BackendProtocolError    it answered something that its protocol does not allow
    │   │   └── TextsNotEmbedded    the model has no vector for some texts; carries those of the others
    │   └── StoreDamaged            its files hold what cannot be read; says what `doctor` will do
    ├── StoreTooNew                 written by a newer version of RAWThink
    ├── EmbedderMismatch            the store's vectors come from another embedder
    ├── HookRefused                 a plugin's `before_*` hook refused or failed
    ├── PluginError                 a plugin is missing, or speaks another contract version
    └── ConfigError                 a setting is wrong; names the file and the key

Messages say what happened, where, and what to do next. They never contain a secret.
This module imports nothing of ours and may be imported by anything.
"""
# ruff: noqa: N818 - these names say what happened; callers write `except NotFound`

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_QUOTED = 60
_LISTED = 3  # texts that an error about many of them names


def quoted(text: str) -> str:
    """Return a caller's own words in quotes for an error, cut where they are long."""
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…")


class RawThinkError(Exception):
    """Base of every error that RAWThink raises on purpose."""


class Fault(NamedTuple):
    """One thing wrong with a request: where it stands, and what to do about it."""

    where: str
    problem: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}" if self.where else self.problem


class InvalidRequest(RawThinkError):
    """The request cannot be carried out as it stands; nothing was written.

    ``faults`` lists everything that is wrong with it, so that one correction is enough.
    """

    def __init__(self, faults: Sequence[Fault] | str) -> None:
        self.faults: tuple[Fault, ...] = (Fault("", faults),) if isinstance(faults, str) else tuple(faults)
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        if len(self.faults) == 1:
            return str(self.faults[0])
        lines = "".join(f"\n  - {fault}" for fault in self.faults)
        return f"{len(self.faults)} faults, nothing was written:{lines}"


class BatchIdReused(InvalidRequest):
    """A batch with this id was committed before, with other content. Use a new id for new content."""


class UnknownSpace(InvalidRequest):
    """The backend has no place for this space until its configuration names one."""


class NotFound(RawThinkError):
    """No such item in this space (an item of another space is "not found" too)."""


class AlreadyRevised(RawThinkError):
    """What should be revised is no longer active.

    ``target`` is its id; ``successor`` the id of what replaced it, or None when it was retracted.
    """

    def __init__(self, target: str, successor: str | None) -> None:
        self.target = target
        self.successor = successor
        then = f"it was replaced by {successor}; revise that instead" if successor else "it was retracted"
        super().__init__(f"{target} is no longer active: {then}. Nothing was written.")


class UnsupportedOperation(RawThinkError):
    """This provider does not offer this operation; ``info.capabilities`` says the same."""

    def __init__(self, provider: str, operation: str, why: str = "") -> None:
        self.provider = provider
        self.operation = operation
        self.why = why
        super().__init__(f"{provider} does not support {operation}" + (f": {why}" if why else ""))


class BackendError(RawThinkError):
    """The store failed. This is never reported as an empty answer."""


class BackendUnavailable(BackendError):
    """The store cannot be reached, opened, read or written."""


class BackendTimeout(BackendError):
    """The store did not answer in time, or another process holds its lock."""


class AuthenticationFailed(BackendError):
    """The store refused our credentials."""


class BackendProtocolError(BackendError):
    """The store answered something that its protocol does not allow."""


class TextsNotEmbedded(BackendProtocolError):
    """The model has no vector for some texts and will have none later: set these aside, keep the others.

    ``failed`` maps their positions in the request to the reason, ``vectors`` the other positions to vectors.
    """

    def __init__(self, failed: Mapping[int, str], vectors: Mapping[int, list[float]]) -> None:
        self.failed = dict(failed)
        self.vectors = dict(vectors)
        told = "; ".join(f"text {position}: {why}" for position, why in list(self.failed.items())[:_LISTED])
        more = f" and {len(self.failed) - _LISTED} more" if len(self.failed) > _LISTED else ""
        texts = len(self.failed) + len(self.vectors)
        super().__init__(
            f"{len(self.failed)} of {texts} texts have no vector and go by their words: {told}{more}"
        )


class StoreDamaged(BackendError):
    """The store's own files hold something unreadable. Nothing was changed; ``rawthink doctor`` shows it."""


class StoreTooNew(RawThinkError):
    """The store was written by a newer RAWThink. Nothing was read or changed; upgrade to use it."""


class EmbedderMismatch(RawThinkError):
    """The store's vectors come from another embedder. Nothing was written."""


class HookRefused(RawThinkError):
    """A plugin's hook refused this operation, failed, or took too long. Nothing was written."""

    def __init__(self, plugin: str, hook: str, why: str) -> None:
        self.plugin = plugin
        self.hook = hook
        self.why = why
        super().__init__(
            f"plugin {plugin!r} refused in {hook}: {why}. Nothing was written. "
            f"RAWTHINK_PLUGINS=none starts without plugins."
        )


class PluginError(RawThinkError):
    """A plugin is missing, cannot be loaded, or speaks another version of the contract."""


class ConfigError(RawThinkError):
    """A setting is wrong. The message names where it was set, what is allowed, and the nearest match."""
