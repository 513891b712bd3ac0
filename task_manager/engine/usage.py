"""What attempts used over a span of time: what is counted, and how.

An attempt uses its booked resources from its placement until they are free again. That includes the time to pull the
image and to start. All of it is by TaskManager's clock, so that no node's clock adds or takes hours. An attempt that
reaches beyond the span counts with the part inside. A start or an end counts where its instant lies. Days are those of
UTC, so each has 24 hours. Of attempts that are no longer kept only the sums of days are known. Such a day belongs to a
span, as a whole, if its noon does. ``store.usage_store`` makes the sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import StrEnum

from headway.errors import InvalidInput
from headway.ids import AttemptId
from headway.rpc.v1 import task_manager_pb2

from ..model import Attempt

DAY_S = 86_400
MOST_DAYS = 400  # in one answer
MOST_ROWS = 1_000


class UsageGrouping(StrEnum):
    """What rows are made of."""

    USER = "user"
    JOB = "job"
    DAY = "day"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """From one instant up to another, which does not belong to it."""

    from_at: float
    to_at: float


@dataclass(frozen=True, slots=True)
class UsageSums:
    """What attempts used. An attempt counts in ``started`` and ``wait_s`` if it was placed within the span. It counts
    in the fields below if it ended there."""

    gpu_s: float = 0.0
    cpu_s: float = 0.0
    memory_byte_s: float = 0.0
    attempts: int = 0  # that held something
    tasks: int = 0  # to which they belong
    started: int = 0
    wait_s: float = 0.0  # from queued to placed, of all of these together
    ended: int = 0
    timed_out: int = 0  # of these
    # Only of attempts that ended by themselves or at their timeout: what a cancelled or lost one would have needed is
    # not known. The timeout includes extensions.
    booked_gpu_s: float = 0.0  # their GPUs for all of their timeouts
    used_gpu_s: float = 0.0  # their GPUs for as long as they ran
    # Of ``gpu_s``. What is measured of an attempt is spread evenly over the time in which it held its GPUs.
    measured_gpu_s: float = 0.0  # their GPUs were measured: what their Workers summed up at the end
    busy_gpu_s: float = 0.0  # of that, times their utilisation
    idle_gpu_s: float = 0.0  # of that, with hardly any utilisation
    failed_gpu_s: float = 0.0  # of attempts that failed, were lost, or ran into timeout or memory
    wasted_gpu_s: float = 0.0  # the last one, and what all other attempts were idle


def added(first: UsageSums, second: UsageSums) -> UsageSums:
    """The sums of two sets of attempts that have no task in common."""
    names = [field.name for field in fields(UsageSums)]
    return UsageSums(**{name: getattr(first, name) + getattr(second, name) for name in names})


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The sums of one user, job, day (``2026-11-01``) or node. ``job_name`` and ``owner`` are of a job."""

    key: str
    sums: UsageSums
    job_name: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class UsageSummary:
    """One page of rows, and the sums of all."""

    rows: tuple[UsageRow, ...]
    rows_in_all: int
    total: UsageSums


@dataclass(frozen=True, slots=True)
class PastRunRow:
    """An ended run, as a trace has it: what was asked for, and how it ended. Times in seconds."""

    attempt: AttemptId
    owner: str
    queued_at: float
    run_s: float
    timeout_s: float
    gpus: int
    gpu_models: tuple[str, ...]
    cpu_centi: int
    memory_bytes: int
    priority: int
    timed_out: bool  # its timeout ended it: how long it would have run is not known


@dataclass(frozen=True, slots=True)
class GpuShares:
    """What was measured of an attempt's GPUs, as shares of the time for which it held them, 0 to 1."""

    measured: float = 0.0
    busy: float = 0.0
    idle: float = 0.0


def gpu_shares(attempt: Attempt) -> GpuShares:
    """The shares of an attempt that has ended, as its Worker summed them up; all 0: nothing was measured."""
    if not attempt.use or not attempt.gpu_uuids or attempt.freed_at is None:
        return GpuShares()
    held_s = (attempt.freed_at - attempt.placed_at) * len(attempt.gpu_uuids)
    # A Worker's numbers are another machine's: whatever they are, no sum may break.
    gpus = [gpu for gpu in task_manager_pb2.AttemptUse.FromString(attempt.use).gpus if gpu.uuid in attempt.gpu_uuids]
    measured_s = math.fsum(_sound(gpu.measured_s) for gpu in gpus)
    most_s = min(held_s, measured_s)
    if most_s <= 0:
        return GpuShares()
    busy_s = math.fsum(_sound(gpu.measured_s) * min(1.0, _sound(gpu.mean_utilisation)) for gpu in gpus)
    idle_s = math.fsum(_sound(gpu.idle_s) for gpu in gpus)
    return GpuShares(most_s / held_s, min(most_s, busy_s) / held_s, min(most_s, idle_s) / held_s)


def _sound(value: float) -> float:
    return value if math.isfinite(value) and value > 0 else 0.0


def freed_at(attempt: Attempt, now: float) -> float:
    """Until when an attempt, whose end is known since ``now``, held its resources.

    The Worker's time counts where it can be true: Worker or TaskManager may have been away for hours after the end.
    """
    earliest = attempt.placed_at + (attempt.run_s or 0.0)
    if attempt.ended_at is not None and earliest <= attempt.ended_at <= now:
        return attempt.ended_at
    return max(now, earliest)


def checked_grouping(by: str, span: TimeSpan) -> UsageGrouping:
    """How rows are grouped, if that can be answered.

    Raises:
        InvalidInput: there is no such grouping, no such span, or there are too many days.
    """
    if by not in list(UsageGrouping):
        raise InvalidInput(f"Usage is summed by {', '.join(UsageGrouping)}, not by {by[:40]!r}.")
    if not (math.isfinite(span.from_at) and math.isfinite(span.to_at)) or span.from_at < 0:
        raise InvalidInput("A span of time has a beginning and an end, both from 1970 on.")
    if span.from_at >= span.to_at:
        raise InvalidInput("The span of time ends before it begins.")
    if by == UsageGrouping.DAY and span.to_at - span.from_at > MOST_DAYS * DAY_S:
        raise InvalidInput(f"Days are told for {MOST_DAYS} of them at most: ask for a shorter span.")
    return UsageGrouping(by)
