"""The pass over the queue: what it decided becomes bookings, events and log lines."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

from headway.ids import AttemptId, TaskId
from headway.logs import get_logger
from headway.states import AttemptState, TaskEventKind, TaskState

from ..decisions.frames import frame_of
from ..model import Attempt
from ..planning.bookings import MovedPromise
from ..planning.changes import Seen
from ..planning.pass_model import Placement, Plan
from ..planning.promises import PASS_S
from ..planning.rough import rough_estimates
from ..planning.scheduling_pass import plan_pass
from ..settings import TaskManagerSettings
from .pass_input import current_pass_input
from .state import EngineState
from .turn import Turn

log = get_logger(__name__)

_MOVES_TOLD = 10  # promises of one pass with a line each


def run_pass(turn: Turn) -> None:
    """Runs one pass over the queue; every placement is a booking from here on."""
    state = turn.state
    state.pass_needed = False
    if not state.queue.ready_count and not state.reservations and not state.queue.retry_due:
        state.plan, state.next_pass_s = None, None
        return
    snapshot = current_pass_input(state, turn.settings)
    new_plan = plan_pass(snapshot)
    placed = tuple(one for one in new_plan.placements if not state.gates.is_closed(one.task_id))
    if len(placed) < len(new_plan.placements):
        new_plan = replace(new_plan, placements=placed)
    if new_plan.placements and turn.settings.decisions_days and turn.scheduling_choice is not None:
        turn.frame = frame_of(snapshot, new_plan, turn.policy_text)
    _log_promises_and_failures(state, new_plan)
    _log_missed_promises(state, new_plan, turn.settings)
    moved = _moved(state, new_plan)
    for placement in new_plan.placements:
        _place(turn, placement)
    state.put_reservations({**new_plan.promised, **new_plan.owed}, moved, Seen.of(snapshot, new_plan))
    state.plan, state.planned_s = new_plan, state.mono
    state.next_pass_s = state.mono if new_plan.more else new_plan.next_wake_s
    # A placement is no reason for another pass: it frees nothing.
    state.pass_needed = state.rough_due = False


def update_rough_estimates(turn: Turn) -> None:
    """Renews the rough estimates after tasks came or went without a pass."""
    state = turn.state
    state.rough_due = False
    if state.plan is not None:
        state.plan = replace(state.plan, rough=rough_estimates(current_pass_input(state, turn.settings)))


def _moved(state: EngineState, new_plan: Plan) -> dict[TaskId, MovedPromise]:
    """The promises to waiting tasks that no longer hold: the first promise of each task, and the latest cause."""
    started = {placement.task_id for placement in new_plan.placements}
    found = {
        task_id: moved
        for task_id, moved in state.moved_promises.items()
        if task_id not in started and task_id in state.tasks and state.tasks[task_id].waiting
    }
    for lost in new_plan.dropped:
        if lost.task_id not in started and not state.tasks[lost.task_id].held:  # whoever put it on hold knows why
            before = found.get(lost.task_id)
            found[lost.task_id] = MovedPromise(before.promised_s if before else lost.promised_s, lost.cause)
    for task_id, moved in list(found.items()):
        reservation = new_plan.promised.get(task_id)
        promised_s = None if reservation is None else reservation.promised_s
        if promised_s is not None and promised_s <= moved.promised_s:
            del found[task_id]  # the new promise is as good as the lost one
    return found


def _log_promises_and_failures(state: EngineState, new_plan: Plan) -> None:
    """Logs promises that moved, and a policy that has begun to fail."""
    before, shift_s = state.plan, state.now - state.mono
    for lost in new_plan.dropped[:_MOVES_TOLD]:
        now_s = lost.now_s
        log.warning(
            "promise.moved", task=str(lost.task_id), cause=lost.cause,
            promised_at=_utc(lost.promised_s + shift_s),
            now_at=None if now_s is None else _utc(now_s + shift_s),
            by_s=None if now_s is None else round(now_s - lost.promised_s, 3),
        )  # fmt: skip
    # One extension that an admin forces over a crowd moves everybody.
    for cause, count in Counter(lost.cause for lost in new_plan.dropped[_MOVES_TOLD:]).items():
        log.warning("promises.moved_too", count=count, cause=cause)
    failed_before = before.policy_failed if before is not None else ""
    if new_plan.policy_failed and new_plan.policy_failed != failed_before:
        log.error("policy.failed", reason=new_plan.policy_failed, instead="aging_sjf")


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _log_missed_promises(state: EngineState, new_plan: Plan, settings: TaskManagerSettings) -> None:
    """Logs a start that is later than promised although nothing moved the promise before. The only cause that is
    known here is TaskManager's own absence."""
    for placement in new_plan.placements:
        reservation = state.reservations.get(placement.task_id)
        promised_s = None if reservation is None else reservation.promised_s
        if promised_s is not None and state.mono > promised_s + PASS_S:
            late_s, cause = round(state.mono - promised_s, 3), ""
            if promised_s < state.started_s:
                cause = "Headway's scheduler was not running when it was due"
            elif promised_s < state.started_s + settings.leases.silence_s:
                cause = "Headway's scheduler had just started, and waited for the machines to report what had ended"
            log.warning("promise.missed", task=str(placement.task_id), node=placement.node_id, by_s=late_s, cause=cause)


def _place(turn: Turn, placement: Placement) -> None:
    state = turn.state
    task = state.tasks[placement.task_id]
    node = state.nodes[placement.node_id]
    attempt = Attempt(
        id=AttemptId(task.id, task.attempt + 1),
        generation=task.generation,
        state=AttemptState.PLACED,
        node_id=node.id,
        incarnation=state.incarnation(node.id),
        shape=task.shape,
        gpu_uuids=placement.gpu_uuids,
        gpu_fraction=state.gpu_fraction(node.id, placement.gpu_uuids, task.shape),
        timeout_s=task.timeout_s,
        prints=task.prints,
        of_runs=1 + task.retries,
        queued_at=task.queued_at,
        placed_at=turn.now,
        owner=task.owner,
        boot_id=state.reading.boot_id,
        placed_s=state.mono,
    )
    state.put_attempt(attempt)
    state.tracking[task.id].placed_s = state.tracking[task.id].booked_s = state.mono
    started = TaskEventKind.ATTEMPT_STARTED
    state.put_task(turn.emit(task, started, of=attempt, state=TaskState.RUNNING, not_before=0.0))
    turn.launches.append(attempt.id)
    log.info(
        "attempt.placed", attempt=str(attempt.id), node=node.id, gpus=len(placement.gpu_uuids),
        waited_s=round(max(0.0, turn.now - task.queued_at), 3),
    )  # fmt: skip
