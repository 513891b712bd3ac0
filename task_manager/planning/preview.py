"""Previews: when tasks would start that are not submitted yet.

The tasks are added to a copy of the queue as if they were submitted now, and one pass plans them. So a preview is what
a submit would get, unless something happens in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headway.ids import JobId, TaskId
from headway.model.reasons import WaitReason
from headway.units import format_duration

from ..model import Node, Task
from ..order.policy import ClusterView
from . import promises, scheduling_pass
from .limit_checks import GpuHoldings
from .overtaking import OvertakingPromises
from .pass_model import Discipline, PassInput, Plan
from .placement import FreeResources
from .reasons import explain
from .submit_check import SubmitCheck

# Ids of jobs begin with "j" and a time. This id sorts behind all of them, as that of a new job does.
PREVIEW_JOB = JobId("this-job")
_BINDING = frozenset({Discipline.CONSERVATIVE, Discipline.EASY})


@dataclass(frozen=True, slots=True)
class PreviewedStart:
    """What one task would get. Moments are in epoch seconds by the wall clock."""

    name: str
    position: int = 0  # from 1, among the tasks left waiting; 0: it would start at once or be refused
    at_once: bool = False
    starts_at: float | None = None
    rough: bool = False
    promised_at: float | None = None  # it would be promised at once to start no later
    promise_from: float | None = None  # from when a start can be promised
    reasons: tuple[WaitReason, ...] = ()
    refused: str = ""  # why it would be refused; empty: it would be taken


def previewed_starts(
    snapshot: PassInput, tasks: Sequence[Task], nodes: Sequence[Node], *, most: int, allow_unsatisfiable: bool = False
) -> list[PreviewedStart]:
    """What the first ``most`` of these tasks, in the order of the queue, would get if all of them were queued now.

    With ``allow_unsatisfiable``, tasks that only future machines could run would wait and are not refused. The snapshot
    must be the caller's own; it is unchanged afterwards.
    """
    # A policy that learns would remember the tasks of this preview, so it is copied.
    queue = snapshot.queue if snapshot.queue.policy.static else snapshot.queue.copier()()
    added = {task.id: task for task in tasks}
    for task in tasks:
        queue.add(task, runnable=True)
    view = ClusterView(snapshot.view.gpus, queue.waiting_gpu_s)
    asked = replace(snapshot, queue=queue, tasks={**snapshot.tasks, **added}, policy=queue.policy, view=view)
    try:
        planned = _PlannedCluster(asked, scheduling_pass.plan_pass(asked), nodes, allow_unsatisfiable)
        order = sorted(added, key=lambda task_id: queue.key_of(task_id) or ())
        return [planned.start(added[task_id]) for task_id in order[:most]]
    finally:
        for task_id in added:
            queue.remove(task_id)


class _PlannedCluster:
    """One plan, and the cluster once its tasks have started."""

    def __init__(self, asked: PassInput, plan: Plan, nodes: Sequence[Node], allow_unsatisfiable: bool) -> None:
        self._asked = asked
        self._plan = plan
        self._allow_unsatisfiable = allow_unsatisfiable
        self._submit_check = SubmitCheck(nodes, asked.settings.limits, asked.settings.cpu_tasks, asked.settings.grown)
        self._placed = {placement.task_id for placement in plan.placements}
        self._placed_keys = sorted(key for task_id in self._placed if (key := asked.queue.key_of(task_id)) is not None)
        self._overtaking = OvertakingPromises(plan, asked.queue.key_of)
        limits, held = asked.settings.limits, _held_after(asked, plan)
        self._cluster = explain.ClusterSnapshot(_after(asked, plan), asked.settings.cpu_tasks, limits, held)

    def start(self, task: Task) -> PreviewedStart:
        refusals = self._submit_check.refusals(task.shape, task.timeout_s)
        if any(one.for_ever or not self._allow_unsatisfiable for one in refusals):
            return PreviewedStart(task.id.name, refused=" ".join(one.sentence for one in refusals))
        if task.id in self._placed:
            return PreviewedStart(task.id.name, at_once=True, starts_at=self._asked.wall_s)
        position = self._position(task.id)
        estimate = None if refusals else self._plan.estimate_of(task, position)
        promised = self._promised(task.id)
        return PreviewedStart(
            task.id.name,
            position=position,
            starts_at=None if estimate is None else self._wall(max(estimate.start_s, self._asked.now_s)),
            rough=estimate is not None and estimate.rough,
            promised_at=promised,
            promise_from=self._promise_from(task) if promised is None and estimate is not None else None,
            reasons=tuple(self._reasons(task, position)),
        )

    def _position(self, task_id: TaskId) -> int:
        """The position among the tasks that the pass leaves waiting."""
        key = self._asked.queue.key_of(task_id)
        ahead = 0 if key is None else sum(1 for placed in self._placed_keys if placed < key)
        return self._asked.queue.position(task_id) - ahead

    def _promised(self, task_id: TaskId) -> float | None:
        reservation = self._plan.promised.get(task_id)
        if reservation is None:
            return None
        return promises.shown_promise(reservation, now=self._asked.wall_s, mono=self._asked.now_s)

    def _promise_from(self, task: Task) -> float | None:
        settings = self._asked.settings
        if settings.discipline not in _BINDING or settings.promises_all:
            return None
        closes_at = promises.order_settled_at(self._asked, task)
        if closes_at is None or closes_at <= self._asked.steady_s:
            return None
        return closes_at - self._asked.ahead_s

    def _reasons(self, task: Task, position: int) -> list[WaitReason]:
        return explain.wait_reasons(
            task,
            self._cluster,
            ahead=max(0, position - 1),
            wait=self._plan.wait_of(task),
            promised=task.id in self._plan.promised,
            overtaken_by=self._overtaking.ahead_of(task, self._cluster),
        )

    def _wall(self, at_s: float) -> float:
        return self._asked.wall_s + at_s - self._asked.now_s


def _after(asked: PassInput, plan: Plan) -> list[FreeResources]:
    """What is free on every node once the plan's tasks have started."""
    free_resources = {free.node.id: replace(free) for free in asked.free_resources}
    for placement in plan.placements:
        free_resources[placement.node_id].take(asked.tasks[placement.task_id].shape, placement.gpu_uuids)
    return list(free_resources.values())


def _held_after(asked: PassInput, plan: Plan) -> GpuHoldings:
    """What counts against the limits once the plan's tasks have started."""
    started = (asked.tasks[placement.task_id] for placement in plan.placements)
    held = [(one.owner, one.shape, one.timeout_s) for one in asked.running]
    return GpuHoldings.of(asked.settings.limits, held + [(t.owner, t.shape, t.timeout_s) for t in started])


def sentence(start: PreviewedStart, now: float) -> str:
    """What one task would get, as a sentence for people. ``now`` is in epoch seconds by the wall clock."""
    if start.refused:
        return f"It would not be taken. {start.refused}"
    if start.at_once:
        return "It would start at once."
    parts = [f"It would be at position {start.position} of the queue"]
    if start.starts_at is not None:
        about = "very roughly" if start.rough else "about"
        parts.append(f" and start in {about} {rounded_span(start.starts_at - now)}")
    if start.promised_at is not None:
        parts.append(f", in {rounded_span(start.promised_at - now)} at the latest")
    elif start.promise_from is not None:
        parts.append(f"; a start can be promised in {rounded_span(start.promise_from - now)}")
    elif start.starts_at is not None:
        parts.append("; no start would be promised at once")
    return "".join(parts) + "."


def rounded_span(seconds: float) -> str:
    """A duration for people: in seconds up to two minutes, in minutes up to two days, in hours above."""
    seconds = max(1.0, seconds)
    step = 1 if seconds < 120 else 60 if seconds < 172_800 else 3_600
    return format_duration(round(seconds / step) * step)
