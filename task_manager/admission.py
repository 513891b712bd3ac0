"""What is admitted: the longest timeout, what one account may hold, and what is kept for short tasks."""

from __future__ import annotations

from dataclasses import dataclass


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
