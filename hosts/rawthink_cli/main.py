"""The entry point of the `rawthink` command: streams first, then the command, quietly stoppable.

Only what every run needs is imported here; ``rawthink --help`` costs one import of click.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings

from rawthink_cli import startup

INTERRUPTED = 130  # 128 + SIGINT, as shells count


def main() -> None:
    """Run the command line and exit with its code (they are listed in ``docs/cli.md``)."""
    try:
        startup.shorten()
        _set_up_streams()
        if not sys.warnoptions:
            warnings.simplefilter("ignore")  # they speak to programmers, who can ask for them with -W
        from rawthink_cli.group import rawthink  # noqa: PLC0415 - Ctrl-C during the imports is quiet too

        rawthink.main(prog_name="rawthink")
    except KeyboardInterrupt:
        _leave(INTERRUPTED)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _leave(INTERRUPTED)
        raise


def _set_up_streams() -> None:
    """Make output UTF-8 wherever a program reads it, and printable wherever a person does.

    A pipe or a file gets UTF-8 whatever the locale says: what reads it expects no other. A terminal keeps its
    own encoding, and shows an escape for what it has no character for.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is None:
            continue
        own = (stream.encoding or "ascii").lower() if stream.isatty() else "utf-8"
        reconfigure(encoding="utf-8" if own in ("ascii", "us-ascii") else own, errors="backslashreplace")


def _leave(code: int) -> None:
    """Leave at once, without waiting for threads: a write is whole or absent whenever we stop."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
