"""What makes a command that runs once start sooner, and how to undo it for one that runs long."""

from __future__ import annotations

import gc
import os

_VARIABLE = "PYDANTIC_DISABLE_PLUGINS"
_shortened = False


def shorten() -> None:
    """Leave out what a short run can do without: collecting while modules load, plugins of pydantic.

    The first is a fifth of the start-up time; the second reads every installed distribution.
    """
    global _shortened  # noqa: PLW0603 - a process starts once
    gc.disable()
    if _VARIABLE not in os.environ:
        os.environ[_VARIABLE] = "__all__"
        _shortened = True


def collect_again() -> None:
    """Turn the collector on, now that everything is loaded that stays to the end."""
    gc.freeze()
    gc.enable()


def lengthen() -> None:
    """Undo `shorten`, for a command that is not ours."""
    global _shortened  # noqa: PLW0603 - see above
    gc.enable()
    if _shortened:
        os.environ.pop(_VARIABLE, None)
        _shortened = False
