"""The look-out for secrets in a batch: says where one seems to stand and, where that is wished, masks it.

`redaction` knows what a secret looks like; this module knows in which fields of a batch people write. What a
revision aims at stays as it is, because a target is named by its exact text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from rawthink_core.operations import Advice, Batch, Request
from rawthink_core.redaction import Redacted, redact

if TYPE_CHECKING:
    from collections.abc import Sequence

R = TypeVar("R", bound=Request)

_LISTS = ("entities", "observations", "relations", "passages", "revisions")
_WRITTEN = ("name", "aliases", "text", "reason", "speaker", "tags")
_REFERENCES = ("entity", "source", "target", "supersedes")  # masked like the names that they refer to
_PARTS = ("successor", "fields")


def written(batch: Batch) -> int:
    """Return about how many characters there are to look through."""
    texts = [item.text for item in (*batch.observations, *batch.passages)]  # type: ignore[attr-defined] # both have one
    return sum(map(len, texts)) + sum(len(c.successor.text or "") for c in batch.revisions if c.successor)


def look_for_secrets(batch: Batch, *, masking: bool) -> tuple[Batch, list[Advice]]:
    """Return the batch, its secrets masked if ``masking``, and one warning for each field that holds any."""
    look = _Look(masking)
    changed = {name: look.through(getattr(batch, name), name) for name in _LISTS}
    return (batch.model_copy(update=changed) if masking and look.warnings else batch), look.warnings


class _Look:
    def __init__(self, masking: bool) -> None:
        self.masking = masking
        self.warnings: list[Advice] = []
        self._seen: dict[str, Redacted] = {}

    def through(self, items: Sequence[R], where: str) -> tuple[R, ...]:
        return tuple(self._item(item, f"{where}.{index}") for index, item in enumerate(items))

    def _item(self, item: R, where: str) -> R:
        changed: dict[str, Any] = {}
        for name in item.model_fields_set:
            value = getattr(item, name)
            if value is None:
                continue
            if name in _PARTS:
                changed[name] = self._item(value, f"{where}.{name}")
            elif name in _WRITTEN or name in _REFERENCES:
                masked = self._value(value, f"{where}.{name}" if name in _WRITTEN else None)
                if masked != value:
                    changed[name] = masked
        return item.model_copy(update=changed) if changed else item

    def _value(self, value: str | tuple[str, ...], where: str | None) -> str | tuple[str, ...]:
        if isinstance(value, tuple):
            return tuple(self._text(text, where) for text in value)
        return self._text(value, where)

    def _text(self, text: str, where: str | None) -> str:
        """Return a text without its secrets. ``where`` is None for a reference: nothing is said of it."""
        if (found := self._seen.get(text)) is None:
            found = self._seen[text] = redact(text)
        if found.found and where is not None:
            kinds = ", ".join(sorted({secret.kind for secret in found.found}))
            done = (
                "was masked" if self.masking else "is stored as it stands; `forget` it if that was a mistake"
            )
            problem = f"{where} looks like it holds a secret ({kinds}), which {done}"
            self.warnings.append(Advice(kind="secret", text=problem))
        return found.text
