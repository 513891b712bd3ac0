"""The settings that decisions depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .engine.leases import LeaseSettings
from .engine.retry import RetrySettings
from .limits import AdmissionLimits
from .planning.pass_model import Discipline
from .planning.placement import CpuTasks


@dataclass(frozen=True, slots=True)
class Settings:
    """Times in seconds."""

    leases: LeaseSettings = field(default_factory=LeaseSettings)
    retry: RetrySettings = field(default_factory=RetrySettings)
    discipline: Discipline = Discipline.CONSERVATIVE
    policy: str = ""  # as configured, with its parameters; empty: as the object that was given
    policy_defaults: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # parameters by policy
    decisions_days: int = 7  # how long the decision log is kept; 0: there is none
    # A long queue is planned anew at most so often for tasks that come and can't start anyhow; 0: for each of them.
    arrivals_s: float = 0.2
    reserved: int = 200  # so many waiting tasks have a reservation
    limits: AdmissionLimits = field(default_factory=AdmissionLimits)
    cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT
    start_limit_s: float = 1_800.0  # from dispatch to the user's process
    stop_limit_s: float = 120.0  # past it people are told that a stop gets no answer
    booked_start_s: float = 60.0  # what a plan allows for a start, and
    booked_stop_s: float = 30.0  # for a stop; most take seconds
    unfit_s: float = 60.0  # longest time that one refusal keeps a node from work
