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
    """What one account, and all long tasks together, may take. None: no limit."""

    max_timeouts: tuple[tuple[int, float], ...] = ()  # (from so many GPUs in the cluster on, longest timeout in s)
    min_timeout_s: float = 0.1
    running_gpus_per_user: int | None = None
    short_reserve: ShortTaskReserve | None = None

    def max_timeout_s(self, gpus: int) -> float | None:
        """The longest timeout that a cluster with so many GPUs admits; None: no limit."""
        fitting = [(least, limit) for least, limit in self.max_timeouts if least <= gpus]
        return max(fitting)[1] if fitting else None

    @property
    def may_hold_tasks(self) -> bool:
        """Whether there is any that may keep a waiting task from a start."""
        return bool(self.running_gpus_per_user is not None or self.short_reserve is not None or self.max_timeouts)

    def timeout_bands(self) -> tuple[float, ...]:
        """Timeouts up to which, and above which, limits treat tasks differently, in order."""
        reserve = () if self.short_reserve is None else (self.short_reserve.above_s,)
        return tuple(sorted({*reserve, *(limit for _, limit in self.max_timeouts)}))

    def is_long(self, timeout_s: float) -> bool:
        """Whether the short reserve is not for a task of this timeout."""
        return self.short_reserve is not None and timeout_s > self.short_reserve.above_s

    def waits_for_gpus(self, timeout_s: float, gpus: int) -> bool:
        """Whether a task of this timeout is for a cluster with more GPUs than it has now."""
        limit_s = self.max_timeout_s(gpus)
        return limit_s is not None and limit_s < timeout_s <= max(limit for _, limit in self.max_timeouts)
