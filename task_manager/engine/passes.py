"""What nodes and time bring: snapshots, silence, lost machines; and the pass that starts tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from headway.errors import Conflict
from headway.ids import AttemptId, NodeId, TaskId
from headway.logs import get_logger
from headway.states import AttemptState, TaskEventKind, TaskState

from ..decisions.frames import frame
from ..model import Attempt
from ..planning.admission import contradictions
from ..planning.bookings import MovedPromise
from ..planning.disciplines import rough_estimates
from ..planning.pass_model import PassInput, Placement, Plan
from ..planning.placement import FreeResources
from ..planning.promises import PASS_S
from ..planning.scheduling_pass import plan_pass
from ..settings import Settings
from . import confirmation, leases
from .events import NodesChanged
from .leases import LiveLease
from .pass_input import pass_input
from .state import Book
from .turn import LIVE_BEFORE_START, Turn

log = get_logger(__name__)


def on_nodes_changed(turn: Turn, change: NodesChanged) -> None:
    """Takes ResourceManager's word. What runs on a node that has gone from the list goes on: only its lease tells."""
    book, limits = turn.book, turn.settings.limits
    before = contradictions(limits, book.gpus)
    if change.reset:
        there = {node.id for node in change.nodes}
        for node_id in [node_id for node_id in book.nodes if node_id not in there]:
            book.remove_node(node_id)
        if not book.nodes_live:
            book.nodes_live = True
            book.pass_needed = True
    for node_id in change.removed:
        book.remove_node(node_id)
    for node in change.nodes:
        book.put_node(node)
    tell_contradictions(before, contradictions(limits, book.gpus))


def tell_contradictions(before: Sequence[str], now: Sequence[str]) -> None:
    """Limits that rule something out for good must not go unseen; a start is not refused for them, since a machine may
    be away for a while, and the tasks that wait say the same."""
    if now and now != before:
        log.error("limits.contradict", reason=" ".join(now))
    elif before and not now:
        log.info("limits.agree_again")


def on_node_declared_lost(turn: Turn, node_id: NodeId, by: str) -> int:
    """Gives up all attempts of a node; returns how many.

    Raises:
        Conflict: the node answers, so what it runs is not lost.
    """
    if confirmation.answers(turn.book, turn.settings, node_id):
        raise Conflict(
            f"The machine {node_id} answers, so what runs there is not lost: cordon or drain it, cancel its tasks, "
            "or stop its worker and wait until it counts as silent."
        )
    attempts = turn.book.on_node(node_id)
    for attempt in attempts:
        turn.lose(attempt, f"{by or 'An operator'} declared the machine {node_id} lost.")
    confirmation.given_up(turn.book, node_id)
    log.warning("node.declared_lost", node=node_id, by=by, attempts=len(attempts))
    return len(attempts)


def on_tick(turn: Turn) -> None:
    """Ends pauses, leases and starts that took too long."""
    book, settings = turn.book, turn.settings
    book.wake()
    live = [
        LiveLease(attempt.id, attempt.node_id, book.flights[attempt.id.task].launched_s)
        for attempt in book.attempts.values()
    ]
    for attempt_id in leases.expired(
        live, book.leases, started_s=book.started_s, now_s=book.mono, settings=settings.leases
    ):
        attempt = book.attempts[attempt_id.task]
        turn.lose(attempt, f"{attempt.node_id} was silent for longer than its lease.")
    for attempt in list(book.attempts.values()):
        if attempt.state in LIVE_BEFORE_START and _started_too_late(book, attempt, settings):
            turn.request_stop(attempt, "platform")


def _started_too_late(book: Book, attempt: Attempt, settings: Settings) -> bool:
    first_s = book.flights[attempt.id.task].placed_s
    return book.mono - first_s > settings.start_limit_s


def why_silent(book: Book, settings: Settings, node_id: NodeId, at_s: float | None = None) -> str:
    """Why a node's last word is not to be trusted; empty when it is. ``at_s``: at that moment by the boot clock, which
    may be later than that of the turn."""
    at_s = book.mono if at_s is None else at_s
    lease = book.leases.get(node_id)
    if not book.nodes_live and (lease is None or not lease.heard):
        return f"{node_id} has not been heard since TaskManager started"
    if leases.silent(lease, started_s=book.first_seen(node_id), now_s=at_s, settings=settings.leases):
        return f"{node_id} does not answer"
    return ""


def rooms(book: Book, settings: Settings, at_s: float | None = None) -> list[FreeResources]:
    """What is left of every node, and why some take nothing; at the moment of the turn, or at ``at_s``."""
    return book.rooms(lambda node_id: why_silent(book, settings, node_id, at_s))


def seen_now(book: Book, settings: Settings, at_s: float | None = None) -> PassInput:
    """What a pass of this turn sees; ``at_s``: with nodes that are silent by then."""
    return pass_input(book, settings, rooms(book, settings, at_s), at_s)


def run_pass(turn: Turn) -> None:
    """One pass over the queue; every placement is a booking from here on."""
    book = turn.book
    book.pass_needed = False
    if not book.queue.ready_count and not book.places and not book.queue.retry_due:
        book.plan, book.next_pass_s = None, None
        return
    seen = seen_now(book, turn.settings)
    said = plan_pass(seen)
    if said.placements and turn.settings.decisions_days and turn.steering is not None:
        turn.frame = frame(seen, said, turn.policy_text)
    _tell(book, said)
    _tell_missed(book, said, turn.settings)
    moved = _moved(book, said)
    for placement in said.placements:
        _place(turn, placement)
    book.put_places(said.promised, moved)
    book.plan, book.planned_s = said, book.mono
    book.next_pass_s = book.mono if said.more else said.next_wake_s
    # Placing is no reason for another pass: it only takes.
    book.pass_needed = book.rough_due = False


def estimate_anew(turn: Turn) -> None:
    """Rough estimates after tasks came or went without a pass."""
    book = turn.book
    book.rough_due = False
    if book.plan is not None:
        book.plan = replace(book.plan, rough=rough_estimates(seen_now(book, turn.settings)))


def _moved(book: Book, said: Plan) -> dict[TaskId, MovedPromise]:
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
        place = said.promised.get(task_id)
        if place is not None and place.promised_s is not None and place.promised_s <= moved.promised_s:
            del found[task_id]  # as good as it was
    return found


def _tell(book: Book, said: Plan) -> None:
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


def _tell_missed(book: Book, said: Plan, settings: Settings) -> None:
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
