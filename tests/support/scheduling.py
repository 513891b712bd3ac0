"""A simulated cluster under `scheduling_pass.plan_pass`: no database, no Worker, a clock that jumps to each event.

Of one instant all ends come first, then all arrivals, then one pass. After each pass the world checks what must always
hold, and that no promise was broken without a cause that the plan told.
"""

from __future__ import annotations

import csv
import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headway.ids import NodeId, TaskId
from headway.states import TaskState
from task_manager.model import Node, Task
from task_manager.order.policy import ClusterView, Policy
from task_manager.order.queue import TaskQueue
from task_manager.planning.bookings import Booking, Reservation
from task_manager.planning.changes import Seen
from task_manager.planning.pass_model import Discipline, PassInput, PassSettings, Plan
from task_manager.planning.placement import CpuTasks, FreeResources, fits, full_capacity, shortages
from task_manager.planning.scheduling_pass import plan_pass


@dataclass(slots=True)
class Live:
    """A live attempt."""

    task: Task
    booking: Booking
    started_s: float
    ends_s: float


class Cluster:
    """Nodes, tasks and time. ``run_s`` tells how long the next attempt of a task runs."""

    def __init__(
        self,
        nodes: Sequence[Node],
        policy: Policy,
        settings: PassSettings | None = None,
        *,
        run_s: Callable[[Task], float] = lambda task: task.timeout_s,
        on_end: Callable[[Task], Task | None] = lambda task: None,
        checked: bool = True,
        wall_offset_s: float = 0.0,
    ) -> None:
        self.now = 0.0
        self.wall_offset_s = wall_offset_s  # the wall clock less the pass's clock
        self.settings = settings or PassSettings()
        self.policy = policy
        self.nodes: dict[NodeId, Node] = {node.id: node for node in nodes}
        self.closed: dict[NodeId, str] = {}  # for a while, and why
        self.queue = TaskQueue(policy, limits=self.settings.limits)
        self.tasks: dict[TaskId, Task] = {}
        self.live: dict[TaskId, Live] = {}
        self.reservations: dict[TaskId, Reservation] = {}
        self.owed: dict[TaskId, Reservation] = {}  # stored without a promise
        self.promised: dict[TaskId, float] = {}  # what each waiting task was told
        self.promises = 0
        self.causes: list[str] = []
        self.missed: list[str] = []
        self.starts: dict[TaskId, float] = {}
        self.last: Plan | None = None
        self.last_seen: Seen | None = None  # what the last pass saw
        self.passes = 0
        self._run_s = run_s
        self._on_end = on_end
        self._checked = checked
        self._events: list[tuple[float, int, int, Callable[[], None]]] = []
        self._number = 0

    # -- what happens -----------------------------------------------------------------------------

    def at(self, when: float, act: Callable[[], None], *, ends: bool = False) -> None:
        """Something happens then; ends of attempts come before all else of the same instant."""
        self._number += 1
        heapq.heappush(self._events, (when, 0 if ends else 1, self._number, act))

    def submit(self, *tasks: Task) -> None:
        """Each comes at the moment of its submission."""
        for task in tasks:
            self.at(task.submitted_at - self.wall_offset_s, lambda task=task: self.enqueue(task))  # type: ignore[misc]

    def enqueue(self, task: Task) -> None:
        """It comes now, from whenever it ages."""
        self.tasks[task.id] = task
        self.queue.add(task, runnable=True)

    def cancel(self, task_id: TaskId) -> None:
        """Waiting or running: it is gone."""
        if task_id in self.live:
            self._end(task_id, None)
        else:
            self._forget(task_id)

    def lose(self, node_id: NodeId) -> None:
        """A machine goes down; what ran there waits again."""
        self.nodes.pop(node_id, None)
        for task_id, live in list(self.live.items()):
            if live.booking.node_id == node_id:
                self._end(task_id, replace(live.task, state=TaskState.QUEUED))

    # -- time -------------------------------------------------------------------------------------

    def run(self, until: float = math.inf) -> None:
        """Until nothing is left to happen, or that moment."""
        while True:
            instants = [self._events[0][0]] if self._events else []
            wake = self.last.next_wake_s if self.last is not None and len(self.queue) else None
            if wake is not None:
                assert wake > self.now, "a pass asked to be called again at once"
                instants.append(wake)
            if not instants or min(instants) > until:
                self.now = self.now if until == math.inf else until
                return
            self.now = min(instants)
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[3]()
            while self.step().more:
                pass

    def step(self) -> Plan:
        """One pass, carried out."""
        self.passes += 1
        snapshot = self.snapshot()
        made = plan_pass(snapshot)
        self.last, self.last_seen = made, Seen.of(snapshot, made)
        if self._checked:
            self._check(made)
        self.reservations, self.owed = dict(made.promised), dict(made.owed)
        for dropped in made.dropped:
            self.causes.append(dropped.cause)
            self.promised.pop(dropped.task_id, None)
        for task_id, place in made.promised.items():
            assert place.promised_s is not None
            told = self.promised.get(task_id)
            self.promises += told is None
            if told is not None and place.promised_s > told:
                self.missed.append(f"{self.now}: {task_id} was promised {told}, now {place.promised_s}")
            self.promised[task_id] = place.promised_s
        for task_id, told in list(self.promised.items()):
            if task_id not in made.promised and task_id in self.tasks and not self._starts(made, task_id):
                self.missed.append(f"{self.now}: {task_id} was promised {told}, and nothing any more")
                del self.promised[task_id]
        for placement in made.placements:
            self._start(placement.task_id, placement.node_id, placement.gpu_uuids)
        return made

    def snapshot(self) -> PassInput:
        """What a pass sees now."""
        running = [live.booking for live in self.live.values()]
        return PassInput(
            now_s=self.now,
            wall_s=self.now + self.wall_offset_s,
            queue=self.queue,
            tasks=self.tasks,
            free_resources=self.free_resources(),
            running=running,
            reservations={**self.reservations, **self.owed},
            policy=self.policy,
            view=ClusterView(sum(len(n.gpus) for n in self.nodes.values()), self.queue.waiting_gpu_s),
            settings=self.settings.for_waiting(len(self.queue)),
            changes=() if self.last_seen is None else self.last_seen.changes(running, self.nodes, self.now),
        )

    def free_resources(self) -> list[FreeResources]:
        """What is left of every node."""
        free_resources = []
        for order, node in enumerate(self.nodes.values()):
            free = full_capacity(node, order)
            for live in self.live.values():
                if live.booking.node_id == node.id:
                    free.take(live.booking.shape, live.booking.gpu_uuids)
            free.closed = free.closed or self.closed.get(node.id, "")
            free_resources.append(free)
        return free_resources

    # -- inside -----------------------------------------------------------------------------------

    def _starts(self, made: Plan, task_id: TaskId) -> bool:
        return any(placement.task_id == task_id for placement in made.placements)

    def _start(self, task_id: TaskId, node_id: NodeId, gpu_uuids: tuple[str, ...]) -> None:
        task = self.tasks.pop(task_id)
        self.queue.remove(task_id)
        told = self.promised.pop(task_id, None)
        if told is not None and self.now > told + 1e-6:
            self.missed.append(f"{task_id} was promised {told} and started at {self.now}")
        until = self.now + self.settings.duration_s(task)
        booking = Booking(task_id, task.owner, node_id, task.shape, gpu_uuids, task.timeout_s, until)
        ends = self.now + self._run_s(task)
        self.live[task_id] = live = Live(task, booking, self.now, ends)
        self.starts.setdefault(task_id, self.now)

        def end() -> None:
            if self.live.get(task_id) is live:
                self._end(task_id, self._on_end(task))

        self.at(ends, end, ends=True)

    def _end(self, task_id: TaskId, again: Task | None) -> None:
        live = self.live.pop(task_id)
        if again is not None:
            spent_s = live.task.spent_s + self.now - live.started_s
            self.enqueue(replace(again, spent_s=spent_s))
        else:
            self.queue.ended(live.task, self.now - live.started_s)

    def _forget(self, task_id: TaskId) -> None:
        task = self.tasks.pop(task_id, None)
        if task is not None:
            self.queue.remove(task_id)
            self.queue.ended(task, 0.0)
            self.promised.pop(task_id, None)

    # -- laws -------------------------------------------------------------------------------------

    def _check(self, made: Plan) -> None:
        started = [placement.task_id for placement in made.placements]
        assert len(started) == len(set(started))
        assert not set(started) & set(self.live), "an attempt is started twice"
        assert not set(started) & set(made.promised), "a task is queued and placed"
        assert set(made.promised) <= set(self.tasks)
        free_resources = {free.node.id: free for free in self.free_resources()}
        for placement in made.placements:
            free, task = free_resources[placement.node_id], self.tasks[placement.task_id]
            assert not free.closed
            assert len(placement.gpu_uuids) == len(set(placement.gpu_uuids)) == task.shape.held_gpus
            there = free.shares if task.shape.gpu_share_bytes else {gpu.uuid for gpu in free.gpus}
            assert set(placement.gpu_uuids) <= set(there), "a GPU is given twice"
            assert not shortages(task.shape, free, self.settings.cpu_tasks)
            free.take(task.shape, placement.gpu_uuids)
        assert made.waits.keys() | {p.task_id for p in made.placements} >= set(made.reservations)
        self._check_bookings(made)
        if not made.policy_failed:
            self._check_idle(made, list(free_resources.values()))

    def _profile(self, made: Plan) -> list[tuple[NodeId, float, float, Task]]:
        booked = []
        for live in self.live.values():
            until = live.booking.until_s if live.booking.until_s > self.now else self.now + 60.0
            node = self.nodes.get(live.booking.node_id)
            sick = {gpu.uuid for gpu in node.gpus if not gpu.usable} if node is not None else set()
            held = 0 if live.task.shape.gpu_share_bytes else len(set(live.booking.gpu_uuids) - sick)
            shape = replace(live.task.shape, gpus=held)
            booked.append((live.booking.node_id, self.now, until, replace(live.task, shape=shape)))
        for placement in made.placements:
            task = self.tasks[placement.task_id]
            booked.append((placement.node_id, self.now, self.now + self.settings.duration_s(task), task))
        for task_id, place in made.reservations.items():
            booked.append((place.node_id, place.start_s, place.start_s + place.duration_s, self.tasks[task_id]))
        return booked

    def _fits_beside(
        self, booked: Sequence[tuple[NodeId, float, float, Task]], node: Node, task: Task, start: float, end: float
    ) -> bool:
        here = [row for row in booked if row[0] == node.id and row[1] < end - 1e-6 and row[2] > start + 1e-6]
        for moment in {start, *(row[1] for row in here if row[1] > start)}:
            free = full_capacity(node)
            there = [row[3].shape for row in here if row[1] <= moment + 1e-6 and row[2] > moment + 1e-6]
            free.cpu_centi -= sum(shape.cpu_centi for shape in there)
            free.memory_bytes -= sum(shape.memory_bytes for shape in there)
            free.gpus = free.gpus[: max(0, len(free.gpus) - sum(shape.gpus for shape in there))]
            if not fits(task.shape, free):
                return False
        return True

    def _check_bookings(self, made: Plan) -> None:
        """All that is booked has room at every moment, were every card alike."""
        booked = self._profile(made)
        for i, (node_id, start, end, task) in enumerate(booked):
            node = self.nodes.get(node_id)
            if node is not None and start > self.now and node_id not in self.closed:
                others = booked[:i] + booked[i + 1 :]
                bare = replace(task, shape=replace(task.shape, gpu_models=(), gpu_memory_bytes=0, gpu_uuids=()))
                assert self._fits_beside(others, node, bare, start, end), f"{task.id} has no room for its reservation"

    def _check_idle(self, made: Plan, free_resources: list[FreeResources]) -> None:
        """Nothing idles that a task could use without delaying a reservation (where all cards are alike)."""
        limits = self.settings.limits
        if made.more:
            return  # the rest is for the next pass, at this very moment
        if self.settings.discipline is Discipline.STRICT or limits.running_gpus_per_user or limits.short_reserve:
            return
        greedy = self.settings.discipline is Discipline.GREEDY
        booked = [] if greedy else self._profile(made)
        for task_id, task in self.tasks.items():
            if not self.queue.is_runnable(task_id) or self._starts(made, task_id):
                continue
            if task.shape.gpu_share_bytes and not greedy:
                continue  # what is booked beside it says how much of which card, and not only how many cards
            others = [row for row in booked if row[3].id != task_id]
            for free in free_resources:
                if free.closed or shortages(task.shape, free, self.settings.cpu_tasks):
                    continue
                models = {(gpu.model, gpu.memory_bytes) for gpu in free.node.gpus}
                if greedy:
                    raise AssertionError(f"{task_id} fits on {free.node.id} and does not start")
                if len(models) <= 1:
                    end = self.now + self.settings.duration_s(task)
                    assert not self._fits_beside(others, free.node, task, self.now, end), f"{task_id} could start now"


def greedy(
    queue: TaskQueue, free_resources: Sequence[FreeResources], cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT
) -> Plan:
    """One pass that starts all that fits now, in order; ``free_resources`` are changed to what is left then."""
    tasks = {task_id: queue._entries[task_id].task for task_id in queue.in_order()}
    gpus = sum(len(free.node.gpus) for free in free_resources)
    settings = PassSettings(discipline=Discipline.GREEDY, cpu_tasks=cpu_tasks, estimates=False)
    said = plan_pass(
        PassInput(
            0.0,
            0.0,
            queue,
            tasks,
            free_resources,
            [],
            {},
            queue.policy,
            ClusterView(gpus, queue.waiting_gpu_s),
            settings,
        )
    )
    at = {free.node.id: free for free in free_resources}
    for placement in said.placements:
        at[placement.node_id].take(tasks[placement.task_id].shape, placement.gpu_uuids)
    return said


def fixture_rows(name: str) -> list[dict[str, float]]:
    """The rows of a table of numbers in tests/fixtures."""
    with (Path(__file__).resolve().parents[1] / "fixtures" / name).open() as file:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
