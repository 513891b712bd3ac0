"""When a disk is too full, and whose doing it is. Pure.

With less than ``low_bytes`` free the Worker takes no new work. With less than half of that it ends the task that has
written most, before databases, logs and the other tasks are hit: no container engine limits what a container writes
on every kind of file system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.ids import AttemptId
from headway.units import format_size

_CALM = 1.5  # so many times ``low_bytes`` must be free again, so that the condition does not flicker
_FASTEST = 2 << 30  # bytes a second: what a task may write at most, as far as looking in time goes
_SOONEST_S, _LATEST_S = 0.5, 15.0


@dataclass(frozen=True, slots=True)
class DiskReading:
    """A disk that Headway needs on this machine, as it was a moment ago."""

    device: int  # st_dev of what lies on it
    place: Path  # the folder that Headway has there
    holds: str  # what that folder is: "the container engine"
    free_bytes: int  # for ordinary users: a reserve for root does not count
    total_bytes: int


def tightest(disks: Sequence[DiskReading]) -> DiskReading | None:
    """The one with the least space left."""
    return min(disks, key=lambda disk: disk.free_bytes, default=None)


def nearly_full(disks: Sequence[DiskReading], low_bytes: int, *, before: bool) -> DiskReading | None:
    """The tightest disk with so little space left that no new work is taken; ``before``: that was so already."""
    disk = tightest(disks)
    return disk if disk is not None and disk.free_bytes < low_bytes * (_CALM if before else 1.0) else None


def critical(disks: Sequence[DiskReading], low_bytes: int) -> list[DiskReading]:
    """Those where a task has to go, the tightest first."""
    return sorted((d for d in disks if d.free_bytes < low_bytes // 2), key=lambda disk: disk.free_bytes)


def offender(uses: Mapping[AttemptId, int], low_bytes: int) -> AttemptId | None:
    """The attempt that holds most of a critical disk (``uses``: bytes by attempt).

    None where all hold little, under a quarter of ``low_bytes``: then somebody else has filled it, and to end a task
    would help nobody.
    """
    most = max(uses, key=lambda attempt: uses[attempt], default=None)
    return most if most is not None and uses[most] >= low_bytes // 4 else None


def look_again_s(disks: Sequence[DiskReading], low_bytes: int) -> float:
    """Seconds until a task that writes as fast as disks can could have made one of them critical."""
    room = min((disk.free_bytes for disk in disks), default=0) - low_bytes // 2
    return min(_LATEST_S, max(_SOONEST_S, room / _FASTEST))


def full_sentence(node: str, disk: DiskReading, low_bytes: int) -> str:
    """For the condition ``disk_full``."""
    return (
        f"The disk of {node} that {disk.holds} uses ({disk.place}) is nearly full: {_about(disk.free_bytes)} are left, "
        f"and {format_size(low_bytes)} must stay free."
    )


def ended_sentence(node: str, disk: DiskReading, wrote_bytes: int) -> str:
    """Why the offender was ended, for its owner."""
    return (
        f"It had written {_about(wrote_bytes)} to the disk of {node}, more than any other task there, and only "
        f"{_about(disk.free_bytes)} were left."
    )


def _about(size_bytes: int) -> str:
    """Two digits tell enough."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size_bytes >= 10 << shift:
            return f"{size_bytes >> shift}{unit}"
        if size_bytes >= 1 << shift:
            return f"{size_bytes / (1 << shift):.1f}{unit}"
    return f"{size_bytes}B"
