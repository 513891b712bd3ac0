"""What is admitted: the longest timeout, what one account may hold, and what is kept for short tasks."""

from __future__ import annotations

from dataclasses import dataclass

from headway.units import format_duration

from .model import Shape


@dataclass(frozen=True, slots=True)
class ShortReserve:
    """Tasks with a timeout above ``above_s`` may together hold all GPUs of the cluster but ``gpus``."""

    gpus: int
    above_s: float


@dataclass(frozen=True, slots=True)
class Limits:
    """What one account, and all long tasks together, may take. None: no limit."""

    max_timeouts: tuple[tuple[int, float], ...] = ()  # (from so many GPUs in the cluster on, longest timeout in s)
    min_timeout_s: float = 0.1
    running_gpus_per_user: int | None = None
    queued_tasks_per_user: int | None = None
    short_reserve: ShortReserve | None = None

    def max_timeout_s(self, gpus: int) -> float | None:
        """The longest timeout that a cluster with so many GPUs admits; None: no limit."""
        fitting = [(least, limit) for least, limit in self.max_timeouts if least <= gpus]
        return max(fitting)[1] if fitting else None

    def is_long(self, timeout_s: float) -> bool:
        """Whether the short reserve is not for a task of this timeout."""
        return self.short_reserve is not None and timeout_s > self.short_reserve.above_s


def contradictions(limits: Limits, gpus: int | None = None) -> list[str]:
    """Why these limits can't be, as sentences; ``gpus``: of the cluster, where it is known."""
    found = []
    for least, limit_s in limits.max_timeouts:
        if limits.min_timeout_s > limit_s:
            found.append(
                f"The shortest timeout ({format_duration(limits.min_timeout_s)}) is above the longest "
                f"({format_duration(limit_s)}, from {least} GPUs on): no task could be submitted."
            )
    if limits.running_gpus_per_user is not None and limits.running_gpus_per_user < 1:
        found.append("The cap on running GPUs per user must be at least 1: no task with GPUs could start.")
    if limits.queued_tasks_per_user is not None and limits.queued_tasks_per_user < 1:
        found.append("The cap on queued tasks per user must be at least 1: no task could be submitted.")
    reserve = limits.short_reserve
    if reserve is not None and reserve.gpus < 1:
        found.append("The reserve for short tasks must be at least 1 GPU; leave it out for none.")
    if reserve is not None and gpus is not None and reserve.gpus >= gpus:
        found.append(
            f"The reserve for short tasks ({reserve.gpus} GPUs) leaves none of the cluster's {gpus} for tasks longer "
            f"than {format_duration(reserve.above_s)}: they could never start."
        )
    return found


def refusals(limits: Limits, shape: Shape, timeout_s: float, *, gpus: int, queued: int = 0) -> list[str]:
    """Why a task is not taken into the queue, as sentences; empty when it is.

    ``gpus``: of the cluster (0: not known yet, which refuses nothing for its size); ``queued``: tasks of its account
    that wait already, the ones before it in the same job among them.
    """
    found = []
    longest_s = limits.max_timeout_s(gpus)
    if longest_s is not None and timeout_s > longest_s:
        found.append(
            f"Its timeout is {format_duration(timeout_s)}; this cluster of {gpus} GPUs admits up to "
            f"{format_duration(longest_s)}."
        )
    if timeout_s < limits.min_timeout_s:
        found.append(f"Its timeout is {format_duration(timeout_s)}; the shortest is {limits.min_timeout_s:g} s.")
    cap = limits.running_gpus_per_user
    if cap is not None and shape.gpus > cap:
        found.append(f"It asks for {shape.gpus} GPUs; one account may hold {cap} at a time.")
    most = limits.queued_tasks_per_user
    if most is not None and queued >= most:
        found.append(f"{queued} tasks of this account wait already; at most {most} may.")
    reserve = limits.short_reserve
    if reserve is not None and gpus > 0 and limits.is_long(timeout_s) and shape.gpus > max(0, gpus - reserve.gpus):
        found.append(
            f"It asks for {shape.gpus} GPUs for {format_duration(timeout_s)}; tasks longer than "
            f"{format_duration(reserve.above_s)} may hold {max(0, gpus - reserve.gpus)} of {gpus} together."
        )
    return found
