"""Waiting tasks as pages show them. What all entries of one moment need is found once."""

from __future__ import annotations

from headway.model.reasons import WaitReason
from headway.rpc import convert
from headway.rpc.v1 import common_pb2, task_manager_pb2

from .. import wire
from ..clocks import ClockReading
from ..engine import pass_input
from ..engine.comparing import gates
from ..engine.state import EngineState
from ..model import Shape, Task
from ..planning.limit_checks import ruled_out
from ..planning.overtaking import OvertakingPromises
from ..planning.placement import FreeResources
from ..planning.promises import shown_first_promise
from ..planning.reasons import explain
from ..settings import TaskManagerSettings
from . import scheduling_view

PRIORITIES = {rank: convert.priority_to_pb(name) for name, rank in convert.PRIORITY_RANK.items()}


class QueueEntries:
    """Makes entries from the engine's state, which must not change meanwhile.

    ``rooms``: what is free on every known node. ``overtaken``: of the state's plan. ``ahead_s``: by how much the steady
    clock is ahead of the wall clock.
    """

    def __init__(
        self,
        state: EngineState,
        settings: TaskManagerSettings,
        rooms: list[FreeResources],
        overtaken: OvertakingPromises | None,
        reading: ClockReading,
        ahead_s: float,
    ) -> None:
        self._state = state
        self._settings = settings
        self._now = reading.now
        self._mono = reading.mono
        self._ahead_s = ahead_s
        holdings = pass_input.holdings(state, settings.limits)
        self._sight = explain.ClusterSnapshot(rooms, settings.cpu_tasks, settings.limits, holdings)
        self._overtaken = overtaken
        self._resources: dict[Shape, common_pb2.Resources] = {}

    def entry(self, task: Task, position: int | None = None) -> task_manager_pb2.QueueEntry:
        """``position``: in the whole queue, from 1; None: it is looked up."""
        if not task.waiting:
            position = 0
        elif position is None:
            position = self._state.queue.position(task.id)
        resources = self._resources.get(task.shape)
        if resources is None:
            resources = self._resources[task.shape] = wire.resources(task.shape)
        entry = task_manager_pb2.QueueEntry(
            task=convert.task_to_pb(task.id),
            owner=task.owner,
            job_name=task.job_name,
            position=position,
            resources=resources,
            timeout_s=task.timeout_s,
            submitted_at=task.submitted_at - self._ahead_s,
            priority=PRIORITIES[task.priority],
            terms=scheduling_view.terms(self._state, task, self._now + self._ahead_s),
            held=task.held,
            attempt=task.attempt + 1 if task.waiting else task.attempt,
            state=task.state.value,
        )
        if task.waiting:
            self._starts(entry, task, position)
            entry.reasons.extend([convert.wait_reason_to_pb(reason) for reason in self._reasons(task, position)])
        return entry

    def _reasons(self, task: Task, position: int) -> list[WaitReason]:
        state, plan, overtaken = self._state, self._state.plan, self._overtaken
        found = explain.wait_reasons(
            task,
            self._sight,
            ahead=max(0, position - 1),
            pause_s=state.pause_s(task, self._mono),
            wait=plan.wait_of(task) if plan is not None else None,
            promised=pass_input.is_promised(state, task.id),
            may_still_run=gates.why_closed(
                state.gates, state.nodes_for_gates, task.id, now_s=self._mono, settings=self._settings.leases
            ),
            overtaken_by=overtaken.ahead_of(task, self._sight, since_at=state.ordered_at)
            if overtaken is not None
            else (),
        )
        moved = state.moved_promises.get(task.id)
        if moved is not None:
            place = state.reservations.get(task.id) or (plan.reservations.get(task.id) if plan is not None else None)
            start_s = None if place is None else place.start_s if place.promised_s is None else place.promised_s
            found.append(explain.moved_promise_reason(moved, start_s))
        return found

    def _starts(self, entry: task_manager_pb2.QueueEntry, task: Task, position: int) -> None:
        state, now, mono = self._state, self._now, self._mono
        estimate = pass_input.estimated_start(state, task, position, now=now, mono=mono)
        if estimate is not None and not ruled_out(
            self._settings.limits, task.shape, task.timeout_s, gpus=self._sight.gpus
        ):
            entry.estimated_start, entry.estimate_rough = estimate
        promised = pass_input.promised_start(state, task.id, now=now, mono=mono)
        if promised is not None:
            entry.promised_start = promised
            first = shown_first_promise(state.reservations[task.id], now=now, mono=mono)
            if first is not None:
                entry.first_promised_start = first
