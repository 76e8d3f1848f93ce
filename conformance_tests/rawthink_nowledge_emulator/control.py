"""The switches over HTTP, below ``/__emulator__``, for tests in another process or language.

Names and arguments are those of `Emulator`'s methods: ``POST /__emulator__/fail {"match": …, "what": …}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_nowledge_emulator.assumed import ASSUMED
from rawthink_nowledge_emulator.background import JOBS
from rawthink_nowledge_emulator.behaviours import BEHAVIOURS
from rawthink_nowledge_emulator.failures import CODES, PAGES, WAYS
from rawthink_nowledge_emulator.wire import Reply, Request

if TYPE_CHECKING:
    from rawthink_nowledge_emulator.emulator import Emulator

PREFIX = "/__emulator__"
SWITCHES = (
    "fail",
    "heal",
    "release",
    "lag",
    "reindex",
    "degrade",
    "advance",
    "assume",
    "background",
    "add_space",
    "reset",
)


def answer(emulator: Emulator, request: Request) -> Reply:
    """Answer a control request: 400 with a sentence for what it can't do."""
    name = request.path.removeprefix(PREFIX).strip("/")
    if request.method == "GET":
        shown = _shown(emulator, name)
        return Reply.of({"detail": "Not Found"}, 404) if shown is None else Reply.of(shown)
    if request.method != "POST" or name not in SWITCHES:
        return Reply.of({"detail": f"POST one of {', '.join(SWITCHES)}"}, 404)
    try:
        body = Reply(body=request.body or b"{}").json()
        getattr(emulator, name)(**body)
    except (TypeError, ValueError) as error:
        return Reply.of({"detail": str(error)}, 400)
    return Reply.of({"done": name})


def _shown(emulator: Emulator, name: str) -> Any:
    if name == "requests":
        return [
            {
                "method": seen.request.method,
                "path": seen.request.path,
                "query": seen.request.query,
                "body": seen.request.body.decode(errors="replace"),
                "status": seen.status,
                "applied": seen.applied,
                "failure": seen.failure,
            }
            for seen in emulator.requests
        ]
    if name == "assumed":
        values = emulator.assumed
        return {
            key: {
                "area": one.area,
                "statement": one.statement,
                "value": values[key],
                "others": one.others,
            }
            for key, one in ASSUMED.items()
        }
    if name == "behaviours":
        return [{"number": one.number, "name": one.name, "sentence": one.sentence} for one in BEHAVIOURS]
    if name == "":
        return {
            "switches": SWITCHES,
            "ways": list(WAYS),
            "pages": list(PAGES),
            "codes": list(CODES),
            "jobs": list(JOBS),
        }
    return None
