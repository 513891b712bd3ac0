"""One scheduling pass over a long queue, beside a bare loop over as many numbers; the queue's own cost and memory."""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Iterator

from headway.ids import JobId, NodeId, TaskId
from headway.states import Admission, NodeHealth
from task_manager.model import Gpu, Node, Shape, Task
from task_manager.order.policy import AgingSjf, ClusterView
from task_manager.order.queue import TaskQueue
from task_manager.planning.bookings import Booking, Reservation
from task_manager.planning.pass_model import PassInput, PassSettings, PromiseRule
from task_manager.planning.placement import FreeResources, full_capacity
from task_manager.planning.scheduling_pass import plan_pass

from .measure import Figure, median, pss_bytes

NODES, GPUS = 100, 8
GiB = 1 << 30
ROUNDS = 15


def one_pass() -> Iterator[Figure]:
    """The pass after one attempt ended: 100 nodes of 8 GPUs, all busy, mixed shapes, no two timeouts alike."""
    for count, goal_ms in ((10_000, 30.0), (100_000, 60.0)):
        base = _memory() if count == 100_000 else 0
        began = time.perf_counter()
        busy = Busy(count)
        built_s = time.perf_counter() - began
        if count == 100_000:
            gc.collect()
            yield Figure(f"pass: memory of {count} queued tasks", (_memory() - base) / 2**20, "MiB", 500.0)
        bare_ms = _bare_ms()
        busy.step()  # the first finds no stored reservations
        took = [busy.step() for _ in range(ROUNDS)]
        note = f"{median(took) / bare_ms:.1f} × a bare loop of 100,000 additions ({bare_ms:.1f} ms), {busy.note}"
        yield Figure(f"pass: one event, {count} queued, {NODES} × {GPUS} GPUs", median(took), "ms", goal_ms, note=note)
        settled_ms = _settled_ms(count)
        note = f"{settled_ms / bare_ms:.1f} × the bare loop"
        yield Figure("  the same where promises wait for a settled order", settled_ms, "ms", note=note)
        yield Figure(
            f"pass: a task in and out of {count}", busy.in_and_out_us(), "µs", note=f"built in {built_s:.1f} s"
        )


def _settled_ms(count: int) -> float:
    busy = Busy(count, rule=PromiseRule.SETTLED)
    busy.step()
    return median([busy.step() for _ in range(ROUNDS)])


class Busy:
    """A full cluster and a queue. ``step``: one attempt ends, one task comes, one pass."""

    def __init__(self, count: int, *, shapes: int = 40, seed: int = 1, rule: PromiseRule = PromiseRule.LATE) -> None:
        self.rule = rule
        self.chance = random.Random(seed)
        self.shapes = [self._shape() for _ in range(shapes)]
        self.queue = TaskQueue(AgingSjf())
        self.tasks: dict[TaskId, Task] = {}
        self.now = 1_000_000.0
        for i in range(count):
            self._submit(i, self.now - self.chance.uniform(0, 500_000))
        self.free_resources = [full_capacity(_node(i), i) for i in range(NODES)]
        self.running: dict[TaskId, Booking] = {}
        for free in self.free_resources:
            while free.gpus:
                fitting = [shape for shape in self.shapes if 0 < shape.gpus <= len(free.gpus)]
                if not fitting:
                    break
                self._run(free, self.chance.choice(fitting))
        self.reservations: dict[TaskId, Reservation] = {}
        self.number = count
        self.note = ""

    def step(self) -> float:
        """Milliseconds of the pass."""
        self.now += 5.0
        ended = self.running.pop(self.chance.choice(list(self.running)))
        free = next(free for free in self.free_resources if free.node.id == ended.node_id)
        free.cpu_centi += ended.shape.cpu_centi
        free.memory_bytes += ended.shape.memory_bytes
        free.gpus += [gpu for gpu in free.node.gpus if gpu.uuid in ended.gpu_uuids]
        self._submit(self.number, self.now)
        self.number += 1
        snapshot = PassInput(
            self.now, self.now, self.queue, self.tasks, self.free_resources, list(self.running.values()),
            self.reservations, self.queue.policy, ClusterView(NODES * GPUS, self.queue.waiting_gpu_s),
            PassSettings(start_limit_s=60.0, promises=self.rule).for_waiting(len(self.queue)),
        )  # fmt: skip
        gc.collect()
        began = time.perf_counter()
        made = plan_pass(snapshot)
        took_s = time.perf_counter() - began
        self.reservations = dict(made.promised)
        self.note = f"{len(made.promised)} promised, {len(made.reservations)} reserved"
        for placement in made.placements:
            task = self.tasks.pop(placement.task_id)
            self.queue.remove(task.id)
            there = next(free for free in self.free_resources if free.node.id == placement.node_id)
            there.take(task.shape, placement.gpu_uuids)
            self.running[task.id] = Booking(
                task.id, task.owner, placement.node_id, task.shape, placement.gpu_uuids, task.timeout_s,
                self.now + task.timeout_s + 60.0,
            )  # fmt: skip
        return took_s * 1000

    def in_and_out_us(self) -> float:
        """Median microseconds to put a task in and take it out again."""
        took = []
        for i in range(500):
            began = time.perf_counter()
            self._submit(self.number + i, self.now)
            task_id = TaskId(JobId(f"j{self.number + i:016d}"), "t")
            self.queue.remove(task_id)
            took.append((time.perf_counter() - began) * 1e6)
            del self.tasks[task_id]
        return median(took)

    def _shape(self) -> Shape:
        gpus = self.chance.choice([0, 1, 1, 1, 2, 2, 4, 8])
        return Shape(self.chance.choice([100, 200, 400]) * max(1, gpus), self.chance.choice([4, 8, 12]) * GiB, gpus)

    def _submit(self, number: int, at: float) -> None:
        task = Task(
            TaskId(JobId(f"j{number:016d}"), "t"), 1, f"user{number % 50}", "job", 0, at, 0.0,
            self.chance.choice(self.shapes), self.chance.uniform(60, 100_000), 0,
        )  # fmt: skip
        self.tasks[task.id] = task
        self.queue.add(task, runnable=True)

    def _run(self, free: FreeResources, shape: Shape) -> None:
        uuids = tuple(gpu.uuid for gpu in free.gpus[: shape.gpus])
        free.take(shape, uuids)
        timeout_s = self.chance.uniform(60, 100_000)
        task_id = TaskId(JobId(f"r{len(self.running):016d}"), "t")
        until_s = self.now + self.chance.uniform(100, timeout_s + 160)
        self.running[task_id] = Booking(task_id, "user", free.node.id, shape, uuids, timeout_s, until_s)


def _node(i: int) -> Node:
    cards = tuple(Gpu(f"GPU-{i}-{k}", "NVIDIA A100-SXM4-80GB", 80 * GiB, k) for k in range(GPUS))
    return Node(NodeId(f"n{i:03d}"), 1, f"n{i}:7004", NodeHealth.READY, Admission.OPEN, 6400, 512 * GiB, cards)


def _bare_ms() -> float:
    took = []
    for _ in range(5):
        began = time.perf_counter()
        total = 0
        for i in range(100_000):
            total += i
        took.append((time.perf_counter() - began) * 1000)
    return median(took)


def _memory() -> int:
    gc.collect()
    return pss_bytes(os.getpid())
