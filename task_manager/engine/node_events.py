"""What happens to nodes: their status changes, they are declared lost, or they stay silent for too long."""

from __future__ import annotations

from collections.abc import Sequence

from headway.errors import Conflict
from headway.ids import NodeId
from headway.logs import get_logger

from ..model import Attempt
from ..planning.admission import contradictions
from ..settings import TaskManagerSettings
from . import confirmation, leases
from .events import NodesChanged
from .leases import AttemptLease
from .state import EngineState
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
    log_contradictions(before, contradictions(limits, book.gpus))


def log_contradictions(before: Sequence[str], now: Sequence[str]) -> None:
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
    if confirmation.is_answering(turn.book, turn.settings, node_id):
        raise Conflict(
            f"The machine {node_id} answers, so what runs there is not lost: cordon or drain it, cancel its tasks, "
            "or stop its worker and wait until it counts as silent."
        )
    attempts = turn.book.on_node(node_id)
    for attempt in attempts:
        turn.lose(attempt, f"{by or 'An operator'} declared the machine {node_id} lost.")
    confirmation.require_confirmation(turn.book, node_id)
    log.warning("node.declared_lost", node=node_id, by=by, attempts=len(attempts))
    return len(attempts)


def on_time_passed(turn: Turn) -> None:
    """Ends pauses, leases and starts that took too long."""
    book, settings = turn.book, turn.settings
    book.wake()
    live = [
        AttemptLease(attempt.id, attempt.node_id, book.flights[attempt.id.task].launched_s)
        for attempt in book.attempts.values()
    ]
    for attempt_id in leases.expired_attempts(
        live, book.leases, started_s=book.started_s, now_s=book.mono, settings=settings.leases
    ):
        attempt = book.attempts[attempt_id.task]
        turn.lose(attempt, f"{attempt.node_id} was silent for longer than its lease.")
    for attempt in list(book.attempts.values()):
        if attempt.state in LIVE_BEFORE_START and _started_too_late(book, attempt, settings):
            turn.request_stop(attempt, "platform")


def _started_too_late(book: EngineState, attempt: Attempt, settings: TaskManagerSettings) -> bool:
    first_s = book.flights[attempt.id.task].placed_s
    return book.mono - first_s > settings.start_limit_s
