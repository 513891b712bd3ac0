"""All that waits or runs, in memory: an image of the database, with the indexes that decisions need.

Values are immutable: a change puts a new value, so each change has an exact inverse. A turn of the engine changes the
state and writes the same changes in one transaction. If that fails, it takes them back. So the state is never ahead of
the disk.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from headway.ids import AttemptId, JobId, NodeId, TaskId

from ..clocks import ClockReading
from ..limits import AdmissionLimits
from ..model import Attempt, Gpu, Node, Shape, Task
from ..order.policy import Policy
from ..order.queue import TaskQueue
from ..order.recent_timeouts import RecentTimeouts
from ..planning.bookings import MovedPromise, Reservation
from ..planning.changes import Seen
from ..planning.pass_model import Plan
from ..planning.placement import FreeResources, why_closed
from ..planning.scheduling_pass import would_change_nothing, would_start_nothing
from . import drains
from .comparing.gates import GateNodes, Gates
from .leases import NodeLease
from .tracking import AttemptTracking, UnfitNode, may_accept_work_again

V = TypeVar("V")


@dataclass(slots=True)
class _BookedResources:
    cpu_centi: int = 0
    memory_bytes: int = 0
    tasks: dict[TaskId, None] = field(default_factory=dict)


class DoubleBooked(Exception):
    """Two live attempts claim one GPU: a bug that must never reach the disk."""


class EngineState:
    """Tasks, live attempts, queue, nodes, leases."""

    def __init__(
        self,
        policy: Policy,
        reading: ClockReading,
        *,
        ahead_s: float = 0.0,
        limits: AdmissionLimits | None = None,
        arrivals_s: float = 0.0,
        longest_pause_s: float,
    ) -> None:
        self.begin(reading, ahead_s)
        self._longest_pause_s = longest_pause_s
        self.started_s = self.mono  # silence is counted from here at the earliest
        self.tasks: dict[TaskId, Task] = {}  # those that have not ended
        self.attempts: dict[TaskId, Attempt] = {}  # live ones: a task has at most one
        self.tracking: dict[TaskId, AttemptTracking] = {}
        self.held: dict[TaskId, None] = {}
        self.recent_timeouts = RecentTimeouts()
        self.queue = TaskQueue(policy, limits=limits)
        self.policy = policy
        self.reservations: dict[TaskId, Reservation] = {}  # stored ones, by the boot clock; not all are promised
        self.moved_promises: dict[TaskId, MovedPromise] = {}  # promises to waiting tasks that no longer hold
        self.ordered_at = -math.inf  # wall clock: since when this policy orders the queue, as far as is known
        self.plan: Plan | None = None  # of the last pass, for pages
        self.seen: Seen | None = None  # what the last pass saw; None: there was none since the start
        self.planned_s = -math.inf  # boot clock: when that was
        self.lease_end_s: float | None = None  # boot clock: when the next silent node's attempts are lost
        self.next_pass_s: float | None = None  # boot clock: when the next pass is due even if nothing happens
        self.nodes: dict[NodeId, Node] = {}
        self.leases: dict[NodeId, NodeLease] = {}
        self.unfit: dict[NodeId, UnfitNode] = {}
        self.drain_deadlines = drains.Deadlines()
        self.unconfirmed: dict[NodeId, str] = {}  # why a node takes no work (``confirmation``)
        self.gates = Gates()
        self.nodes_live = False  # whether the nodes are as ResourceManager says now, not as they were stored
        self.pass_needed = True
        self.rough_due = False  # tasks came or went without a pass: the plan's rough estimates are outdated
        self._first_seen: dict[NodeId, float] = {}
        self._usage: dict[NodeId, _BookedResources] = {}
        self._gpus: dict[str, TaskId] = {}  # who has a card whole
        self._shares: dict[str, dict[TaskId, int]] = {}  # who has how many units of a card
        self._gpu_used: dict[str, int] = {}
        self._uses = 0
        self._paused: list[tuple[float, TaskId, float]] = []
        self._pauses: dict[TaskId, tuple[float, float]] = {}  # the same by task: its end, and the task's ``not_before``
        self._arrivals_s = arrivals_s

    # -- turns ------------------------------------------------------------------------------------

    def begin(self, reading: ClockReading, ahead_s: float) -> None:
        """Starts a turn at this instant. ``ahead_s``: by how much the steady clock is ahead of the wall clock."""
        self.reading, self.ahead_s = reading, ahead_s
        self.now, self.mono = reading.now, reading.mono
        self.commit()

    def commit(self) -> None:
        """The turn's changes are on disk (or there were none)."""
        self._undo: list[Callable[[], None]] = []
        self.dirty_tasks: dict[TaskId, Task] = {}
        self.dirty_attempts: dict[AttemptId, Attempt] = {}
        self.dirty_nodes: dict[NodeId, Node | None] = {}
        self.dirty_leases: dict[NodeId, NodeLease] = {}
        self.dirty_reservations: dict[TaskId, Reservation | None] = {}
        self.dirty_moved_promises: dict[TaskId, MovedPromise | None] = {}

    def rollback(self) -> None:
        """Takes back all changes since ``begin``."""
        undo, self._undo = self._undo, []
        for step in reversed(undo):
            step()
        self.commit()
        self.pass_needed = True

    @property
    def dirty(self) -> bool:
        return bool(
            self.dirty_tasks or self.dirty_attempts or self.dirty_nodes or self.dirty_leases
            or self.dirty_reservations or self.dirty_moved_promises
        )  # fmt: skip

    # -- changes ----------------------------------------------------------------------------------

    def put_task(self, task: Task) -> None:
        """Stores a task as it is now; a task that has ended leaves the state."""
        before = self.tasks.get(task.id)
        self.dirty_tasks[task.id] = task
        self._set_task(task.id, None if task.ended else task)
        self._undo.append(lambda: self._set_task(task.id, before))

    def note_arrival(self, timeout_s: float) -> float:
        """A task of this timeout comes. Returns the mean timeout of the last ones, with its own."""
        fallen = self.recent_timeouts.add(timeout_s)
        self._undo.append(lambda: self.recent_timeouts.take_back(fallen))
        return self.recent_timeouts.mean_s

    def put_attempt(self, attempt: Attempt) -> None:
        """Stores an attempt as it is now; an attempt that has ended gives back its resources.

        Raises:
            DoubleBooked: one of its GPUs belongs to another attempt, or has no room for its share.
        """
        key = attempt.id.task
        if attempt.live and key not in self.attempts and attempt.shape.gpu_share_bytes:
            self._check_room(attempt)
        before, tracking = self.attempts.get(key), self.tracking.get(key)
        self.dirty_attempts[attempt.id] = attempt
        self._set_attempt(key, attempt if attempt.live else None, tracking)
        self._undo.append(lambda: self._set_attempt(key, before, tracking))

    def put_warnings(self, attempt: Attempt) -> None:
        """Stores an attempt with other late warnings. One that has ended changes nothing of its task or its node."""
        if self.attempt(attempt.id) is not None:
            self.put_attempt(attempt)
        else:
            self.dirty_attempts[attempt.id] = attempt

    def put_node(self, node: Node) -> None:
        """Stores what ResourceManager says of a node."""
        before = self.nodes.get(node.id)
        if before == node:
            return
        self.dirty_nodes[node.id] = node
        self._set_node(node.id, node)
        self._undo.append(lambda: self._set_node(node.id, before))

    def remove_node(self, node_id: NodeId) -> None:
        before = self.nodes.get(node_id)
        if before is None:
            return
        self.dirty_nodes[node_id] = None
        self._set_node(node_id, None)
        self._undo.append(lambda: self._set_node(node_id, before))

    def put_lease(self, node_id: NodeId, lease: NodeLease) -> None:
        """Stores what heartbeats say; only whether leases may be suspended goes to disk."""
        before = self.leases.get(node_id)
        if before is None or before.suspended != lease.suspended:
            self.dirty_leases[node_id] = lease
        if before is None or (before.incarnation, before.stopping) != (lease.incarnation, lease.stopping):
            self.pass_needed = True
        self.leases[node_id] = lease

        def back() -> None:
            if before is None:
                del self.leases[node_id]
            else:
                self.leases[node_id] = before

        self._undo.append(back)

    def put_reservations(
        self, reservations: Mapping[TaskId, Reservation], moved: Mapping[TaskId, MovedPromise], seen: Seen | None
    ) -> None:
        """Stores what a pass decided: these reservations and moved promises, and no others. ``seen``: what it saw."""
        before = self.reservations, self.moved_promises, self.seen
        _collect_changes(self.dirty_reservations, self.reservations, reservations)
        _collect_changes(self.dirty_moved_promises, self.moved_promises, moved)
        self.reservations, self.moved_promises, self.seen = dict(reservations), dict(moved), seen

        def back() -> None:
            self.reservations, self.moved_promises, self.seen = before

        self._undo.append(back)

    def change_policy(self, policy: Policy) -> None:
        """Orders the queue by another policy from now on; tasks and reservations stay."""
        before = self.policy
        self._set_policy(policy)
        self._undo.append(lambda: self._set_policy(before))

    def mark_unfit(self, node_id: NodeId, until_s: float, sentence: str) -> None:
        """Gives a node no new work until ResourceManager reports a change of it, or until ``until_s``."""
        self.unfit[node_id] = UnfitNode(self.nodes.get(node_id), until_s, sentence)

    def end_pauses(self) -> None:
        """Makes tasks runnable whose pause is over."""
        while self._paused and self._paused[0][0] <= self.mono:
            _, task_id, not_before = heapq.heappop(self._paused)
            task = self.tasks.get(task_id)
            if task is None or not task.waiting or task.held or task.not_before != not_before:
                continue
            if not self.queue.is_runnable(task_id):
                self.queue.add(task, runnable=True)
                self.pass_needed = True
        if self.next_pass_s is not None and self.next_pass_s <= self.mono:
            self.next_pass_s = None
            self.pass_needed = True
        for node_id, unfit in list(self.unfit.items()):
            if unfit.until_s <= self.mono:
                del self.unfit[node_id]
                self.pass_needed = True

    def after_sleep(self, mono: float) -> None:
        """No heartbeat could arrive up to this moment of the boot clock."""
        self.started_s = mono
        self._first_seen.clear()
        for tracking in self.tracking.values():
            tracking.confirmed_s = mono

    def adopt(self, task: Task | None, attempt: Attempt | None) -> None:
        """Takes over what the database holds at a start. A Worker may or may not know of the attempt."""
        if task is not None:
            self._set_task(task.id, task)
        if attempt is not None:
            tracking = AttemptTracking(sent=True, uncertain=True, placed_s=self.mono, launched_s=self.mono)
            same_life = attempt.boot_id == self.reading.boot_id
            tracking.booked_s = attempt.placed_s if same_life else self._ago(attempt.placed_at)
            if attempt.started_at is not None:
                # The start is by the Worker's clock, which may be slow: it was not before the placement.
                later_s = max(0.0, attempt.started_at - attempt.placed_at)
                tracking.running_s = min(self.mono, tracking.booked_s + later_s)
            self._set_attempt(attempt.id.task, attempt, tracking)

    @property
    def next_wake_s(self) -> float | None:
        """By the boot clock: when ``end_pauses`` will have something to do."""
        times = [unfit.until_s for unfit in self.unfit.values()]
        if self.next_pass_s is not None:
            times.append(self.next_pass_s)
        if self.lease_end_s is not None:
            times.append(self.lease_end_s)
        if self._paused:
            times.append(self._paused[0][0])
        return min(times, default=None)

    # -- reading ----------------------------------------------------------------------------------

    def attempt(self, attempt_id: AttemptId) -> Attempt | None:
        """The live attempt of exactly this number."""
        attempt = self.attempts.get(attempt_id.task)
        return attempt if attempt is not None and attempt.id.number == attempt_id.number else None

    def on_node(self, node_id: NodeId) -> list[Attempt]:
        """The live attempts of a node."""
        usage = self._usage.get(node_id)
        return [] if usage is None else [self.attempts[key] for key in usage.tasks]

    def free_resources(self, is_silent: Callable[[NodeId], str]) -> list[FreeResources]:
        """What is free on each node, in the order of the list. ``is_silent`` says why a node counts as silent."""
        rooms = []
        for order, node in enumerate(self.nodes.values()):
            usage = self._usage.get(node.id)
            rooms.append(
                FreeResources(
                    node,
                    order,
                    node.cpu_centi - (usage.cpu_centi if usage else 0),
                    node.memory_bytes - (usage.memory_bytes if usage else 0),
                    [
                        gpu
                        for gpu in node.gpus
                        if gpu.usable and not gpu.shared and gpu.uuid not in self._gpus and gpu.uuid not in self._shares
                    ],
                    self._why_closed(node) or is_silent(node.id),
                    {gpu.uuid: self._free_units(gpu) for gpu in node.gpus if gpu.shared and gpu.usable},
                    frozenset(
                        gpu.uuid
                        for gpu in node.gpus
                        if not gpu.usable and (gpu.uuid in self._gpus or gpu.uuid in self._shares)
                    ),
                )
            )
        return rooms

    def can_book(self, node_id: NodeId, gpu_uuids: Collection[str], shape: Shape) -> bool:
        """Whether these GPUs are of the node, as far as it is known, and nobody has them.

        Of a share's card, nobody may have so much that the share has no room on it.
        """
        if len(gpu_uuids) != shape.held_gpus:
            return False
        node = self.nodes.get(node_id)
        there = {gpu.uuid: gpu for gpu in node.gpus} if node is not None else None
        if there is not None and not there.keys() >= set(gpu_uuids):
            return False
        if any(uuid in self._gpus for uuid in gpu_uuids):
            return False
        if not shape.gpu_share_bytes:
            return not any(uuid in self._shares for uuid in gpu_uuids)
        return there is None or all(self._free_units(there[uuid]) >= shape.share_units for uuid in gpu_uuids)

    def gpu_fraction(self, node_id: NodeId, gpu_uuids: Collection[str], shape: Shape) -> float:
        """Which part of its card a share is, 0 to 1; 0: it is no share, or the card is not known."""
        node = self.nodes.get(node_id)
        if not shape.gpu_share_bytes or node is None:
            return 0.0
        sizes = [gpu.memory_bytes for gpu in node.gpus if gpu.uuid in gpu_uuids]
        return min(1.0, shape.gpu_share_bytes / max(1, *sizes)) if sizes else 0.0

    def sharers(self, attempt: Attempt) -> list[Task]:
        """Whose attempts have a share of the card of this live attempt's share now, without its own."""
        of_card = [self._shares.get(uuid, {}) for uuid in attempt.gpu_uuids] if attempt.shape.gpu_share_bytes else []
        return [self.tasks[key] for held in of_card for key in held if key != attempt.id.task]

    def _free_units(self, gpu: Gpu) -> int:
        """How many units of a shared card nobody has. None while a task has it whole, from before it was shared."""
        return 0 if gpu.uuid in self._gpus else gpu.units - sum(self._shares.get(gpu.uuid, {}).values())

    def _check_free(self, key: TaskId, attempt: Attempt) -> None:
        """Whether nobody has its GPUs whole, or shares one of them that it would have whole.

        Raises:
            DoubleBooked: somebody has.
        """
        for uuid in attempt.gpu_uuids:
            if self._gpus.get(uuid, key) != key:
                raise DoubleBooked(f"{uuid} belongs to {self._gpus[uuid]}, not to {attempt.id}")
            others = [] if attempt.shape.gpu_share_bytes else [t for t in self._shares.get(uuid, {}) if t != key]
            if others:
                raise DoubleBooked(f"{uuid} is shared by {', '.join(map(str, others))}, so {attempt.id} can't have it")

    def _check_room(self, attempt: Attempt) -> None:
        """Whether the card of a new share has so many units left. A card may have got smaller since it was booked.

        Raises:
            DoubleBooked: it has not.
        """
        node = self.nodes.get(attempt.node_id)
        for gpu in node.gpus if node is not None else ():
            if gpu.uuid in attempt.gpu_uuids and self._free_units(gpu) < attempt.shape.share_units:
                others = ", ".join(map(str, self._shares.get(gpu.uuid, {})))
                raise DoubleBooked(f"{gpu.uuid} has no room for {attempt.id} beside {others or 'nobody'}")

    @property
    def nodes_for_gates(self) -> GateNodes:
        """The nodes as gates look at them."""
        return GateNodes(self.nodes.keys(), self.leases, self.nodes_live)

    def gpu_last_used(self, uuid: str) -> float:
        """Rises with each use; 0 for a card that was never used since the start."""
        return float(self._gpu_used.get(uuid, 0))

    def pause_s(self, task: Task, mono: float) -> float | None:
        """How many seconds of its pause before the next try are left; None: it has no pause."""
        pause = self._pauses.get(task.id)
        if pause is None or not task.waiting or task.held or self.queue.is_runnable(task.id):
            return None
        return max(0.0, pause[0] - mono)

    def incarnation(self, node_id: NodeId) -> int:
        """The latest known start of its Worker; 0 for a node that is not known."""
        node, lease = self.nodes.get(node_id), self.leases.get(node_id)
        return max(node.incarnation if node is not None else 0, lease.incarnation if lease is not None else 0)

    def first_seen(self, node_id: NodeId) -> float:
        """By the boot clock: when this process first knew the node; its silence counts from there."""
        return self._first_seen.get(node_id, self.started_s)

    @property
    def waiting_count(self) -> int:
        """How many tasks wait, with those on hold."""
        return len(self.queue) + len(self.held)

    def waiting_count_of_job(self, job_id: JobId) -> int:
        """How many tasks of this job wait, with those on hold."""
        return self.queue.count_of_job(job_id) + sum(task_id.job_id == job_id for task_id in self.held)

    @property
    def gpus(self) -> int:
        """GPUs of the cluster that are given out whole."""
        return sum(node.whole_gpus for node in self.nodes.values())

    # -- primitives: set one thing and keep the indexes right ----------------------------------------

    def _set_task(self, task_id: TaskId, task: Task | None) -> None:
        before = self.tasks.get(task_id)
        if task is None:
            self.tasks.pop(task_id, None)
            self._pauses.pop(task_id, None)
        else:
            self.tasks[task_id] = task
        if before is not None and before.waiting:
            self.queue.remove(task_id)
            self.held.pop(task_id, None)
            self.rough_due = True
            self.pass_needed |= self.queue.retry_due
            if self.plan is not None and task_id in self.plan.estimates:
                self.pass_needed = True  # its reservation may start others, and one more moves up
            elif self.plan is not None and self.plan.cut and task_id in self.plan.waits:
                self._pass_soon()  # one more task is looked at, and may start
        if task is None or not task.waiting:
            return
        if task.held:
            self.held[task_id] = None
            return
        due_s = self._due_s(task)
        runnable = due_s <= self.mono
        self.queue.add(task, runnable=runnable)
        if not runnable:
            self._pauses[task_id] = (due_s, task.not_before)
            heapq.heappush(self._paused, (due_s, task_id, task.not_before))
        elif would_change_nothing(self.plan, self.queue, task):
            self.rough_due = True
        elif self.mono < self.planned_s + self._arrivals_s and would_start_nothing(self.plan, self.queue, task):
            self.rough_due = True
            self._pass_soon()
        else:
            self.pass_needed = True

    def _pass_soon(self) -> None:
        """Plans one pass for all tasks that come or go shortly after the last pass."""
        due_s = self.planned_s + self._arrivals_s
        if due_s <= self.mono:
            self.pass_needed = True
        else:
            self.next_pass_s = due_s if self.next_pass_s is None else min(self.next_pass_s, due_s)

    def _set_policy(self, policy: Policy) -> None:
        self.policy, self.ordered_at = policy, self.now
        self.queue.change_policy(policy)
        self.pass_needed = True

    def _ago(self, at: float) -> float:
        """A past instant by the boot clock. An instant in the future by the wall clock counts as now."""
        return self.mono - max(0.0, self.now - at)

    def _due_s(self, task: Task) -> float:
        # The end of a pause is stored by the wall clock. A clock that is set back would stretch it for hours. So the
        # end is converted once, and then stays.
        pause = self._pauses.get(task.id)
        if pause is not None and pause[1] == task.not_before:
            return pause[0]
        # After a start only the wall clock tells how much of a pause is left. It may have been set back by hours.
        return self.mono + min(max(0.0, task.not_before - self.now), self._longest_pause_s)

    def _set_attempt(self, key: TaskId, attempt: Attempt | None, tracking: AttemptTracking | None) -> None:
        if attempt is not None:
            self._check_free(key, attempt)
        before = self.attempts.pop(key, None)
        if before is not None:
            usage = self._usage[before.node_id]
            usage.cpu_centi -= before.shape.cpu_centi
            usage.memory_bytes -= before.shape.memory_bytes
            del usage.tasks[key]
            for uuid in before.gpu_uuids:
                self._release(uuid, key)
            self.tracking.pop(key, None)
            if attempt is None:
                self.pass_needed = True
        if attempt is None:
            return
        self.attempts[key] = attempt
        self.tracking[key] = tracking if tracking is not None else AttemptTracking()
        usage = self._usage.setdefault(attempt.node_id, _BookedResources())
        usage.cpu_centi += attempt.shape.cpu_centi
        usage.memory_bytes += attempt.shape.memory_bytes
        usage.tasks[key] = None
        for uuid in attempt.gpu_uuids:
            if attempt.shape.gpu_share_bytes:
                self._shares.setdefault(uuid, {})[key] = attempt.shape.share_units
            else:
                self._gpus[uuid] = key
            self._uses += 1
            self._gpu_used[uuid] = self._uses

    def _release(self, uuid: str, key: TaskId) -> None:
        if uuid in self._gpus:
            del self._gpus[uuid]
            return
        del self._shares[uuid][key]
        if not self._shares[uuid]:
            del self._shares[uuid]

    def _set_node(self, node_id: NodeId, node: Node | None) -> None:
        if node is None:
            self.nodes.pop(node_id, None)
        else:
            before = self.nodes.get(node_id)
            self.nodes[node_id] = node
            if before is None or before.incarnation != node.incarnation:
                self._first_seen[node_id] = self.mono
        unfit = self.unfit.get(node_id)
        if unfit is not None and may_accept_work_again(unfit.node, node):
            del self.unfit[node_id]
        self.pass_needed = True

    def _why_closed(self, node: Node) -> str:
        closed = why_closed(node) or self.unconfirmed.get(node.id, "")
        if closed:
            return closed
        unfit = self.unfit.get(node.id)
        if unfit is not None:
            return f"{node.id} refused work: {unfit.sentence}"
        lease = self.leases.get(node.id)
        if lease is not None and lease.stopping and lease.incarnation >= node.incarnation:
            return f"{node.id} is stopping"
        return ""


def _collect_changes(dirty: dict[TaskId, V | None], before: Mapping[TaskId, V], after: Mapping[TaskId, V]) -> None:
    """Adds the values that differ to those that go to disk."""
    dirty |= dict.fromkeys(before.keys() - after.keys())
    dirty |= {task_id: value for task_id, value in after.items() if before.get(task_id) != value}
