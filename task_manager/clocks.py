"""Which clock counts for what.

* The boot clock: passes, bookings, places, leases. It never steps, and starts anew with the machine.
* The steady clock (``headway.steady``), JobManager's: since when a task ages. What is compared with that (whose turn it
  is, and when nobody can come ahead any more) is by the same clock.
* The wall clock: what is shown, and what is stored for another life of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass

# What two clocks that the network sets are apart, and what a message takes: nobody has set one of them.
_ALIKE_S = 2.0
_LATER_S = 0.5


@dataclass(frozen=True, slots=True)
class ClockReading:
    """What the clocks here say at one moment: ``now`` by the wall clock in epoch seconds, ``mono`` in seconds since the
    boot that ``boot_id`` names."""

    now: float
    mono: float
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class SteadyOffset:
    """JobManager's steady clock is the boot clock here plus ``offset_s``, while both machines live on: its one since
    ``of_boot_id``, this one since ``boot_id``."""

    of_boot_id: str
    boot_id: str
    offset_s: float


def updated_offset(
    before: SteadyOffset | None, of_boot_id: str, steady: float, reading: ClockReading
) -> SteadyOffset | None:
    """What is known once JobManager has told its clock. A message that took long tells it too early, never too late."""
    if not of_boot_id:
        return before
    said = SteadyOffset(of_boot_id, reading.boot_id, steady - reading.mono)
    if before is None or (before.of_boot_id, before.boot_id) != (said.of_boot_id, said.boot_id):
        return said
    return said if said.offset_s > before.offset_s + _LATER_S else before


def ahead_s(known: SteadyOffset | None, reading: ClockReading) -> float:
    """By how many seconds the steady clock is ahead of the wall clock here; 0 unless one of them was set."""
    if known is None or known.boot_id != reading.boot_id:
        return 0.0
    found = reading.mono + known.offset_s - reading.now
    return found if abs(found) > _ALIKE_S else 0.0
