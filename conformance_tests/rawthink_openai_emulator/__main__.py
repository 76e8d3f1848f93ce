"""``python -m rawthink_openai_emulator [--port N]``: serves until it is interrupted."""

from __future__ import annotations

import argparse

from rawthink_openai_emulator.emulator import Emulator


def main() -> None:
    """Serve, and say where."""
    parser = argparse.ArgumentParser(prog="rawthink_openai_emulator", description=__doc__)
    parser.add_argument("--port", type=int, default=8399, help="0 takes a free one")
    emulator = Emulator(port=parser.parse_args().port)
    print(f"OPENAI_BASE_URL={emulator.url}", flush=True)  # noqa: T201 - what a command says
    emulator.run()


if __name__ == "__main__":
    main()
