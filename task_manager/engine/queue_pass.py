"""The pass over the queue: what it decided becomes bookings, events and log lines."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from headway.ids import AttemptId, TaskId
from headway.logs import get_logger
from headway.states import AttemptState, TaskEventKind, TaskState

from ..decisions.frames import frame_of
from ..model import Attempt
from ..planning.bookings import MovedPromise
from ..planning.scheduling_pass import Placement, Plan, plan, rough
from ..settings import TaskManagerSettings
from .pass_input import PASS_S, current_pass_input
from .state import EngineState
from .turn import Turn

log = get_logger(__name__)


def run_pass(turn: Turn) -> None:
    """One pass over the queue; every placement is a booking from here on."""
    book = turn.book
    book.pass_needed = False
    if not book.queue.ready and not book.places and not book.queue.to_be_tried_again:
        book.plan, book.next_pass_s = None, None
        return
    seen = current_pass_input(book, turn.settings)
    said = plan(seen)
    if said.placements and turn.settings.decisions_days and turn.steering is not None:
        turn.frame = frame_of(seen, said, turn.policy_text)
    _tell(book, said)
    _tell_missed(book, said, turn.settings)
    moved = _moved(book, said)
    for placement in said.placements:
        _place(turn, placement)
    book.put_places(said.places, moved)
    book.plan, book.planned_s = said, book.mono
    book.next_pass_s = book.mono if said.more else said.next_wake_s
    # Placing is no reason for another pass: it only takes.
    book.pass_needed = book.rough_due = False


def update_rough_estimates(turn: Turn) -> None:
    """Rough estimates after tasks came or went without a pass."""
    book = turn.book
    book.rough_due = False
    if book.plan is not None:
        book.plan = replace(book.plan, rough=rough(current_pass_input(book, turn.settings)))


def _moved(book: EngineState, said: Plan) -> dict[TaskId, MovedPromise]:
    """The starts that waiting tasks were promised and that no longer hold: the first of each, and the latest cause."""
    started = {placement.task_id for placement in said.placements}
    found = {
        task_id: moved
        for task_id, moved in book.moved.items()
        if task_id not in started and task_id in book.tasks and book.tasks[task_id].waiting
    }
    for lost in said.dropped:
        if lost.task_id not in started and not book.tasks[lost.task_id].held:  # who put it on hold knows
            before = found.get(lost.task_id)
            found[lost.task_id] = MovedPromise(before.promised_s if before else lost.promised_s, lost.cause)
    for task_id, moved in list(found.items()):
        place = said.places.get(task_id)
        if place is not None and place.promised_s is not None and place.promised_s <= moved.promised_s:
            del found[task_id]  # as good as it was
    return found


def _tell(book: EngineState, said: Plan) -> None:
    """What must not happen unseen."""
    before, shift_s = book.plan, book.now - book.mono
    for lost in said.dropped:
        now_s = lost.now_s
        log.warning(
            "promise.moved", task=str(lost.task_id), cause=lost.cause,
            promised_at=_utc(lost.promised_s + shift_s),
            now_at=None if now_s is None else _utc(now_s + shift_s),
            by_s=None if now_s is None else round(now_s - lost.promised_s, 3),
        )  # fmt: skip
    failed_before = before.policy_failed if before is not None else ""
    if said.policy_failed and said.policy_failed != failed_before:
        log.error("policy.failed", reason=said.policy_failed, instead="aging_sjf")


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _tell_missed(book: EngineState, said: Plan, settings: TaskManagerSettings) -> None:
    """A start that is later than promised, though nothing moved the promise before: its cause is not known here, but
    for TaskManager's own absence."""
    for placement in said.placements:
        place = book.places.get(placement.task_id)
        if place is not None and place.promised_s is not None and book.mono > place.promised_s + PASS_S:
            late_s, cause = round(book.mono - place.promised_s, 3), ""
            if place.promised_s < book.started_s:
                cause = "TaskManager was not running when it was due"
            elif place.promised_s < book.started_s + settings.leases.silence_s:
                cause = "TaskManager had just started, and heard first from the machines what had ended"
            log.warning("promise.missed", task=str(placement.task_id), node=placement.node_id, by_s=late_s, cause=cause)


def _place(turn: Turn, placement: Placement) -> None:
    book = turn.book
    task = book.tasks[placement.task_id]
    node = book.nodes[placement.node_id]
    attempt = Attempt(
        id=AttemptId(task.id, task.attempt + 1),
        generation=task.generation,
        state=AttemptState.PLACED,
        node_id=node.id,
        incarnation=book.incarnation(node.id),
        shape=task.shape,
        gpu_uuids=placement.gpu_uuids,
        timeout_s=task.timeout_s,
        prints=task.prints,
        of_runs=1 + task.retries,
        queued_at=task.queued_at,
        placed_at=turn.now,
        owner=task.owner,
        boot_id=book.here.boot_id,
        placed_s=book.mono,
    )
    book.put_attempt(attempt)
    book.flights[task.id].placed_s = book.flights[task.id].booked_s = book.mono
    started = TaskEventKind.ATTEMPT_STARTED
    book.put_task(turn.tell(task, started, of=attempt, state=TaskState.RUNNING, not_before=0.0))
    turn.launches.append(attempt.id)
    log.info(
        "attempt.placed", attempt=str(attempt.id), node=node.id, gpus=len(placement.gpu_uuids),
        waited_s=round(max(0.0, turn.now - task.queued_at), 3),
    )  # fmt: skip
