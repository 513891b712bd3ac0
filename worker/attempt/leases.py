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
    return Lease(round((sent_s + usable_s(lease_s, stop_s)) * _NS))


def usable_s(lease_s: float, stop_s: float) -> float:
    """For how long after an answered heartbeat was sent the launchers let their attempts run."""
    # A test cluster's lease may be shorter than the ordinary stop time.
    return lease_s - min(stop_s, lease_s / 2)


def later_lease(one: Lease, other: Lease) -> Lease:
    """The lease that counts. Answers may overtake each other, and an earlier one must not shorten the lease."""
    if one.until_boot_ns is None or other.until_boot_ns is None:
        return other
    return one if one.until_boot_ns >= other.until_boot_ns else other


def counts_from_s(*, arrived_s: float, lease_s: float, stop_s: float, answered: Lease | None) -> float:
    """The boot clock from which the lease of a launch counts: the last answered heartbeat before it, or its arrival.

    A launch may have waited on its way, in a buffer or in front of a Worker that stood still. Only the heartbeat tells
    how old TaskManager's word is at most.
    """
    if answered is None or answered.until_boot_ns is None:
        return arrived_s
    return min(arrived_s, answered.until_boot_ns / _NS - usable_s(lease_s, stop_s))


def first_lease(
    *,
    launched_enforced: bool,
    lease_s: float,
    stop_s: float,
    arrived_s: float | None,
    answered: Lease | None,
) -> Lease | None:
    """The lease with which an attempt may begin. None: nothing is known that would let it begin.

    However long image and engine take, only an answered heartbeat moves it on.

    Args:
        launched_enforced: whether the launch said that leases are enforced.
        lease_s: of the launch, in seconds.
        arrived_s: boot clock from which the launch counts. None: in another boot, or before a restart of this Worker
            with leases that were not enforced.
        answered: what the last answered heartbeat of this Worker's life gave. None: there was none yet.
    """
    # A launch from a TaskManager that has just started may say that leases are not enforced, while it counts by them.
    if arrived_s is None or (answered is not None and answered.enforced):
        return answered
    # An answer without a limit is older than a launch that has one.
    return lease_after_answer(sent_s=arrived_s, lease_s=lease_s, enforced=launched_enforced, stop_s=stop_s)
