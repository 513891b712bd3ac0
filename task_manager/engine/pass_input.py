"""The input of a pass, made from the engine's state; and the starts that a pass planned, as pages show them.

A pass counts by the boot clock, so that no booking moves when somebody sets the wall clock. What is stored or shown
is by the wall clock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace

from headway.ids import NodeId, TaskId

from ..clocks import ClockReading
from ..limits import AdmissionLimits
from ..model import Attempt, Task
from ..order.policy import ClusterView
from ..planning.bookings import Booking
from ..planning.limit_checks import GpuHoldings
from ..planning.pass_model import PassInput, PassSettings
from ..planning.placement import FreeResources
from ..planning.promises import shown_promise
from ..settings import TaskManagerSettings
from . import leases
from .state import EngineState
from .tracking import AttemptTracking

# After a reboot, stored reservations are read by the wall clock, which network time may have adjusted since. It drifts
# from the boot clock by some milliseconds an hour. Less than `PASS_S`.
_CLOCKS_APART_S = 0.25
# An attempt must be over, but its Worker has not reported its end yet: a pass assumes that it ends this soon. A
# reservation that is due there moves along meanwhile, by less than `_CLOCKS_APART_S` from pass to pass.
_AWAITED_S = 0.2


def pass_settings(settings: TaskManagerSettings) -> PassSettings:
    """What a pass needs of the settings."""
    return PassSettings(
        discipline=settings.discipline,
        reserved=settings.reserved,
        promises=settings.promises,
        start_limit_s=min(settings.start_limit_s, settings.booked_start_s),
        stop_limit_s=min(settings.stop_limit_s, settings.booked_stop_s),
        limits=settings.limits,
        grown=settings.grown,
        cpu_tasks=settings.cpu_tasks,
        slack_s=_CLOCKS_APART_S,
    )


def _pass_input(
    state: EngineState, settings: TaskManagerSettings, rooms: Iterable[FreeResources], at_s: float | None = None
) -> PassInput:
    """The input of a pass of this turn. ``at_s``: for that moment by the boot clock, which may be later."""
    wanted = pass_settings(settings).for_waiting(len(state.queue))
    at_s = state.mono if at_s is None else at_s
    running = [
        booking(attempt, state.tracking[key], state.tasks[key], wanted, at_s, settings.leases.missing_grace_s)
        for key, attempt in state.attempts.items()
    ]
    return PassInput(
        now_s=state.mono,
        wall_s=state.now,
        queue=state.queue,
        tasks=state.tasks,
        free_resources=list(rooms),
        running=running,
        reservations=state.reservations,
        policy=state.policy,
        view=ClusterView(state.gpus, state.queue.waiting_gpu_s),
        settings=wanted,
        last_used=state.gpu_last_used,
        ahead_s=state.ahead_s,
        changes=state.seen.changes(running, state.nodes, state.mono) if state.seen and state.reservations else (),
    )


def why_silent(state: EngineState, settings: TaskManagerSettings, node_id: NodeId, at_s: float | None = None) -> str:
    """Why a node counts as silent; empty: it does not. ``at_s``: at that moment by the boot clock, which may be later
    than that of the turn."""
    at_s = state.mono if at_s is None else at_s
    lease = state.leases.get(node_id)
    unheard = not state.nodes_live or state.gates.at_start_s is not None
    if unheard and (lease is None or not lease.heartbeat_seen):
        return f"{node_id} has not answered since Headway's scheduler started"
    if leases.is_silent(lease, started_s=state.first_seen(node_id), now_s=at_s, settings=settings.leases):
        return f"{node_id} does not answer"
    return ""


def free_resources(state: EngineState, settings: TaskManagerSettings, at_s: float | None = None) -> list[FreeResources]:
    """What is free on every node, and why some take nothing; at the moment of the turn, or at ``at_s``."""
    return state.free_resources(lambda node_id: why_silent(state, settings, node_id, at_s))


def current_pass_input(state: EngineState, settings: TaskManagerSettings, at_s: float | None = None) -> PassInput:
    """What a pass of this turn sees. ``at_s``: nodes that are silent by then count as silent."""
    return _pass_input(state, settings, free_resources(state, settings, at_s), at_s)


def holdings(state: EngineState, limits: AdmissionLimits) -> GpuHoldings:
    """GPUs that live attempts hold, as these limits count them."""
    attempts = state.attempts.values()
    return GpuHoldings.of(limits, ((state.tasks[one.id.task].owner, one.shape, one.timeout_s) for one in attempts))


def detached_pass_input(snapshot: PassInput, reading: ClockReading, ahead_s: float) -> Callable[[], PassInput]:
    """A copy of the pass input that stays as it is while the state changes, for one pass that starts all that can
    start. Noting what to copy is quick; the returned function does the slow part, in any thread."""
    settings = replace(snapshot.settings, starts=sys.maxsize)
    make_queue, tasks, reservations = snapshot.queue.copier(), dict(snapshot.tasks), dict(snapshot.reservations)

    def make() -> PassInput:
        queue = make_queue()
        return replace(
            snapshot, now_s=reading.mono, wall_s=reading.now, ahead_s=ahead_s, queue=queue, tasks=tasks,
            reservations=reservations, policy=queue.policy, settings=settings, last_used=lambda uuid: 0.0,
        )  # fmt: skip

    return make


def booking(
    attempt: Attempt, tracking: AttemptTracking, task: Task, settings: PassSettings, now_s: float, patience_s: float
) -> Booking:
    """What a live attempt holds, and until when at most, counted from its start once that is known.

    An attempt may have to be over although its end is not known. It has outlived its booking only if its Worker says
    so. After a start of TaskManager, or if a node is back and does not list it, the report of the end may be under way.
    A Worker also lists an ended attempt until its report is stored, so its first list counts after ``patience_s``.
    """
    whole_s = settings.duration_s(task) + attempt.timeout_s - task.timeout_s  # it may have been given more time
    until_s = tracking.booked_s + whole_s
    if tracking.running_s is not None:
        until_s = min(until_s, tracking.running_s + whole_s - settings.start_limit_s)
    confirmed_s = tracking.confirmed_s
    is_open = tracking.uncertain or tracking.missing_since_s is not None
    awaited = until_s <= now_s and (is_open or (confirmed_s is not None and now_s - confirmed_s < patience_s))
    return Booking(
        attempt.id.task, task.owner, attempt.node_id, attempt.shape, attempt.gpu_uuids, attempt.timeout_s,
        now_s + _AWAITED_S if awaited else until_s, awaited,
    )  # fmt: skip


def estimated_start(
    state: EngineState, task: Task, position: int, *, now: float, mono: float
) -> tuple[float, bool] | None:
    """When the waiting task at this position starts according to the last pass, by the wall clock; and whether that is
    a rough estimate. None: not known."""
    if state.plan is None or not state.queue.is_runnable(task.id):
        return None
    estimate = state.plan.estimate_of(task, position)
    if estimate is None:
        return None
    return now + max(0.0, estimate.start_s - mono), estimate.rough


def is_promised(state: EngineState, task_id: TaskId) -> bool:
    """Whether the waiting task is promised a start now."""
    place = state.reservations.get(task_id)
    return place is not None and place.promised_s is not None


def promised_start(state: EngineState, task_id: TaskId, *, now: float, mono: float) -> float | None:
    """The latest start that was promised, by the wall clock, rounded up; None: nothing is promised."""
    place = state.reservations.get(task_id)
    return None if place is None else shown_promise(place, now=now, mono=mono)
