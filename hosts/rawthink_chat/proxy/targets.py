"""Where a request may lead: from its target to a path below the upstream's address, and nowhere else."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from rawthink_chat.proxy.faults import Refused, bad

_CODE: Final = "bad_target"
_DEEP: Final = 4  # times that escapes may be nested; what is still one then is refused
_OUTSIDE: Final = re.compile(r"[\x00-\x20\x7f-\xff#\\]")
_INSIDE: Final = re.compile(r"[\x00-\x1f\x7f\\]")  # of what escapes stand for
_STEPS: Final = re.compile(r"(?:^|[/?])\.{1,2}(?:[/;?#]|$)")

OURS: Final = "/v1"


def checked_path(raw: bytes) -> str:
    """Return the path of a request's target as it stands there. Raises Refused.

    Refused is what could mean another host or a folder above: a target that is no path, two slashes at its
    beginning, steps upwards, backslashes, control characters, and all of these behind escapes. An ``@`` in a
    path is no host: names of models have it.
    """
    path = raw.decode("latin-1")
    if not path.startswith("/"):
        raise bad(_CODE, "the target must be a path, like /v1/chat/completions; a whole URL is not served")
    if path.startswith("//"):
        raise bad(_CODE, "the target begins with two slashes; take the slash off the end of the base URL")
    if _OUTSIDE.search(path):
        raise bad(_CODE, "the path holds a character that must be percent-encoded")
    meant = path
    for _ in range(_DEEP):
        if _INSIDE.search(meant) or _STEPS.search(meant):
            raise bad(_CODE, "the path holds a step upwards, a backslash or a control character")
        before, meant = meant, unquote(meant, "latin-1")
        if meant == before:
            return path
    raise bad(_CODE, "the path is escaped too many times")


def path_below(path: str, prefix: str) -> str:
    """Return the path at the upstream. ``prefix`` is the path of its address, without a slash at the end.

    ``/v1/…`` is what lies below the prefix. Without a prefix, paths go as they are. Raises Refused with 404.
    """
    if not prefix:
        return path
    if path == OURS or path.startswith(f"{OURS}/"):
        return prefix + path.removeprefix(OURS)
    raise Refused(
        404, "not_below_v1", f"only paths below {OURS} are served; end the client's base URL with {OURS}"
    )
