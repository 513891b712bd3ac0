"""Which clock counts for what.

* The boot clock: passes, bookings, reservations, leases. It never jumps, and starts anew with the machine.
* JobManager's steady clock (``headway.steady``): since when a task ages. What is compared with that is by the same
  clock: whose turn it is, and when no new task can overtake any more.
* The wall clock: what is shown, and what is stored for the time after a reboot.
"""

from __future__ import annotations

from dataclasses import dataclass

# Two clocks that the network sets differ by this at most, with the time of a message: nobody has set one of them.
_ALIKE_S = 2.0
_LATER_S = 0.5


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Both clocks of this machine at one moment. ``now``: wall clock in epoch seconds. ``mono``: seconds since the boot
    that ``boot_id`` names."""

    now: float
    mono: float
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class SteadyOffset:
    """JobManager's steady clock is the boot clock here plus ``offset_s``, as long as neither machine reboots.
    ``of_boot_id``: the boot of its machine; ``boot_id``: of this one."""

    of_boot_id: str
    boot_id: str
    offset_s: float


def updated_offset(
    before: SteadyOffset | None, of_boot_id: str, steady: float, reading: ClockReading
) -> SteadyOffset | None:
    """The offset after a message with JobManager's clock. A slow message makes it too small, never too large."""
    if not of_boot_id:
        return before
    measured = SteadyOffset(of_boot_id, reading.boot_id, steady - reading.mono)
    if before is None or (before.of_boot_id, before.boot_id) != (measured.of_boot_id, measured.boot_id):
        return measured
    return measured if measured.offset_s > before.offset_s + _LATER_S else before


def ahead_s(known: SteadyOffset | None, reading: ClockReading) -> float:
    """By how many seconds the steady clock is ahead of the wall clock here; 0 unless somebody set one of them."""
    if known is None or known.boot_id != reading.boot_id:
        return 0.0
    difference_s = reading.mono + known.offset_s - reading.now
    return difference_s if abs(difference_s) > _ALIKE_S else 0.0
