"""``python -m rawthink_chat.proxy``: the proxy where the command `rawthink` isn't installed."""

from __future__ import annotations

from rawthink_chat.proxy.command import proxy
from rawthink_core.errors import RawThinkError

if __name__ == "__main__":
    try:
        proxy(prog_name="python -m rawthink_chat.proxy")
    except RawThinkError as error:
        raise SystemExit(f"rawthink: {error}") from None
