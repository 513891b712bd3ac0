"""Attempts that a Worker has and that are not live here.

Most of them are known: their end is stored, or they were declared lost. One that is not known at all means that this
TaskManager has lost commits. Its work is kept where that is safe: the attempt is taken back as the live one.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto

from headway.ids import AttemptId, NodeId
from headway.logs import get_logger
from headway.states import ATTEMPT, AttemptEventKind, AttemptState, TaskEventKind, TaskState

from ...model import Attempt, Task
from ..events import AttemptReport, HeartbeatReceived, LiveAttempt
from ..turn import Turn

log = get_logger(__name__)


class Verdict(Enum):
    """What becomes of an attempt that is not live here."""

    KNOWN = auto()  # its end is stored, or it was taken back just now
    DISCARD = auto()
    SPARED = auto()  # nobody knows yet whether it counts


def on_listed(turn: Turn, heartbeat: HeartbeatReceived, attempt_id: AttemptId, *, anew: bool) -> Verdict:
    """Decides about an attempt of a heartbeat that is not live here. ``anew``: the first of a start of this Worker."""
    state = turn.state
    task = turn.task(attempt_id.task)
    if task is not None and attempt_id.number in task.disowned:
        return Verdict.DISCARD
    about = next((one for one in heartbeat.attempts if one.id == attempt_id), None)
    if turn.knows(attempt_id):
        has_ended = about is None or about.ended
        return Verdict.KNOWN if has_ended else _of_known_end(turn, heartbeat, attempt_id, anew=anew)
    if task is None or task.ended or about is None or about.generation != task.generation:
        return Verdict.SPARED if state.gates.awaits_comparison(state.mono) else Verdict.DISCARD
    if attempt_id.number < task.attempt:
        return Verdict.DISCARD
    state.gates.close(task.id, state.mono, heartbeat.node_id)
    live = state.attempts.get(task.id)
    if live is not None:
        # An earlier attempt counts as live, only because its end was lost too. Its node will tell.
        return Verdict.SPARED if attempt_id.number > live.id.number else Verdict.DISCARD
    if about.ended:
        return Verdict.SPARED  # its report tells how it ended
    if _take_back(turn, heartbeat, about, task):
        return Verdict.KNOWN
    return Verdict.DISCARD


def _of_known_end(turn: Turn, heartbeat: HeartbeatReceived, attempt_id: AttemptId, *, anew: bool) -> Verdict:
    """The end is stored here, and the Worker still has the attempt to run.

    It may have told the end after it made this heartbeat. The next one it makes after the answer to this one. If that
    says the same, the Worker has lost the end, with its database or with its box.
    """
    doubted = turn.state.gates.doubted.setdefault(heartbeat.node_id, set())
    if not anew and attempt_id not in doubted:
        doubted.add(attempt_id)
        return Verdict.KNOWN
    doubted.add(attempt_id)
    log.warning("attempt.lives_after_its_end", attempt=str(attempt_id), node=heartbeat.node_id)
    return Verdict.DISCARD


def _take_back(turn: Turn, heartbeat: HeartbeatReceived, about: LiveAttempt, task: Task) -> bool:
    """Books a running attempt again, if nobody else has got its GPUs."""
    state = turn.state
    if not state.can_book(heartbeat.node_id, about.gpu_uuids, task.shape):
        return False
    placed_at = about.placed_at or turn.now
    attempt = replace(
        unknown_attempt(turn, task, about.id, heartbeat.node_id, heartbeat.incarnation),
        state=AttemptState.PLACED if about.started_at is None else AttemptState.RUNNING,
        gpu_uuids=about.gpu_uuids,
        gpu_fraction=state.gpu_fraction(heartbeat.node_id, about.gpu_uuids, task.shape),
        placed_at=placed_at,
        answered_at=turn.now,
        started_at=about.started_at,
    )
    state.put_attempt(attempt)
    tracking = state.tracking[task.id]
    tracking.sent = True
    tracking.placed_s = tracking.booked_s = tracking.launched_s = state.mono
    if about.started_at is not None:
        tracking.running_s = state.mono
    turn.taken_back.append(attempt.id)
    state.put_task(turn.emit(task, TaskEventKind.ATTEMPT_STARTED, of=attempt, state=TaskState.RUNNING, not_before=0.0))
    log.warning("attempt.taken_back", attempt=str(attempt.id), node=attempt.node_id)
    return True


def unknown_attempt(turn: Turn, task: Task, attempt_id: AttemptId, node_id: NodeId, incarnation: int) -> Attempt:
    """An attempt of which the database has nothing, as far as its task tells."""
    return Attempt(
        id=attempt_id,
        generation=task.generation,
        state=AttemptState.PLACED,
        node_id=node_id,
        incarnation=incarnation,
        shape=task.shape,
        gpu_uuids=(),
        timeout_s=task.timeout_s,
        of_runs=1 + task.retries,
        queued_at=task.queued_at,
        placed_at=turn.now,
        prints=task.prints,
        owner=task.owner,
    )


def with_good_end(turn: Turn, task: Task, report: AttemptReport) -> Attempt:
    """A lost attempt that has ended with success."""
    made = unknown_attempt(turn, task, report.attempt, report.node_id, turn.state.incarnation(report.node_id))
    turn.taken_back.append(made.id)
    state = ATTEMPT.after(made.state, AttemptEventKind.SUCCEEDED)
    return replace(made, state=state, placed_at=report.facts.accepted_at or turn.now, freed_at=turn.now)
