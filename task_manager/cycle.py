"""One scheduling pass: a snapshot and one ``now`` go in, a plan comes out. Nothing else happens here."""

from __future__ import annotations

from .backfill import Walk
from .passes import (
    Discipline,
    Dropped,
    Estimate,
    PassInput,
    PassSettings,
    Placement,
    Plan,
    Rough,
    Wait,
    Why,
)

__all__ = [
    "Discipline",
    "Dropped",
    "Estimate",
    "PassInput",
    "PassSettings",
    "Placement",
    "Plan",
    "Rough",
    "Wait",
    "Why",
    "plan",
]


def plan(inp: PassInput) -> Plan:
    """What starts now, and what is kept for whom.

    Of the snapshot only the queue's own order is touched: a rule that re-sorts is sorted to this moment.
    """
    inp.queue.sort(inp.wall_s, inp.view)
    return Walk(inp).run()
