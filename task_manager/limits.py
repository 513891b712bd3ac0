"""What the configuration limits: how long a task may ask to run, and how many GPUs tasks may hold together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShortTaskReserve:
    """Tasks with a timeout above ``above_s`` may together hold all GPUs of the cluster but ``gpus``."""

    gpus: int
    above_s: float


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """The longest timeouts, and how many GPUs one account, or all long tasks together, may hold. None: no limit."""

    max_timeouts: tuple[tuple[int, float], ...] = ()  # (least GPUs in the cluster, longest timeout in s)
    min_timeout_s: float = 0.1
    running_gpus_per_user: int | None = None
    short_reserve: ShortTaskReserve | None = None

    def max_timeout_s(self, gpus: int) -> float | None:
        """The longest timeout, in seconds, that a cluster with so many GPUs admits; None: no limit."""
        fitting = [(least, limit) for least, limit in self.max_timeouts if least <= gpus]
        return max(fitting)[1] if fitting else None

    @property
    def may_hold_tasks(self) -> bool:
        """Whether any of the limits may keep a waiting task from a start."""
        return bool(self.running_gpus_per_user is not None or self.short_reserve is not None or self.max_timeouts)

    def timeout_bands(self) -> tuple[float, ...]:
        """The timeouts in seconds, in order, at which the limits begin to treat tasks differently."""
        reserve = () if self.short_reserve is None else (self.short_reserve.above_s,)
        return tuple(sorted({*reserve, *(limit for _, limit in self.max_timeouts)}))

    def is_long(self, timeout_s: float) -> bool:
        """Whether a task of this timeout may not use the GPUs that are reserved for short tasks."""
        return self.short_reserve is not None and timeout_s > self.short_reserve.above_s

    def waits_for_gpus(self, timeout_s: float, gpus: int) -> bool:
        """Whether a task of this timeout is only admitted by a cluster with more than so many GPUs."""
        limit_s = self.max_timeout_s(gpus)
        return limit_s is not None and limit_s < timeout_s <= max(limit for _, limit in self.max_timeouts)
