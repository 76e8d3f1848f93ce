"""What stands between a caller and the store: hooks of plugins, and the look-out for secrets.

``before_*`` hooks fail closed: an error or more than a second refuses the batch and names the plugin.
``after_commit`` can change nothing, so its errors are logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rawthink_core.errors import HookRefused, InvalidRequest
from rawthink_core.masking import look_for_secrets, written
from rawthink_core.operations import AfterChat, Batch, NewPassage, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    import pluggy

    from rawthink_core.operations import Advice, RecordReceipt

log = logging.getLogger("rawthink.hooks")
HOOK_SECONDS = 1.0
T = TypeVar("T")

_AT_ONCE = 20_000  # characters that are looked through in some 20 ms; more are left to a thread


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

    @property
    def masks(self) -> bool:
        """Whether secrets are masked in what is recorded."""
        return self._secrets == "on"

    async def before_record(self, batch: Batch) -> tuple[Batch, list[Advice]]:
        """Return the batch to write, and warnings about secrets in it. Raises HookRefused."""
        warnings: list[Advice] = []
        if self._secrets != "off":
            masking = self._secrets == "on"
            if written(batch) <= _AT_ONCE:
                batch, warnings = look_for_secrets(batch, masking=masking)
            else:
                batch, warnings = await asyncio.to_thread(look_for_secrets, batch, masking=masking)

        def checked(changed: object) -> Batch:
            if not isinstance(changed, Batch):
                raise TypeError(f"it returned a {type(changed).__name__}, not a Batch")
            if (changed.id, changed.scope) != (batch.id, batch.scope):
                raise ValueError("it changed the id or the space of the batch")
            # checked anew, because a model can be copied with values that no caller may send
            return parse(Batch, changed.model_dump(warnings=False))

        return await self._chain("before_record", batch, checked), warnings

    async def before_capture(self, passages: tuple[NewPassage, ...]) -> tuple[NewPassage, ...]:
        """Return the passages of a turn to store. Raises HookRefused."""

        def checked(changed: object) -> tuple[NewPassage, ...]:
            if not isinstance(changed, tuple) or not all(isinstance(each, NewPassage) for each in changed):
                raise TypeError("it returned something else than a tuple of NewPassage")
            dumped = [passage.model_dump(warnings=False) for passage in changed]
            return parse(AfterChat, {"id": "-", "scope": {"space": "-"}, "passages": dumped}).passages

        return await self._chain("before_capture", passages, checked)

    async def after_commit(self, receipt: RecordReceipt) -> None:
        """Tell the plugins of a commit."""
        for plugin in self._plugins("after_commit"):
            try:
                await self._call(plugin, "after_commit", receipt)
            except HookRefused as error:
                log.warning("plugin %r failed in after_commit: %s", error.plugin, error.why)

    def _plugins(self, hook: str) -> list[pluggy.HookImpl]:
        """Return what implements a hook, in pluggy's order: `tryfirst` first, then the last registered."""
        return [] if self._hooks is None else getattr(self._hooks.hook, hook).get_hookimpls()[::-1]

    async def _chain(self, hook: str, value: T, checked: Callable[[object], T]) -> T:
        for plugin in self._plugins(hook):
            changed = await self._call(plugin, hook, value)
            if changed is None:
                continue
            try:
                value = checked(changed)
            except (TypeError, ValueError, InvalidRequest) as error:
                raise HookRefused(plugin.plugin_name, hook, str(error)) from error
        return value

    async def _call(self, plugin: pluggy.HookImpl, hook: str, value: object) -> Any:
        call = _in_thread(plugin.function, *([value] if plugin.argnames else ()))
        done, _ = await asyncio.wait({call}, timeout=self._seconds)
        if not done:
            raise HookRefused(plugin.plugin_name, hook, f"it took more than {self._seconds:g} s")
        if (error := call.exception()) is not None:
            raise HookRefused(plugin.plugin_name, hook, f"{type(error).__name__}: {error}") from error
        return call.result()


def _in_thread(function: Callable[..., Any], *args: object) -> asyncio.Future[Any]:
    """Call a function in a thread of its own; what comes after nobody waits any more is dropped.

    Not in the loop's pool: a hook that hangs would keep a place there for good, and an exit waiting.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
            future.exception()  # it counts as seen: late errors are nobody's

    def work() -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            result = function(*args)
        except StopIteration as error:  # futures can't carry it
            failure = RuntimeError(f"StopIteration: {error}")
        except BaseException as error:  # noqa: BLE001 - a hook may raise anything, and all of it refuses
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name="rawthink-hook", daemon=True).start()
    return future
