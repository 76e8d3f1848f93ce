"""`rawthink proxy`: a memory beside a chat API, for any program that can set a base URL."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from typing import Any, Final

import click

_SERVER: Final = "uvicorn"
# They would write addresses with queries, and headers with keys, into a log.
_TALKATIVE: Final = ("httpx2", "httpcore2", "h11")


@click.command("proxy")
@click.option("--upstream", metavar="URL", help="The chat API, with its /v1: https://api.openai.com/v1.")
@click.option("--host", metavar="ADDRESS", help="Address to listen on (default 127.0.0.1).")
@click.option("--port", metavar="N", type=click.IntRange(0, 65_535), help="Port (default 4411; 0: any free).")
@click.option("--new-token", metavar="NAME", help="Make a token, print it with its settings, and end.")
@click.option("--space", metavar="NAME", help="The memory to work in, where there are no tokens.")
@click.option("--vault", metavar="DIR", help="Folder of your memory and notes.")
@click.option("--provider", metavar="NAME", help="The backend to use.")
@click.option("--config", metavar="FILE", help="Settings to read.")
def proxy(
    upstream: str | None,
    host: str | None,
    port: int | None,
    new_token: str | None,
    *,
    space: str | None,
    vault: str | None,
    provider: str | None,
    config: str | None,
) -> None:
    """Serve a chat API with a memory beside it.

    Programs set their base URL to the address that it prints, and keep their key: it goes through to the
    upstream. docs/proxy.md says what is remembered, and how several people share one proxy.
    """
    if new_token is not None:
        click.echo("\n".join(token_lines(new_token, space)))
        return
    from pathlib import Path  # noqa: PLC0415 - not on the path of --help

    from rawthink_core.config import load  # noqa: PLC0415 - see above

    given: dict[str, Any] = {"upstream": upstream, "host": host, "port": port}
    said = {key: value for key, value in given.items() if value is not None}
    configuration = load(
        Path(config) if config else None, space=space, vault=vault, provider=provider, proxy=said or None
    )
    if importlib.util.find_spec(_SERVER) is None:
        raise click.ClickException("the proxy needs uvicorn: pip install 'rawthink[proxy]'")
    _set_up_logging()
    for notice in configuration.notices:
        click.echo(f"note: {notice}", err=True)

    from rawthink_chat.proxy.running import leave, run  # noqa: PLC0415 - only when all of it is right

    run(configuration, lambda line: click.echo(line, err=True))
    leave(0)


def token_lines(name: str, space: str | None) -> list[str]:
    """Return a new token, and the lines of `rawthink.toml` that let it in. The token is kept nowhere."""
    import hashlib  # noqa: PLC0415 - not on the path of --help
    import json  # noqa: PLC0415 - see above
    import re  # noqa: PLC0415 - see above
    import secrets  # noqa: PLC0415 - see above

    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise click.UsageError("--new-token: a name has letters, digits, - and _, at most 64")
    token = secrets.token_urlsafe(32)
    return [
        f"# The token, shown this once: {token}",
        "# Into rawthink.toml:",
        f"[tokens.{name}]",
        f'sha256 = "{hashlib.sha256(token.encode()).hexdigest()}"',
        f"space = {json.dumps(space or name, ensure_ascii=False)}",
    ]


def _set_up_logging() -> None:
    """Log to stderr at the level that ``RAWTHINK_LOG_LEVEL`` names, by default one line a request."""
    level = os.environ.get("RAWTHINK_LOG_LEVEL", "").strip().upper() or "INFO"
    known = level in logging.getLevelNamesMapping()
    logging.basicConfig(
        level=level if known else "INFO",
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    if not known:
        logging.getLogger("rawthink.proxy").warning(
            "RAWTHINK_LOG_LEVEL is %r: use DEBUG, INFO, WARNING or ERROR", level
        )
