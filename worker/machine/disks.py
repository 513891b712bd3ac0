"""When a disk is too full, and which attempt fills it. Pure.

With less than ``low_bytes`` free the Worker accepts no new work. With less than half of that it ends the task that has
written most, before databases, logs and other tasks fail. Container engines can't limit a container's writes on every
kind of file system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.ids import AttemptId
from headway.units import format_size

_CALM = 1.5  # so many times ``low_bytes`` must be free before the condition ends, so that it does not flicker
_FASTEST = 2 << 30  # bytes a second that a task may write, for the time of the next look
_SOONEST_S, _LATEST_S = 0.5, 15.0


@dataclass(frozen=True, slots=True)
class DiskReading:
    """A disk that Headway needs on this machine, as it was a moment ago."""

    device: int  # st_dev of its files
    place: Path  # the folder that Headway has there
    holds: str  # what that folder is: "the container engine"
    free_bytes: int  # for ordinary users, without what is reserved for root
    total_bytes: int


def tightest(disks: Sequence[DiskReading]) -> DiskReading | None:
    """The disk with the least free space."""
    return min(disks, key=lambda disk: disk.free_bytes, default=None)


def nearly_full(disks: Sequence[DiskReading], low_bytes: int, *, before: bool) -> DiskReading | None:
    """The fullest disk, if no new work is accepted because of it. ``before``: that was so already."""
    disk = tightest(disks)
    return disk if disk is not None and disk.free_bytes < low_bytes * (_CALM if before else 1.0) else None


def critical(disks: Sequence[DiskReading], low_bytes: int) -> list[DiskReading]:
    """Disks where a task must be ended, the fullest first."""
    return sorted((d for d in disks if d.free_bytes < low_bytes // 2), key=lambda disk: disk.free_bytes)


def offender(uses: Mapping[AttemptId, int], low_bytes: int) -> AttemptId | None:
    """The attempt that uses most of a critical disk. ``uses`` are bytes by attempt.

    None: each uses less than a quarter of ``low_bytes``. Something else has filled the disk, and ending a task would
    not help.
    """
    most = max(uses, key=lambda attempt: uses[attempt], default=None)
    return most if most is not None and uses[most] >= low_bytes // 4 else None


def look_again_s(disks: Sequence[DiskReading], low_bytes: int) -> float:
    """Seconds until the fastest task could make one of them critical."""
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
    """Two digits are enough."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size_bytes >= 10 << shift:
            return f"{size_bytes >> shift}{unit}"
        if size_bytes >= 1 << shift:
            return f"{size_bytes / (1 << shift):.1f}{unit}"
    return f"{size_bytes}B"
