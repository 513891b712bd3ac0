"""Steady time: epoch seconds by a clock that nobody sets, for the age of tasks.

People or the network set the wall clock by hours now and then. Ages counted by it would jump, and the queue would
change its order. Steady time is the wall clock of one moment and what the boot clock has counted since. Who keeps it
writes the anchor down, so that it goes on over a restart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .clock import Clock


@dataclass(frozen=True, slots=True)
class Anchor:
    """In the life of the machine that ``boot_id`` names, steady time is the boot clock plus ``offset_s``."""

    boot_id: str
    offset_s: float

    def now(self, clock: Clock) -> float:
        """Steady time in epoch seconds."""
        return clock.monotonic() + self.offset_s


def anchored(kept: Anchor | None, clock: Clock, *, latest: float = -math.inf) -> Anchor:
    """The anchor to go on with: the one that was kept, if the machine has not booted since.

    After a boot it is made anew from the wall clock. Steady time then begins no earlier than ``latest``, the last
    instant that was written down.
    """
    boot_id = clock.boot_id()
    if kept is not None and kept.boot_id == boot_id:
        return kept
    return Anchor(boot_id, max(clock.now(), latest) - clock.monotonic())
