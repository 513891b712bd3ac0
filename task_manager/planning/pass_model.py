"""What a scheduling pass takes and gives: a snapshot and one ``now`` in, a plan out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from headway.ids import NodeId, TaskId

from ..limits import AdmissionLimits
from ..model import Shape, Task
from ..order.policy import Key, Policy, View
from ..order.queue import TaskQueue
from .bookings import Booking, Reservation
from .placement import CpuTasks, FreeResources

_LEAST_GAP_S, _MOST_GAP_S, _GAP_SHARE = 60.0, 600.0, 0.05
_AFTER_GRACE_S = 5.0  # from KILL until the GPUs are free


class Discipline(StrEnum):
    """How waiting tasks that do not fit now bind those behind them."""

    CONSERVATIVE = "conservative"  # each of the first has a reservation that nobody may delay
    EASY = "easy"  # only the first has one
    GREEDY = "greedy"  # nobody has one: all that fits starts
    STRICT = "strict"  # nobody overtakes


@dataclass(frozen=True, slots=True)
class PassSettings:
    """What a pass depends on besides the snapshot; times in seconds."""

    discipline: Discipline = Discipline.CONSERVATIVE
    reserved: int = 200  # so many tasks have a reservation (`conservative`)
    filled: int = 1_000  # so many behind them are tried that can't start
    starts: int = 250  # so many start in one pass, so that it stays short; the next one follows at once
    promised: int = 200  # at most so many promises at a time
    start_limit_s: float = 0.0  # the platform's: from placement to the user's process
    stop_limit_s: float = 0.0  # the platform's: from the timeout until the GPUs are free
    limits: AdmissionLimits = field(default_factory=AdmissionLimits)
    cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT
    # What a place may overlap with others and still stand: what its times may have lost on their way to disk and back.
    slack_s: float = 0.001
    estimates: bool = True  # False: a pass ends once nothing more can start, and promises nothing

    def duration_s(self, task: Task) -> float:
        """For how long a start of this task is booked.

        While it has retries left, a share of its timeout is booked for them, less what earlier attempts took of it; an
        attempt that fails early so finds its way back. The kill still comes at the timeout.
        """
        gap_s = 0.0
        if task.user_failures < task.retries:
            gap_s = min(max(_GAP_SHARE * task.timeout_s, _LEAST_GAP_S), _MOST_GAP_S) - task.spent_s
        return self.start_limit_s + task.timeout_s + self.stop_s(task) + max(0.0, gap_s)

    def stop_s(self, task: Task) -> float:
        """What is booked for its stop: a task may take all of its grace."""
        return max(self.stop_limit_s, task.grace_s + _AFTER_GRACE_S) if task.grace_s else self.stop_limit_s


@dataclass(frozen=True, slots=True)
class PassInput:
    """The snapshot. A pass changes nothing of it.

    ``now_s`` is the pass's clock (live: the boot clock), by which bookings and places are; ``wall_s`` is by the wall
    clock. ``steady_s`` is the clock of submissions and keys, ``ahead_s`` ahead of the wall clock (``clocks``). In a
    simulation all are equal.
    """

    now_s: float
    wall_s: float
    queue: TaskQueue
    tasks: Mapping[TaskId, Task]
    free_resources: Sequence[FreeResources]  # what is left of every node now, and why some take nothing
    running: Sequence[Booking]
    reservations: Mapping[TaskId, Reservation]  # what the pass before said
    policy: Policy
    view: View
    settings: PassSettings = field(default_factory=PassSettings)
    last_used: Callable[[str], float] = lambda uuid: 0.0
    ahead_s: float = 0.0

    @property
    def steady_s(self) -> float:
        return self.wall_s + self.ahead_s


@dataclass(frozen=True, slots=True)
class Placement:
    """One task starts there."""

    task_id: TaskId
    node_id: NodeId
    gpu_uuids: tuple[str, ...]


class WaitCause(StrEnum):
    """WaitCause a task that was looked at does not start now."""

    NO_NODE = "no_node"  # no open node could hold it even when empty
    NO_ROOM = "no_room"  # too little is free
    RESERVED = "reserved"  # what is free is kept for a task ahead, or for one with a promise
    BEHIND = "behind"  # `strict`: the task ahead goes first
    USER_LIMIT = "user_limit"  # its account holds as many GPUs as it may, or will when the blocker starts
    SHORT_RESERVE = "short_reserve"  # long tasks hold as many as they may together, or will when the blocker starts
    NOT_ADMITTED = "not_admitted"  # a limit rules it out with the GPUs that there are


_CANNOT_START = frozenset({WaitCause.NO_NODE, WaitCause.NOT_ADMITTED})  # whatever comes free


@dataclass(frozen=True, slots=True)
class Wait:
    """One task's reason. ``blocker``: for whom it is kept, or who goes first."""

    why: WaitCause
    node_id: NodeId | None = None  # where it comes nearest
    blocker: TaskId | None = None


@dataclass(frozen=True, slots=True)
class LimitHold:
    """A limit keeps a task from a start now, and all that it counts alike and that take more than ``most_s``."""

    wait: Wait
    most_s: float
    first_s: float | None = None  # no start before this, by the pass's clock, where that was asked for


@dataclass(frozen=True, slots=True)
class Estimate:
    """When a task probably starts, by the pass's clock; ``rough`` without a reservation behind it."""

    start_s: float
    rough: bool = False


@dataclass(frozen=True, slots=True)
class RoughEstimates:
    """When a task without a reservation may start, from the work ahead of it alone: of what it takes, GPUs where it
    asks for some, else CPUs and memory. Each is when what runs now is done, and what a waiting task takes on average,
    in seconds, spread over all that the cluster has of it; None: it has none."""

    gpus: tuple[float, float] | None
    cpus: tuple[float, float] | None
    memory: tuple[float, float] | None

    def at(self, position: int, shape: Shape) -> Estimate | None:
        """For a task at this position of the queue, from 1; None: nothing can be told."""
        taken = (self.gpus,) if shape.gpus else (self.cpus, self.memory)
        starts = [first_s + per_task_s * (position - 1) for first_s, per_task_s in filter(None, taken)]
        return Estimate(max(starts), rough=True) if len(starts) == len(taken) else None


@dataclass(frozen=True, slots=True)
class DroppedPromise:
    """A promise that was lost, and why, in words. ``promised_s``: what it was; ``now_s``: what it is now, if any."""

    task_id: TaskId
    cause: str
    promised_s: float
    now_s: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pass decided. Shapes in ``no_room`` had tasks that fit nowhere; why is told by ``explain``."""

    placements: tuple[Placement, ...]
    no_room: frozenset[Shape]
    # Those with a promised start; they are stored for the next pass.
    promised: Mapping[TaskId, Reservation] = field(default_factory=dict)
    # All of them: the promised ones, and those that each pass makes anew.
    reservations: Mapping[TaskId, Reservation] = field(default_factory=dict)
    estimates: Mapping[TaskId, Estimate] = field(default_factory=dict)
    rough: RoughEstimates | None = None  # for those without an estimate; None: there is nothing to tell it from
    waits: Mapping[TaskId, Wait] = field(default_factory=dict)  # of those looked at
    dropped: tuple[DroppedPromise, ...] = ()
    more: bool = False  # more might start: another pass is due at once
    next_wake_s: float | None = None  # a pass is due then, by the pass's clock, if no event brings one before
    policy_failed: str = ""  # the policy raised or gave no number: `aging_sjf` stood in, and this says why
    looked_up_to: Key | None = (
        None  # tasks behind it were only looked at if there was room for their shape; None: all were
    )
    cut: bool = False  # there was room for more than could be looked at: one of `waits` that leaves makes way for one
    rest: Wait | None = None  # what keeps all that were not looked at, whatever else does
    # Of a task that has no reservation: what limits leave it beside all that is booked; None: they let it start.
    limit_on: Callable[[Task], LimitHold | None] = field(default=lambda task: None, compare=False, repr=False)

    def wait_of(self, task: Task) -> Wait | None:
        """Why a task that was left waiting does not start now, looked at or not; None: nothing is known."""
        found = self.waits.get(task.id)
        if found is None and task.id not in self.reservations:
            limited = self.limit_on(task)
            found = self.rest if limited is None else limited.wait
        return found

    def estimate_of(self, task: Task, position: int) -> Estimate | None:
        """When a task that was left waiting at this position of the queue (from 1) starts; None: nothing is known."""
        estimate, wait = self.estimates.get(task.id), self.wait_of(task)
        if estimate is None and self.rough is not None and (wait is None or wait.why not in _CANNOT_START):
            estimate, limited = self.rough.at(position, task.shape), self.limit_on(task)
            if estimate is not None and limited is not None and limited.first_s is not None:
                estimate = replace(estimate, start_s=max(estimate.start_s, limited.first_s))
        return estimate if estimate is not None and math.isfinite(estimate.start_s) else None
