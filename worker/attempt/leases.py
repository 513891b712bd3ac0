"""Until when launchers may let their attempts run, by TaskManager's last answer. Pure.

TaskManager may call an attempt LOST when no heartbeat came for ``lease_s``. The launcher must have ended it before.
So the lease counts from when the heartbeat was *sent*, and ends ``stop_s`` early.
"""

from __future__ import annotations

from dataclasses import dataclass

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Lease:
    """``until_boot_ns`` is nanoseconds of the boot clock. None: without limit."""

    until_boot_ns: int | None = None

    @property
    def enforced(self) -> bool:
        return self.until_boot_ns is not None


def lease_after_answer(*, sent_s: float, lease_s: float, enforced: bool, stop_s: float) -> Lease:
    """The lease that an answered heartbeat gives. ``sent_s`` is the boot clock when it was sent."""
    if not enforced:
        return Lease()
    # A test cluster's lease may be shorter than the ordinary stop time.
    usable_s = lease_s - min(stop_s, lease_s / 2)
    return Lease(round((sent_s + usable_s) * _NS))


def later_lease(one: Lease, other: Lease) -> Lease:
    """The lease that counts. Answers may overtake each other, and an earlier one must not shorten the lease."""
    if one.until_boot_ns is None or other.until_boot_ns is None:
        return other
    return one if one.until_boot_ns >= other.until_boot_ns else other
