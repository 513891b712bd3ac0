"""What tasks that nobody has submitted would get: asked of the pass itself, on a copy of the queue.

Each set of tasks is added to a copy of the snapshot as if it were submitted at this moment, and one pass says what it
would say then. So a preview is the real first answer, unless something happens in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headway.ids import JobId, TaskId
from headway.model.reasons import WaitReason
from headway.units import format_duration

from ..model import Node, Task
from ..order.policy import ClusterView
from . import explain, promises, scheduling_pass
from .admission import GpuHoldings
from .overtaking import OvertakingPromises
from .pass_model import Discipline, PassInput, Plan
from .placement import FreeResources
from .submit_check import SubmitCheck

# Ids of jobs begin with "j" and a moment: this one sorts behind all of them, as a job submitted now does.
PREVIEW_JOB = JobId("this-job")
_BINDING = frozenset({Discipline.CONSERVATIVE, Discipline.EASY})


@dataclass(frozen=True, slots=True)
class PreviewedStart:
    """What one task would get. Instants are by the wall clock, in epoch seconds."""

    name: str
    position: int = 0  # from 1 among those left waiting; 0: it starts at once, or no such task is taken
    at_once: bool = False
    starts_at: float | None = None
    rough: bool = False
    promised_at: float | None = None  # promised at once: no later than this
    promise_from: float | None = None  # a start can be promised from then on
    reasons: tuple[WaitReason, ...] = ()
    refused: str = ""  # why no such task is taken


def previewed_starts(
    snapshot: PassInput, tasks: Sequence[Task], nodes: Sequence[Node], *, most: int, allow_unsatisfiable: bool = False
) -> list[PreviewedStart]:
    """What these tasks would get if all of them were queued now; the first ``most`` of them in the queue's order. With
    ``allow_unsatisfiable``, what machines still to come could run waits for them and is not refused.

    The snapshot is one of its own (`snapshot.apart`) and as before afterwards.
    """
    # A rule that learns has met the tasks of a preview afterwards, and so must not be asked again.
    queue = snapshot.queue if snapshot.queue.policy.static else snapshot.queue.copier()()
    added = {task.id: task for task in tasks}
    for task in tasks:
        queue.add(task, runnable=True)
    view = ClusterView(snapshot.view.gpus, queue.waiting_gpu_s)
    asked = replace(snapshot, queue=queue, tasks={**snapshot.tasks, **added}, policy=queue.policy, view=view)
    try:
        look = _Look(asked, scheduling_pass.plan_pass(asked), nodes, allow_unsatisfiable)
        order = sorted(added, key=lambda task_id: queue.key_of(task_id) or ())
        return [look.start(added[task_id]) for task_id in order[:most]]
    finally:
        for task_id in added:
            queue.remove(task_id)


class _Look:
    """One plan, and the cluster as it is after it."""

    def __init__(self, asked: PassInput, plan: Plan, nodes: Sequence[Node], allow_unsatisfiable: bool) -> None:
        self._asked = asked
        self._plan = plan
        self._allow_unsatisfiable = allow_unsatisfiable
        self._submit_check = SubmitCheck(nodes, asked.settings.limits, asked.settings.cpu_tasks)
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
        """Among those that are left once the pass has started what it starts."""
        key = self._asked.queue.key_of(task_id)
        ahead = 0 if key is None else sum(1 for placed in self._placed_keys if placed < key)
        return self._asked.queue.position(task_id) - ahead

    def _promised(self, task_id: TaskId) -> float | None:
        reservation = self._plan.promised.get(task_id)
        if reservation is None:
            return None
        return promises.shown_promise(reservation, now=self._asked.wall_s, mono=self._asked.now_s)

    def _promise_from(self, task: Task) -> float | None:
        if self._asked.settings.discipline not in _BINDING:
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
    """What is left of every node once the plan's tasks have started."""
    free_resources = {free.node.id: replace(free) for free in asked.free_resources}
    for placement in plan.placements:
        free_resources[placement.node_id].take(asked.tasks[placement.task_id].shape, placement.gpu_uuids)
    return list(free_resources.values())


def _held_after(asked: PassInput, plan: Plan) -> GpuHoldings:
    """What counts against limits once the plan's tasks have started."""
    started = (asked.tasks[placement.task_id] for placement in plan.placements)
    held = [(one.owner, one.shape.gpus, one.timeout_s) for one in asked.running]
    return GpuHoldings.of(asked.settings.limits, held + [(t.owner, t.shape.gpus, t.timeout_s) for t in started])


def sentence(start: PreviewedStart, now: float) -> str:
    """One task's answer, for people."""
    if start.refused:
        return f"It would not be taken. {start.refused}"
    if start.at_once:
        return "It would start at once."
    parts = [f"It would be at place {start.position} of the queue"]
    if start.starts_at is not None:
        about = "very roughly" if start.rough else "about"
        parts.append(f" and start in {about} {rounded_span(start.starts_at - now)}")
    if start.promised_at is not None:
        parts.append(f", in {rounded_span(start.promised_at - now)} at the latest")
    elif start.promise_from is not None:
        parts.append(f"; a start can be promised in {rounded_span(start.promise_from - now)}")
    return "".join(parts) + "."


def rounded_span(seconds: float) -> str:
    """A duration as exactly as people want it: seconds up to two minutes, minutes up to two days, hours then."""
    seconds = max(1.0, seconds)
    step = 1 if seconds < 120 else 60 if seconds < 172_800 else 3_600
    return format_duration(round(seconds / step) * step)
