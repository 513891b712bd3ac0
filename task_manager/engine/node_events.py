"""What happens to nodes: their status changes, they are declared lost, or they stay silent for too long."""

from __future__ import annotations

from collections.abc import Sequence

from headway.errors import Conflict
from headway.ids import NodeId
from headway.logs import get_logger
from headway.states import TaskEventKind

from ..model import Attempt, Node
from ..planning.limit_checks import contradictions
from ..settings import TaskManagerSettings
from . import confirmation, drains, leases
from .events import NodesChanged
from .leases import AttemptLease
from .state import EngineState
from .turn import LIVE_BEFORE_START, Turn

log = get_logger(__name__)

_BEHIND_S = 0.01  # a lease is over behind its end, not at it


def on_nodes_changed(turn: Turn, change: NodesChanged) -> None:
    """Takes nodes from ResourceManager. Attempts on a node that left the list go on: only their lease can end them."""
    state, limits = turn.state, turn.settings.limits
    before = contradictions(limits, state.gpus)
    if change.reset:
        there = {node.id for node in change.nodes}
        for node_id in [node_id for node_id in state.nodes if node_id not in there]:
            state.remove_node(node_id)
        if not state.nodes_live:
            state.nodes_live = True
            state.pass_needed = True
    for node_id in change.removed:
        state.remove_node(node_id)
    for node in change.nodes:
        known = state.nodes.get(node.id)
        state.put_node(node)
        _tell_drain(turn, known, node)
    log_contradictions(before, contradictions(limits, state.gpus))


def _tell_drain(turn: Turn, before: Node | None, node: Node) -> None:
    """Tells the owners of what runs there at once that the machine is emptied by a deadline, or no longer is."""
    told = drains.news(before, node)
    if not told:
        return
    for attempt in turn.state.on_node(node.id):
        task = turn.state.tasks[attempt.id.task]
        turn.state.put_attempt(attempt)  # its warnings are others now: pages are told
        turn.state.put_task(turn.emit(task, TaskEventKind.ATTEMPT_STARTED, of=attempt, notice=told))
    log.info("node.drain", node=node.id, until_at=node.drain_until_at, attempts=len(turn.state.on_node(node.id)))


def log_contradictions(before: Sequence[str], now: Sequence[str]) -> None:
    """Logs limits that rule tasks out for good. They don't stop TaskManager from starting, since a node may be away for
    a while. Tasks that wait for them give the same reason."""
    if now and now != before:
        log.error("limits.contradict", reason=" ".join(now))
    elif before and not now:
        log.info("limits.agree_again")


def on_node_declared_lost(turn: Turn, node_id: NodeId, by: str) -> int:
    """Declares all attempts of a node lost; returns how many.

    Raises:
        Conflict: the node answers, so what it runs is not lost.
    """
    if confirmation.is_answering(turn.state, turn.settings, node_id):
        raise Conflict(
            f"The machine {node_id} answers, so what runs there is not lost: close it for new work, cancel its tasks, "
            "or stop its worker and wait until it counts as silent."
        )
    attempts = turn.state.on_node(node_id)
    for attempt in attempts:
        turn.lose_attempt(attempt, f"{by or 'An operator'} declared the machine {node_id} lost.")
    confirmation.require_confirmation(turn.state, node_id)
    turn.state.gates.declared_lost_s[node_id] = turn.state.mono
    turn.open_gates()
    log.warning("node.declared_lost", node=node_id, by=by, attempts=len(attempts))
    return len(attempts)


def on_time_passed(turn: Turn) -> None:
    """Ends pauses, expired leases, and starts that take too long."""
    state, settings = turn.state, turn.settings
    state.end_pauses()
    turn.open_gates()
    live = [
        AttemptLease(attempt.id, attempt.node_id, state.tracking[attempt.id.task].launched_s)
        for attempt in state.attempts.values()
    ]
    for attempt_id in leases.expired_attempts(
        live, state.leases, started_s=state.started_s, now_s=state.mono, settings=settings.leases
    ):
        attempt = state.attempts[attempt_id.task]
        turn.lose_attempt(attempt, f"{attempt.node_id} was silent for longer than Headway waits.")
    # Not only at the next tick: the tasks of a lost machine wait for this moment.
    end_s = leases.next_end_s(live, state.leases, started_s=state.started_s, settings=settings.leases)
    state.lease_end_s = None if end_s is None or end_s <= state.mono else end_s + _BEHIND_S
    for node_id in state.drain_deadlines.past(state.nodes.values(), now=state.now, mono=state.mono):
        for attempt in state.on_node(node_id):
            turn.request_stop(attempt, drains.STOP)
    for attempt in list(state.attempts.values()):
        if attempt.state in LIVE_BEFORE_START and _started_too_late(state, attempt, settings):
            turn.request_stop(attempt, "platform")


def _started_too_late(state: EngineState, attempt: Attempt, settings: TaskManagerSettings) -> bool:
    first_s = state.tracking[attempt.id.task].placed_s
    return state.mono - first_s > settings.start_limit_s
