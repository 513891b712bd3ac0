"""Until when the launchers may let their attempts run, as of TaskManager's last answer. Pure.

TaskManager may call an attempt LOST when it has heard nothing for ``lease_s``; the launcher must be done before that.
So the time counts from when the heartbeat was *sent*, and ends ``stop_s`` early.
"""

from __future__ import annotations

from dataclasses import dataclass

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Lease:
    """``until_boot_ns`` None: without limit."""

    until_boot_ns: int | None = None

    @property
    def enforced(self) -> bool:
        return self.until_boot_ns is not None


def lease_after_answer(*, sent_s: float, lease_s: float, enforced: bool, stop_s: float) -> Lease:
    """The lease that an answered heartbeat gives; ``sent_s`` is the boot clock when it was sent."""
    if not enforced:
        return Lease()
    # A test cluster's lease may be shorter than the ordinary stop time.
    usable_s = lease_s - min(stop_s, lease_s / 2)
    return Lease(round((sent_s + usable_s) * _NS))


def later_lease(one: Lease, other: Lease) -> Lease:
    """Answers may overtake each other: no lease becomes shorter by one that was asked for earlier."""
    if one.until_boot_ns is None or other.until_boot_ns is None:
        return other
    return one if one.until_boot_ns >= other.until_boot_ns else other
