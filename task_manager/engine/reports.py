"""What Workers say about attempts: reports, answers to launches, heartbeats.

The fence is the attempt's number. A Worker is believed about the current attempt only. It is told to discard attempts
that were declared lost here. The end of the current attempt is never discarded, however often it is reported. A good
end of a lost attempt counts as long as its task has not begun again.
"""

from __future__ import annotations

from headway.errors import Fenced, Unavailable
from headway.frozen import replace
from headway.ids import AttemptId
from headway.logs import get_logger
from headway.model.attempt_facts import merged
from headway.model.reasons import EndReason, EndWord
from headway.states import ATTEMPT, AttemptEventKind, AttemptState, TaskEventKind

from ..model import Attempt, Task
from . import confirmation, extension, leases, waiters
from .comparing import unknown_attempts
from .comparing.unknown_attempts import Verdict
from .events import (
    AcceptedLaunch,
    AttemptReport,
    HeartbeatReceived,
    HeartbeatReply,
    LaunchesAnswered,
    RefusedLaunch,
    StopOrder,
    StopsDelivered,
)
from .tracking import AttemptTracking
from .turn import Turn

log = get_logger(__name__)

_ENDS = frozenset(
    {
        AttemptEventKind.SUCCEEDED,
        AttemptEventKind.FAILED,
        AttemptEventKind.TIMED_OUT,
        AttemptEventKind.OUT_OF_MEMORY,
        AttemptEventKind.CANCELLED,
        AttemptEventKind.LOST,
    }
)

_MOST_CHARACTERS = 1_000  # of a notice
_CAME_LATE = "It had been given up as lost. Its end came later, while its task still waited, and counts."


def on_report(turn: Turn, report: AttemptReport) -> bool:
    """Takes one report; answers whether the Worker is to discard the attempt.

    Raises:
        Unavailable: it is the end of an attempt that JobManager may still tell of. It has to come again.
    """
    attempt = turn.state.attempt(report.attempt)
    if attempt is None:
        return _of_no_live_attempt(turn, report)
    if attempt.node_id != report.node_id:
        return True
    try:
        kind = AttemptEventKind(report.kind)
    except ValueError:
        log.warning("report.unknown_kind", attempt=str(report.attempt), kind=report.kind)
        return False
    turn.state.tracking[attempt.id.task].missing_since_s = None
    if kind in _ENDS:
        reason = report.reason
        if reason is None:
            reason = EndReason(EndWord.PLATFORM_ERROR, detail="Its worker told no reason for the end.")
        ended, reason = extension.with_effective_timeout(_with_facts(attempt, report, attempt.state), reason)
        turn.end_attempt(ended, reason, elsewhere=report.elsewhere, engine_away=report.engine_away)
        return False
    if kind is AttemptEventKind.PROCESS_STARTED:
        _runs_since(turn, attempt)
    known = _with_facts(attempt, report, ATTEMPT.after(attempt.state, kind))
    if known != attempt:
        turn.state.put_attempt(known)
    if report.notice:
        _tell_once(turn, known, report.notice)
    return False


def _tell_once(turn: Turn, attempt: Attempt, notice: str) -> None:
    """JobManager gets it as a job event. Reports come again, so the last one is known by its words."""
    tracking, task = turn.state.tracking[attempt.id.task], turn.state.tasks[attempt.id.task]
    if notice != tracking.notice:
        tracking.notice = notice
        told = notice[:_MOST_CHARACTERS]
        turn.state.put_task(turn.emit(task, TaskEventKind.ATTEMPT_STARTED, of=attempt, notice=told))


def _of_no_live_attempt(turn: Turn, report: AttemptReport) -> bool:
    if not turn.is_disowned(report.attempt):
        task = turn.state.tasks.get(report.attempt.task)
        if task is None or not task.waiting or turn.knows(report.attempt):
            return False
    if _took_late_success(turn, report):
        return False
    task, state = turn.task(report.attempt.task), turn.state
    if (task is None or report.attempt.number > task.attempt) and state.gates.awaits_comparison(state.mono):
        if report.kind in _ENDS:
            raise Unavailable("Headway's scheduler was started, and first checks which tasks there are.")
        return False  # heartbeats tell of it again
    return turn.is_disowned(report.attempt)


def _took_late_success(turn: Turn, report: AttemptReport) -> bool:
    """Whether a good end came in time, while its task still waits. Its attempt was given up as lost, or this
    TaskManager has lost it."""
    task = turn.state.tasks.get(report.attempt.task)
    if task is None or report.reason is None or not may_count_late(task, report):
        return False
    lost = turn.past_attempts.get(report.attempt)
    if lost is None and report.generation == task.generation and not turn.knows(report.attempt):
        lost = unknown_attempts.with_good_end(turn, task, report)
    elif lost is None or lost.state is not AttemptState.LOST or report.attempt.number not in task.disowned:
        return False
    if lost.node_id != report.node_id or lost.generation != task.generation:
        return False
    ended = _with_facts(lost, report, ATTEMPT.after(lost.state, AttemptEventKind.SUCCEEDED))
    ended = replace(ended, reason=report.reason, warnings=(*ended.warnings, _CAME_LATE))
    turn.take_late_success(ended, report.reason)
    return True


def may_count_late(task: Task | None, report: AttemptReport) -> bool:
    """Whether it is the good end of the newest attempt of a task that waits.

    Such an end counts, though the attempt is not live.
    """
    return (
        report.kind == AttemptEventKind.SUCCEEDED
        and report.reason is not None
        and report.reason.succeeded
        and task is not None
        and task.waiting
        and task.cancel_by is None
        and report.attempt.number >= task.attempt
    )


def _runs_since(turn: Turn, attempt: Attempt) -> None:
    """Notes the start by the boot clock of this machine, a little late: the Worker's clock may be wrong."""
    tracking = turn.state.tracking[attempt.id.task]
    if tracking.running_s is None:
        tracking.running_s = turn.state.mono


def _with_facts(attempt: Attempt, report: AttemptReport, state: AttemptState) -> Attempt:
    return replace(attempt, state=state, use=report.use or attempt.use, **merged(attempt, report.facts))


def on_launches_answered(turn: Turn, answers: LaunchesAnswered) -> None:
    """Takes a Worker's verdicts. The end of an attempt may have been reported before the answer to its launch."""
    for verdict in answers.verdicts:
        attempt = turn.state.attempt(verdict.attempt)
        if attempt is None:
            continue
        tracking = turn.state.tracking[attempt.id.task]
        if isinstance(verdict, AcceptedLaunch):
            tracking.uncertain = False
            _accepted(turn, attempt, verdict.accepted_at)
        else:
            _refused(turn, attempt, tracking, verdict)


def _accepted(turn: Turn, attempt: Attempt, accepted_at: float | None) -> None:
    if attempt.answered_at is None:
        if accepted_at is None:
            accepted_at = attempt.accepted_at
        turn.state.put_attempt(replace(attempt, answered_at=turn.now, accepted_at=accepted_at))


def _refused(turn: Turn, attempt: Attempt, tracking: AttemptTracking, verdict: RefusedLaunch) -> None:
    if attempt.answered_at is not None or attempt.state not in (AttemptState.PLACED, AttemptState.STOPPING):
        return  # it was accepted meanwhile: this answers an older try
    anew = verdict.slug == Fenced.slug and verdict.again_later  # the Worker was started again since
    if verdict.again_later and not (anew and turn.state.incarnation(attempt.node_id) > attempt.incarnation):
        until_s = turn.state.mono + turn.settings.unfit_s
        turn.state.mark_unfit(attempt.node_id, until_s, verdict.sentence)
    log.info("launch.refused", attempt=str(attempt.id), node=attempt.node_id, slug=verdict.slug)
    if anew:
        # The restarted Worker's first heartbeat says whether it took an earlier try before. Until then, a start
        # elsewhere could run the task twice.
        return
    if tracking.uncertain and attempt.state is AttemptState.PLACED:
        # An earlier try may still be under way, and may be taken when it comes. Its stop has to be there first.
        turn.request_stop(attempt, "platform")
        return
    if attempt.state is AttemptState.STOPPING and tracking.uncertain and not tracking.stop_delivered:
        return
    turn.refuse_attempt(attempt, verdict.sentence or verdict.slug)


def on_stops_delivered(turn: Turn, delivered: StopsDelivered) -> None:
    """The Worker will not start these any more. Those whose launch had no answer are asked about once more."""
    for attempt_id in delivered.attempts:
        attempt = turn.state.attempt(attempt_id)
        if attempt is not None:
            tracking = turn.state.tracking[attempt_id.task]
            tracking.stop_delivered = True
            if attempt.answered_at is None and tracking.uncertain:
                turn.relaunches.append(attempt_id)


def on_heartbeat(turn: Turn, heartbeat: HeartbeatReceived) -> HeartbeatReply:
    """Takes a heartbeat.

    Raises:
        Fenced: a later start of the same Worker has been heard.
    """
    state = turn.state
    before = state.leases.get(heartbeat.node_id)
    if before is not None and before.incarnation > heartbeat.incarnation:
        raise Fenced(f"A later start of the worker {heartbeat.node_id} has been heard; this one is superseded.")
    grant = leases.renew(
        before,
        incarnation=heartbeat.incarnation,
        address=heartbeat.address,
        stopping=heartbeat.stopping,
        files_suspended=heartbeat.files_suspended,
        other_workers=_worker_count(turn, heartbeat) > 1,
        planned_stop=turn.planned_stop,
        now_s=state.mono,
    )
    was_silent = leases.is_silent(
        before, started_s=state.first_seen(heartbeat.node_id), now_s=state.mono, settings=turn.settings.leases
    )
    state.put_lease(heartbeat.node_id, grant.lease)
    if was_silent:
        state.pass_needed = True
    if before is None or not before.heartbeat_seen:
        state.pass_needed = True
        log.info("worker.heard", node=heartbeat.node_id, incarnation=heartbeat.incarnation, live=len(heartbeat.live))
    anew = before is None or before.incarnation < heartbeat.incarnation
    state.gates.doubted.get(heartbeat.node_id, set()).intersection_update(heartbeat.live)
    verdicts = {attempt_id: _confirm(turn, heartbeat, attempt_id, anew=anew) for attempt_id in heartbeat.live}
    strange = {attempt_id: verdict for attempt_id, verdict in verdicts.items() if verdict is not Verdict.KNOWN}
    discard = tuple(a for a, verdict in strange.items() if verdict is Verdict.DISCARD)
    state.gates.listed[heartbeat.node_id] = frozenset(a.task for a in strange)
    moved = before is not None and before.incarnation < heartbeat.incarnation and before.address != heartbeat.address
    _look_for_missing(turn, heartbeat, moved=moved)
    confirmation.on_heartbeat(state, heartbeat.node_id, len(discard), len(strange) - len(discard))
    turn.open_gates()
    waiters.on_heartbeat(turn, heartbeat)
    stop = tuple(
        StopOrder(attempt.id, attempt.stop_word or "cancelled")
        for attempt in state.on_node(heartbeat.node_id)
        if attempt.state is AttemptState.STOPPING
    )
    extend = tuple(extension.extend_order(a) for a in state.on_node(heartbeat.node_id) if extension.is_due(a))
    return HeartbeatReply(grant.enforced, discard, stop, extend)


def _worker_count(turn: Turn, heartbeat: HeartbeatReceived) -> int:
    return len(turn.state.nodes.keys() | {heartbeat.node_id})


def _confirm(turn: Turn, heartbeat: HeartbeatReceived, attempt_id: AttemptId, *, anew: bool) -> Verdict:
    """Notes that the node has this attempt; returns what is to become of it there."""
    attempt = turn.state.attempt(attempt_id)
    if attempt is None:
        return unknown_attempts.on_listed(turn, heartbeat, attempt_id, anew=anew)
    if attempt.node_id != heartbeat.node_id:
        return Verdict.DISCARD
    tracking = turn.state.tracking[attempt_id.task]
    if tracking.uncertain:
        tracking.confirmed_s = turn.state.mono
    tracking.sent, tracking.uncertain, tracking.missing_since_s = True, False, None
    _accepted(turn, attempt, None)
    return Verdict.KNOWN


def _look_for_missing(turn: Turn, heartbeat: HeartbeatReceived, *, moved: bool) -> None:
    # A known name from a new address may be a second machine. Then the first one may still run its attempts, until its
    # next heartbeat is refused and its launchers end them. One lease is enough for that.
    patience_s = turn.settings.leases.lease_s if moved else 0.0
    listed = set(heartbeat.live)
    for attempt in turn.state.on_node(heartbeat.node_id):
        if attempt.id in listed:
            continue
        tracking = turn.state.tracking[attempt.id.task]
        if attempt.answered_at is None and attempt.incarnation < heartbeat.incarnation:
            _not_taken(turn, attempt, heartbeat.incarnation)
            continue
        # A launch may still be under way, so its absence proves nothing, unless its stop arrived first.
        if attempt.answered_at is None and not tracking.stop_delivered:
            continue
        if tracking.missing_since_s is None:
            tracking.missing_since_s = turn.state.mono + patience_s
        elif leases.is_gone(tracking.missing_since_s, now_s=turn.state.mono, settings=turn.settings.leases):
            turn.lose_attempt(attempt, f"{heartbeat.node_id} does not have it any more.")


def _not_taken(turn: Turn, attempt: Attempt, incarnation: int) -> None:
    """The Worker was restarted before it took the launch: send the same attempt to the restarted one.

    No launch to the old process can arrive any more. What that one took, the new process lists from its first
    heartbeat on. So the attempt runs nowhere.
    """
    if attempt.state is AttemptState.STOPPING:
        turn.refuse_attempt(attempt, "the worker was restarted before it took it")
        return
    turn.state.put_attempt(replace(attempt, incarnation=incarnation))
    turn.state.tracking[attempt.id.task].uncertain = False
    turn.relaunches.append(attempt.id)
