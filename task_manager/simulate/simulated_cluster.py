"""A simulated cluster, whose clock jumps from event to event. Its pass is the one that serves the live queue.

At each moment all ends come first, then all tasks that can be queued, then one pass. Inside, times are whole ticks
(`ticks`); what comes in and goes out is in seconds.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headway.frozen import replace
from headway.ids import NodeId, TaskId

from ..model import Gpu, Task
from ..order.policy import ClusterView, LogAging, Policy
from ..order.policy_registry import BUILT_IN
from ..order.queue import TaskQueue
from ..order.recent_timeouts import RecentTimeouts
from ..planning.bookings import Booking, Reservation
from ..planning.pass_model import PassInput, PassSettings, Placement, Plan
from ..planning.placement import FreeResources, choose, full_capacity
from .cluster_spec import ClusterSpec
from .measures import TaskLife
from .ticks import PolicyInSeconds, TickClock, in_seconds, seconds, ticks
from .workload import WorkloadTask

Planner = Callable[[PassInput], Plan]


class StuckError(Exception):
    """Tasks wait, nothing runs or will come, and the pass starts none: a bug of a policy or of the pass."""


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    """When each task of the workload ran, in their order, and whether promised starts were kept."""

    lives: tuple[TaskLife, ...]
    passes: int
    promised: int  # tasks that had a promised start
    missed: int  # how many of these started later, to the microsecond
    policy_failed: str = ""  # why the policy first failed, so that `aging_sjf` ordered the queue; empty: it did not


class SimulatedCluster:
    """One run of a workload. ``policy`` must be a new object, since a policy may learn. ``run`` may be called once."""

    def __init__(
        self,
        workload: Sequence[WorkloadTask],
        cluster: ClusterSpec,
        policy: Policy,
        settings: PassSettings,
        planner: Planner,
    ) -> None:
        self._workload = workload
        self._clock = TickClock(min((item.task.submitted_at for item in workload), default=0.0))
        self._ticked = [self._clock.in_ticks(item.task) for item in workload]
        self._submit_at = [self._clock.at(item.task.submitted_at) for item in workload]
        self._run = [ticks(item.run_s) for item in workload]
        self._for_policy = {task.id: in_seconds(task) for task in self._ticked}
        self._recent = RecentTimeouts()
        self._policy = PolicyInSeconds(policy, self._for_policy)
        self._settings = replace(
            settings,
            start_limit_s=ticks(settings.start_limit_s),
            stop_limit_s=ticks(settings.stop_limit_s),
            slack_s=ticks(settings.slack_s),
        )
        self._planner = planner
        # A policy of another package is always asked, since it may fail.
        ours = type(policy) in BUILT_IN.values()
        self._may_shortcut = policy.static and ours
        self._counts_means = isinstance(policy, LogAging) or not ours
        self._gpus = cluster.gpus
        self._free_resources = [full_capacity(node, order) for order, node in enumerate(cluster.nodes)]
        self._free_on: dict[NodeId, FreeResources] = {free.node.id: free for free in self._free_resources}
        self._cards: dict[str, Gpu] = {gpu.uuid: gpu for node in cluster.nodes for gpu in node.gpus}
        self._last_used: dict[str, float] = {}
        self._queue = TaskQueue(self._policy)
        self._number = {item.task.id: i for i, item in enumerate(workload)}
        self._tasks: dict[TaskId, Task] = {}  # waiting
        self._running: dict[TaskId, Booking] = {}
        self._reservations: dict[TaskId, Reservation] = {}
        self._promises: dict[TaskId, float] = {}
        self._promised = self._missed = self._passes = 0
        self._policy_failed = ""
        self._ends: list[tuple[int, int]] = []
        self._wake_at: int | None = None
        self._queued_at = [0] * len(workload)
        self._started_at = [0] * len(workload)
        self._children: dict[int, list[int]] = {}
        self._open_needs = [len(item.needs) for item in workload]
        for i, item in enumerate(workload):
            for need in item.needs:
                self._children.setdefault(need, []).append(i)
        roots = (i for i, item in enumerate(workload) if not item.needs)
        self._arrivals = sorted(roots, key=self._submit_at.__getitem__)

    def run(self, on_ended: Callable[[int], None] = lambda count: None) -> SimulationOutcome:
        """Runs the whole workload. ``on_ended`` is called with the number of tasks that have just ended.

        Raises:
            StuckError: a pass starts none of the waiting tasks, and nothing else can happen.
        """
        arrived = 0
        while arrived < len(self._arrivals) or self._ends or self._tasks:
            now = self._next_instant(arrived)
            ended = self._end_all(now)
            while arrived < len(self._arrivals):
                i = self._arrivals[arrived]
                if self._submit_at[i] > now:
                    break
                self._enqueue(i, now)
                arrived += 1
            if not (self._may_shortcut and self._started_alone(now)):
                while self._tasks and self._pass(now):
                    pass
            if ended:
                on_ended(ended)
        lives = tuple(map(self._life, range(len(self._workload))))
        return SimulationOutcome(lives, self._passes, self._promised, self._missed, self._policy_failed)

    def _next_instant(self, arrived: int) -> int:
        instants = [self._ends[0][0]] if self._ends else []
        if arrived < len(self._arrivals):
            instants.append(self._submit_at[self._arrivals[arrived]])
        if self._tasks and self._wake_at is not None:
            instants.append(self._wake_at)
        if not instants:
            first = next(iter(self._tasks))
            raise StuckError(
                f"{len(self._tasks)} tasks wait on an idle cluster and none starts, {first.name} among them"
            )
        return min(instants)

    def _end_all(self, now: int) -> int:
        ended = 0
        freed: list[int] = []
        while self._ends and self._ends[0][0] <= now:
            _, i = heapq.heappop(self._ends)
            self._end(i)
            freed.extend(self._children.get(i, ()))
            ended += 1
        for child in freed:
            self._open_needs[child] -= 1
            if self._open_needs[child] == 0:
                self._enqueue(child, now)
        return ended

    def _end(self, i: int) -> None:
        booking = self._running.pop(self._ticked[i].id)
        free = self._free_on[booking.node_id]
        free.give_back(booking.shape, [self._cards[uuid] for uuid in booking.gpu_uuids])
        self._queue.ended(self._ticked[i], self._run[i])

    def _enqueue(self, i: int, now: int) -> None:
        task = self._ticked[i]
        if self._counts_means:
            self._recent.add(seconds(task.timeout_s))
            known = self._for_policy[task.id]
            self._for_policy[task.id] = replace(known, mean_timeout_s=self._recent.mean_s)
        if task.queued_at != now:
            task = replace(task, queued_at=now)
            self._for_policy[task.id] = replace(self._for_policy[task.id], queued_at=seconds(now))
        self._queued_at[i] = now
        self._tasks[task.id] = task
        self._queue.add(task, runnable=True)

    def _pass(self, now: int) -> bool:
        """Makes one pass and starts its tasks. Returns whether another pass is due at once."""
        self._passes += 1
        plan = self._planner(
            PassInput(
                now_s=now,
                wall_s=now,
                queue=self._queue,
                tasks=self._tasks,
                free_resources=self._free_resources,
                running=tuple(self._running.values()),
                reservations=self._reservations,
                policy=self._policy,
                view=ClusterView(self._gpus, seconds(self._queue.waiting_gpu_s)),
                settings=self._settings.for_waiting(len(self._queue)),
                last_used=lambda uuid: self._last_used.get(uuid, 0.0),
            )
        )
        self._policy_failed = self._policy_failed or self._worded(plan.policy_failed)
        self._reservations = dict(plan.promised)
        for task_id, reservation in self._reservations.items():
            if reservation.promised_s is not None:
                told_s = self._promises.get(task_id, math.inf)
                self._promised += told_s == math.inf
                self._promises[task_id] = min(told_s, reservation.promised_s)  # no cause moves one here
        for placement in plan.placements:
            self._start(placement, now)
        wake = plan.next_wake_s
        self._wake_at = math.ceil(wake) if wake is not None and wake > now else None
        return plan.more

    def _started_alone(self, now: int) -> bool:
        """Starts the only waiting task if it fits now, where the pass would start it: nothing is kept for others.

        That is what most passes do on a cluster that is not full, and making timelines for it takes most of the time.
        """
        if len(self._tasks) != 1 or self._reservations:
            return False
        (task,) = self._tasks.values()
        chosen = choose(
            task.shape, self._free_resources, cpu_tasks=self._settings.cpu_tasks,
            last_used=lambda uuid: self._last_used.get(uuid, 0.0),
        )  # fmt: skip
        if chosen is None:
            return False
        self._passes += 1
        self._start(Placement(task.id, chosen.node_id, chosen.gpu_uuids), now)
        self._wake_at = None
        return True

    def _worded(self, failure: str) -> str:
        """A policy's failure with the row of the task in the file, since its id here means nothing to people."""
        for task_id in self._tasks if failure else ():
            if (named := f" failed for {task_id}: ") in failure:
                where = self._workload[self._number[task_id]].where
                return failure.replace(named, f" failed for {where}: ", 1) if where else failure
        return failure

    def _start(self, placement: Placement, now: int) -> None:
        i = self._number[placement.task_id]
        task = self._tasks.pop(placement.task_id)
        self._queue.remove(task.id)
        self._reservations.pop(task.id, None)
        if now >= self._promises.pop(task.id, now) + 1:
            self._missed += 1
        self._free_on[placement.node_id].take(task.shape, placement.gpu_uuids)
        for uuid in placement.gpu_uuids:
            self._last_used[uuid] = now
        limits_s = self._settings.start_limit_s + self._settings.stop_limit_s
        self._running[task.id] = Booking(
            task.id, task.owner, placement.node_id, task.shape, placement.gpu_uuids, task.timeout_s,
            now + task.timeout_s + limits_s,
        )  # fmt: skip
        self._started_at[i] = now
        heapq.heappush(self._ends, (now + self._run[i], i))

    def _life(self, i: int) -> TaskLife:
        item = self._workload[i]
        return TaskLife(
            queued_s=self._clock.instant_s(self._queued_at[i]),
            start_s=self._clock.instant_s(self._started_at[i]),
            end_s=self._clock.instant_s(self._started_at[i] + self._run[i]),
            gpus=item.task.shape.gpus,
            cpu_centi=item.task.shape.cpu_centi,
            job=item.task.id.job_id,
            submit_s=self._clock.instant_s(self._submit_at[i]),
            timed_out=item.timed_out,
        )
