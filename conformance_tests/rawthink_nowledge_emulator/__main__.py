"""``python -m rawthink_nowledge_emulator``: the emulator as a process, for clients in any language."""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from rawthink_nowledge_emulator.emulator import Emulator
from rawthink_nowledge_emulator.profiles import GENERATIONS, PROFILES


def main(arguments: list[str] | None = None) -> int:
    """Serve until a signal comes or standard input closes where ``--until-stdin-closes`` is given."""
    parser = argparse.ArgumentParser(prog="python -m rawthink_nowledge_emulator", description=__doc__)
    parser.add_argument(
        "--port", type=int, default=0, help="a port on loopback; 0 (the default) is a free one"
    )
    parser.add_argument("--generation", default="0.10", choices=[*GENERATIONS, *PROFILES])
    parser.add_argument("--api-key", help="ask for this key")
    parser.add_argument("--free-plan", action="store_true", help="at most 20 memories")
    parser.add_argument(
        "--space", action="append", default=[], help="a space to begin with, by id; repeatable"
    )
    parser.add_argument(
        "--until-stdin-closes", action="store_true", help="end with the process that started it"
    )
    said = parser.parse_args(arguments)
    ended = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: ended.set())
    with Emulator(said.generation, api_key=said.api_key, free_plan=said.free_plan, port=said.port) as server:
        for space in said.space:
            server.add_space(space)
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        if said.until_stdin_closes:
            threading.Thread(target=_wait_for_end, args=(ended,), daemon=True).start()
        ended.wait()
    return 0


def _wait_for_end(ended: threading.Event) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    ended.set()


if __name__ == "__main__":
    sys.exit(main())
