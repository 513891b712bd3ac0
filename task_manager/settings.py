"""The settings that scheduling decisions use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .engine.leases import LeaseSettings
from .engine.retry import RetrySettings
from .limits import AdmissionLimits
from .model import Node
from .planning.pass_model import Discipline, PromiseRule
from .planning.placement import CpuTasks


@dataclass(frozen=True, slots=True)
class TaskManagerSettings:
    """Times in seconds."""

    leases: LeaseSettings = field(default_factory=LeaseSettings)
    retry: RetrySettings = field(default_factory=RetrySettings)
    discipline: Discipline = Discipline.CONSERVATIVE
    policy: str = ""  # as configured, with its parameters; empty: the policy object that was given
    policy_defaults: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # parameters by policy
    decisions_days: int = 7  # how long the decision log is kept; 0: there is none
    # New tasks that can't start anyway cause at most one pass in this time; 0: each of them causes one.
    arrivals_s: float = 0.2
    promises: PromiseRule = PromiseRule.SETTLED  # when a start is promised
    reserved: int = 200  # so many waiting tasks have a reservation
    limits: AdmissionLimits = field(default_factory=AdmissionLimits)
    cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT
    start_limit_s: float = 1_800.0  # from dispatch to the user's process
    stop_limit_s: float = 120.0  # after that, pages say that a stop has not worked yet
    booked_start_s: float = 60.0  # what a plan reserves for a start, and
    booked_stop_s: float = 30.0  # for a stop; most of them take seconds
    # After a start nothing starts before nodes and JobManager have told what there is (``engine.gates``).
    compare_at_start: bool = False
    grown: tuple[Node, ...] = ()  # machines that the hook for growth can make: what fits these is taken
    unfit_s: float = 60.0  # the longest time for which one refusal closes a node
