"""The temporal graph as pure functions: `prepare`, `needs` and `plan`.

A provider that has received a batch does this, under whatever makes its writes exclusive (`draft.Draft` does
it for one whose look-ups block)::

    work = prepare(batch, rules)                      # what can be judged without the store
    known = Slice()
    while wanted := needs(work, known, at):           # which part of the graph must be seen
        known.learn(fetch(wanted))                    # one to three rounds; more where much was erased
    rows = plan(work, known, at)                      # the rows of one commit, or every fault at once

`needs` never asks for "all observations of an entity", so a store that holds no whole graph in memory,
or that sits behind a network, uses it unchanged. Nothing here reads a clock or a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_core.clock import iso
from rawthink_core.model import Rules
from rawthink_core.planning import Planner
from rawthink_core.slice import Facts, Needs, Slice
from rawthink_core.validation import prepare
from rawthink_core.work import Work

if TYPE_CHECKING:
    from datetime import datetime

    from rawthink_core.rows import Row

__all__ = ["Facts", "Needs", "Rules", "Slice", "Work", "needs", "plan", "prepare"]


def needs(work: Work, known: Slice, at: datetime) -> Needs:
    """Return what must be seen of the graph before `plan` at the same instant; empty (false) when nothing is.

    A dry run of the plan notes what it asks for, so what is fetched can't drift from what is used. The run
    that lacks nothing is the plan: ``work`` keeps it, and `plan` need not run again.
    """
    planner = Planner(work, known, iso(at))
    planner.run()
    wanted = known.take_wanted()
    work.settled = None if wanted else planner
    return wanted


def plan(work: Work, known: Slice, at: datetime) -> tuple[Row, ...]:
    """Return the rows of one commit at the instant ``at``.

    Raises InvalidRequest with every fault of the batch; AlreadyRevised or NotFound when that alone is
    wrong with its targets.
    """
    settled = work.settled
    if isinstance(settled, Planner) and settled.known is known and settled.at == iso(at):
        return settled.finish()
    planner = Planner(work, known, iso(at))
    planner.run()
    return planner.finish()
