"""What a scheduling pass takes and gives: a snapshot and its settings in, a plan out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from headway.ids import NodeId, TaskId

from ..limits import AdmissionLimits
from ..model import Node, Shape, Task
from ..order.policy import Key, Policy, View
from ..order.queue import TaskQueue
from .bookings import Booking, Reservation
from .changes import Change
from .placement import CpuTasks, FreeResources

_LEAST_GAP_S, _MOST_GAP_S, _GAP_SHARE = 60.0, 600.0, 0.05
_AFTER_GRACE_S = 5.0  # from KILL until the GPUs are free
_CROWD_RESERVED, _CROWD_PLACED = 60, 180


class Discipline(StrEnum):
    """What a waiting task that does not fit now means for the tasks behind it (see `disciplines`)."""

    CONSERVATIVE = "conservative"  # many of the first tasks have a reservation that no other task may delay
    EASY = "easy"  # only the first task has one
    GREEDY = "greedy"  # no task has one: all that fits starts
    STRICT = "strict"  # no task starts before the one ahead of it


class PromiseRule(StrEnum):
    """When a start is promised (docs/scheduling.md). Only `conservative` knows `late`; else it counts as `settled`."""

    SETTLED = "settled"  # once no newly submitted task can sort ahead any more
    LATE = "late"  # in the first pass that sees the task, with slack (`late_places`)


@dataclass(frozen=True, slots=True)
class PassSettings:
    """What a pass depends on besides the snapshot; times are in seconds."""

    discipline: Discipline = Discipline.CONSERVATIVE
    reserved: int = 200  # how many tasks have a reservation (`conservative`)
    filled: int = 1_000  # how many behind them are tried that can't start
    starts: int = 250  # how many start in one pass, which so stays short; the next pass follows at once
    promised: int = 200  # the most promised starts at a time
    start_limit_s: float = 0.0  # the platform's: from placement to the user's process
    stop_limit_s: float = 0.0  # the platform's: from the timeout until the GPUs are free
    grown: tuple[Node, ...] = ()  # machines that the hook for growth can make
    limits: AdmissionLimits = field(default_factory=AdmissionLimits)
    cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT
    # A stored reservation may overlap others by so much and still hold: its times were rounded when they were stored.
    slack_s: float = 0.001
    promises: PromiseRule = PromiseRule.SETTLED
    placed: int = 1_000  # `late`: so many promises at a time, and those of the first tasks in any case
    promise_slack: float = 1.0  # `late`: the slack of a first promise, as a multiple of what the task books
    crowd: int = 2_000  # `late`: with more waiting tasks, fewer are searched and fewer promises stand (`for_waiting`)
    estimates: bool = True  # False: a pass ends once nothing more can start, and promises nothing

    def duration_s(self, task: Task) -> float:
        """For how many seconds a start of this task is booked.

        While the task has retries left, a share of its timeout is booked for them, so a failed attempt can be retried
        at once. What earlier attempts took is subtracted. The kill still comes at the timeout.
        """
        gap_s = 0.0
        if task.user_failures < task.retries:
            gap_s = min(max(_GAP_SHARE * task.timeout_s, _LEAST_GAP_S), _MOST_GAP_S) - task.spent_s
        return self.start_limit_s + task.timeout_s + self.stop_s(task) + max(0.0, gap_s)

    def for_waiting(self, waiting: int) -> PassSettings:
        """The settings of a pass over so many waiting tasks.

        Behind thousands of others nobody needs a place of its own in each pass. A pass so stays as quick as with
        `settled`.
        """
        if waiting <= self.crowd or not self.promises_all:
            return self
        reserved, placed = min(self.reserved, _CROWD_RESERVED), min(self.placed, _CROWD_PLACED)
        return replace(self, reserved=reserved, placed=placed)

    @property
    def promises_all(self) -> bool:
        """Whether every runnable task is promised a start at once."""
        return self.promises is PromiseRule.LATE and self.discipline is Discipline.CONSERVATIVE and self.estimates

    def stop_s(self, task: Task) -> float:
        """How many seconds are booked for the task's stop: it may use all of its grace."""
        return max(self.stop_limit_s, task.grace_s + _AFTER_GRACE_S) if task.grace_s else self.stop_limit_s


@dataclass(frozen=True, slots=True)
class PassInput:
    """The snapshot of the cluster and the queue. A pass changes nothing of it except the order of the queue.

    ``now_s`` is this moment by the pass's clock, by which bookings and reservations are; live it is the boot clock.
    ``wall_s`` is the same moment by the wall clock. ``steady_s`` is it by the clock of submissions and keys, which is
    ``ahead_s`` ahead of the wall clock (see ``clocks``). In a simulation all three are equal.
    """

    now_s: float
    wall_s: float
    queue: TaskQueue
    tasks: Mapping[TaskId, Task]
    free_resources: Sequence[FreeResources]  # of every node now, and why some nodes take no work
    running: Sequence[Booking]
    reservations: Mapping[TaskId, Reservation]  # those that the pass before stored
    policy: Policy
    view: View
    settings: PassSettings = field(default_factory=PassSettings)
    last_used: Callable[[str], float] = lambda uuid: 0.0
    ahead_s: float = 0.0
    changes: tuple[Change, ...] = ()  # what leaves less room than the last pass saw, as far as is known

    @property
    def steady_s(self) -> float:
        return self.wall_s + self.ahead_s


@dataclass(frozen=True, slots=True)
class Placement:
    """One task starts on this node with these GPUs."""

    task_id: TaskId
    node_id: NodeId
    gpu_uuids: tuple[str, ...]


class WaitCause(StrEnum):
    """Why a task that was looked at does not start now."""

    NO_NODE = "no_node"  # no open node could hold it even when empty
    NO_ROOM = "no_room"  # too little is free
    RESERVED = "reserved"  # what is free is kept for a task ahead, or for one with a promised start
    BEHIND = "behind"  # `strict`: the task ahead goes first
    USER_LIMIT = "user_limit"  # its account holds as many GPUs as it may, or will when the blocker starts
    SHORT_RESERVE = "short_reserve"  # long tasks hold as many GPUs as they may, or will when the blocker starts
    NOT_ADMITTED = "not_admitted"  # a limit rules it out in a cluster with so few GPUs


_CANNOT_START = frozenset({WaitCause.NO_NODE, WaitCause.NOT_ADMITTED})  # whatever comes free


@dataclass(frozen=True, slots=True)
class Wait:
    """Why one task waits. ``blocker`` is the task for which resources are kept, or which goes first."""

    why: WaitCause
    node_id: NodeId | None = None  # the node where it would start
    blocker: TaskId | None = None


@dataclass(frozen=True, slots=True)
class LimitHold:
    """A limit keeps a task from a start now, and all tasks of its group that take longer than ``most_s`` seconds."""

    wait: Wait
    most_s: float
    first_s: float | None = None  # no start is before this, by the pass's clock; None: not known or not asked for


@dataclass(frozen=True, slots=True)
class Estimate:
    """When a task probably starts, in seconds by the pass's clock. ``rough``: it has no reservation."""

    start_s: float
    rough: bool = False


@dataclass(frozen=True, slots=True)
class RoughEstimates:
    """Rough estimates for tasks without a reservation, from the amount of work ahead of them.

    For a task with GPUs only the GPUs count, for others CPUs and memory. Each pair is a moment and a duration in
    seconds. The moment is when the running work would be done if it were spread evenly over the cluster. The duration
    is what an average waiting task takes if it is spread so. None: the cluster has no such resource.
    """

    gpus: tuple[float, float] | None
    cpus: tuple[float, float] | None
    memory: tuple[float, float] | None

    def at(self, position: int, shape: Shape) -> Estimate | None:
        """The estimate for a task at this position of the queue, from 1; None: there is none."""
        taken = (self.gpus,) if shape.gpus else (self.cpus, self.memory)
        starts = [first_s + per_task_s * (position - 1) for first_s, per_task_s in filter(None, taken)]
        return Estimate(max(starts), rough=True) if len(starts) == len(taken) else None


@dataclass(frozen=True, slots=True)
class DroppedPromise:
    """A promised start that was lost, and why, as a clause for people.

    ``promised_s`` is what was promised, ``now_s`` what is promised now; None: nothing.
    """

    task_id: TaskId
    cause: str
    promised_s: float
    now_s: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pass decided. Tasks with a shape in ``no_room`` fit nowhere; `explain` tells why."""

    placements: tuple[Placement, ...]
    no_room: frozenset[Shape]
    # Those with a promised start; they are stored for the next pass.
    promised: Mapping[TaskId, Reservation] = field(default_factory=dict)
    # Places of tasks that lost their promise to an attempt whose end nobody knows. They are stored too.
    owed: Mapping[TaskId, Reservation] = field(default_factory=dict)
    # All of them: the promised ones, and those that each pass makes anew.
    reservations: Mapping[TaskId, Reservation] = field(default_factory=dict)
    estimates: Mapping[TaskId, Estimate] = field(default_factory=dict)
    rough: RoughEstimates | None = None  # for tasks that are not in ``estimates``; None: nothing waits
    waits: Mapping[TaskId, Wait] = field(default_factory=dict)  # of the tasks that were looked at
    dropped: tuple[DroppedPromise, ...] = ()
    more: bool = False  # more tasks might start: another pass is due at once
    next_wake_s: float | None = None  # the next pass is due then, by the pass's clock, if no event comes before
    policy_failed: str = ""  # why the policy failed, so that `aging_sjf` ordered the queue; empty: it did not fail
    looked_up_to: Key | None = (
        None  # tasks behind it were only looked at if there was room for their shape; None: all were
    )
    cut: bool = False  # there was room for tasks that were not looked at; they are once one in ``waits`` has left
    rest: Wait | None = None  # why all tasks wait that were not looked at; None: not known
    all_promised: bool = False  # any further task would be promised a start by a pass that sees it
    # Which limit keeps a task without a reservation from a start beside all that is booked; None: no limit does.
    limit_on: Callable[[Task], LimitHold | None] = field(default=lambda task: None, compare=False, repr=False)

    def wait_of(self, task: Task) -> Wait | None:
        """Why a waiting task does not start now, even if it was not looked at; None: nothing is known."""
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
