"""The settings that decisions depend on."""

from __future__ import annotations

from dataclasses import dataclass, field

from .leases import LeaseSettings
from .placement import CpuTasks
from .retry import RetrySettings


@dataclass(frozen=True, slots=True)
class Settings:
    """Times in seconds."""

    leases: LeaseSettings = field(default_factory=LeaseSettings)
    retry: RetrySettings = field(default_factory=RetrySettings)
    cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT
    start_limit_s: float = 1_800.0  # from dispatch to the user's process
    stop_limit_s: float = 120.0  # past it people are told that a stop gets no answer
    unfit_s: float = 60.0  # longest time that one refusal keeps a node from work
    max_timeouts: tuple[tuple[int, float], ...] = ()  # (from so many GPUs in the cluster on, longest timeout)

    def max_timeout_s(self, gpus: int) -> float | None:
        """The longest timeout that a cluster with so many GPUs admits; None: no limit."""
        fitting = [(least, limit) for least, limit in self.max_timeouts if least <= gpus]
        return max(fitting)[1] if fitting else None
