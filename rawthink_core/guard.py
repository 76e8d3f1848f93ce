"""What stands between a caller and the store: hooks of plugins, and the look-out for secrets.

``before_*`` hooks fail closed: an error or more than a second refuses the batch and names the plugin.
``after_commit`` can change nothing, so its errors are logged.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rawthink_core.errors import HookRefused
from rawthink_core.operations import Advice, Batch
from rawthink_core.redaction import find_secrets, redact

if TYPE_CHECKING:
    from collections.abc import Callable

    import pluggy

    from rawthink_core.operations import NewPassage, RecordReceipt

log = logging.getLogger("rawthink.hooks")
HOOK_SECONDS = 1.0

T = TypeVar("T")


class Guard:
    """Runs hooks and finds secrets. ``secrets`` is ``on`` (mask them), ``warn`` or ``off``."""

    def __init__(
        self,
        hooks: pluggy.PluginManager | None = None,
        secrets: Literal["on", "warn", "off"] = "warn",
        seconds: float = HOOK_SECONDS,
    ) -> None:
        self._hooks = hooks
        self._secrets = secrets
        self._seconds = seconds

    async def before_record(self, batch: Batch) -> tuple[Batch, list[Advice]]:
        """Return the batch to write, and warnings about secrets in it. Raises HookRefused."""
        warnings: list[Advice] = []
        if self._secrets != "off":
            batch, warnings = self._look_for_secrets(batch)
        return await self._chain("before_record", batch, Batch), warnings

    async def before_capture(self, passages: tuple[NewPassage, ...]) -> tuple[NewPassage, ...]:
        """Return the passages of a turn to store. Raises HookRefused."""
        return await self._chain("before_capture", passages, tuple)

    async def after_commit(self, receipt: RecordReceipt) -> None:
        """Tell the plugins of a commit."""
        if self._hooks is None:
            return
        for plugin in self._hooks.hook.after_commit.get_hookimpls():
            try:
                await self._call(plugin.plugin_name, "after_commit", plugin.function, receipt)
            except HookRefused as error:
                log.warning("%s", error.why, extra={"plugin": error.plugin})

    async def _chain(self, hook: str, value: T, kind: type) -> T:
        if self._hooks is None:
            return value
        for plugin in getattr(self._hooks.hook, hook).get_hookimpls():
            changed = await self._call(plugin.plugin_name, hook, plugin.function, value)
            if changed is None:
                continue
            if not isinstance(changed, kind):
                raise HookRefused(plugin.plugin_name, hook, f"it returned a {type(changed).__name__}")
            value = changed
        return value

    async def _call(self, plugin: str, hook: str, function: Callable[[Any], Any], value: object) -> Any:
        task = asyncio.ensure_future(asyncio.to_thread(function, value))
        done, _ = await asyncio.wait({task}, timeout=self._seconds)
        if not done:
            raise HookRefused(plugin, hook, f"it took more than {self._seconds:g} s")
        if (error := task.exception()) is not None:
            raise HookRefused(plugin, hook, f"{type(error).__name__}: {error}") from error
        return task.result()

    def _look_for_secrets(self, batch: Batch) -> tuple[Batch, list[Advice]]:
        masking = self._secrets == "on"
        warnings: list[Advice] = []
        changed: dict[str, Any] = {}
        for name in ("observations", "passages"):
            items = list(getattr(batch, name))
            for index, item in enumerate(items):
                found = find_secrets(item.text)
                if not found:
                    continue
                kinds = ", ".join(sorted({secret.kind for secret in found}))
                done = (
                    "was masked" if masking else "is stored as it stands; `forget` it if that was a mistake"
                )
                warnings.append(
                    Advice(
                        kind="secret",
                        text=f"{name}.{index} looks like it holds a secret ({kinds}), which {done}",
                    )
                )
                if masking:
                    items[index] = item.model_copy(update={"text": redact(item.text).text})
                    changed[name] = tuple(items)
        return (batch.model_copy(update=changed) if changed else batch), warnings
