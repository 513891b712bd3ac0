"""What Workers say about attempts: reports, answers to launches, heartbeats.

The fence is the attempt's number. A Worker is believed about the current attempt only, and told to discard what was
given up here; the end of an attempt that counts is never discarded, however often it is told.
"""

from __future__ import annotations

from dataclasses import replace

from headway.errors import Fenced
from headway.ids import AttemptId
from headway.logs import get_logger
from headway.model.reasons import EndReason, EndWord
from headway.states import ATTEMPT, AttemptEventKind, AttemptState

from ..model import Attempt
from . import confirmation, extension, leases
from .events import (
    AttemptReport,
    HeartbeatAnswer,
    HeartbeatReceived,
    LaunchAccepted,
    LaunchesAnswered,
    LaunchRefused,
    StopAttempt,
    StopsDelivered,
)
from .state import AttemptTracking
from .turn import Turn, merge_known

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


def on_report(turn: Turn, report: AttemptReport) -> bool:
    """Takes one report; answers whether the Worker is to discard the attempt."""
    attempt = turn.book.attempt(report.attempt)
    if attempt is None:
        return turn.is_disowned(report.attempt)
    if attempt.node_id != report.node_id:
        return True
    try:
        kind = AttemptEventKind(report.kind)
    except ValueError:
        log.warning("report.unknown_kind", attempt=str(report.attempt), kind=report.kind)
        return False
    turn.book.flights[attempt.id.task].missing_since_s = None
    if kind in _ENDS:
        reason = report.reason
        if reason is None:
            reason = EndReason(EndWord.PLATFORM_ERROR, detail="Its worker told no reason for the end.")
        ended, reason = extension.with_effective_timeout(_with_facts(attempt, report, attempt.state), reason)
        turn.end_attempt(ended, reason, elsewhere=report.elsewhere)
        return False
    if kind is AttemptEventKind.PROCESS_STARTED:
        _runs_since(turn, attempt)
    known = _with_facts(attempt, report, ATTEMPT.after(attempt.state, kind))
    if known != attempt:
        turn.book.put_attempt(known)
    return False


def _runs_since(turn: Turn, attempt: Attempt) -> None:
    """By the boot clock of this machine, later than it was: the Worker's clock may be any."""
    flight = turn.book.flights[attempt.id.task]
    if flight.running_s is None:
        flight.running_s = turn.book.mono


def _with_facts(attempt: Attempt, report: AttemptReport, state: AttemptState) -> Attempt:
    return replace(
        attempt,
        state=state,
        accepted_at=merge_known(attempt.accepted_at, report.accepted_at),
        container_started_at=merge_known(attempt.container_started_at, report.container_started_at),
        started_at=merge_known(attempt.started_at, report.process_started_at),
        ended_at=merge_known(attempt.ended_at, report.ended_at),
        run_s=merge_known(attempt.run_s, report.run_s),
        peak_memory_bytes=merge_known(attempt.peak_memory_bytes, report.peak_memory_bytes),
        stdout_bytes=max(attempt.stdout_bytes, report.stdout_bytes),
        stderr_bytes=max(attempt.stderr_bytes, report.stderr_bytes),
        dropped_bytes=max(attempt.dropped_bytes, report.dropped_bytes),
        image_id=report.image_id or attempt.image_id,
        warnings=report.warnings or attempt.warnings,
        counted_s=merge_known(attempt.counted_s, report.timeout_s),
    )


def on_launches_answered(turn: Turn, answers: LaunchesAnswered) -> None:
    """Takes a Worker's verdicts. An end may have been reported before the answer to its launch came."""
    for verdict in answers.verdicts:
        attempt = turn.book.attempt(verdict.attempt)
        if attempt is None:
            continue
        flight = turn.book.flights[attempt.id.task]
        if isinstance(verdict, LaunchAccepted):
            flight.uncertain = False
            _accepted(turn, attempt, verdict.accepted_at)
        else:
            _refused(turn, attempt, flight, verdict)


def _accepted(turn: Turn, attempt: Attempt, accepted_at: float | None) -> None:
    if attempt.answered_at is None:
        accepted_at = merge_known(attempt.accepted_at, accepted_at)
        turn.book.put_attempt(replace(attempt, answered_at=turn.now, accepted_at=accepted_at))


def _refused(turn: Turn, attempt: Attempt, flight: AttemptTracking, verdict: LaunchRefused) -> None:
    if attempt.answered_at is not None or attempt.state not in (AttemptState.PLACED, AttemptState.STOPPING):
        return  # it was accepted meanwhile: an answer to an older try
    anew = verdict.slug == Fenced.slug and verdict.again_later  # the Worker was started again since
    if verdict.again_later and not (anew and turn.book.incarnation(attempt.node_id) > attempt.incarnation):
        until_s = turn.book.mono + turn.settings.unfit_s
        turn.book.mark_unfit(attempt.node_id, until_s, verdict.sentence)
    log.info("launch.refused", attempt=str(attempt.id), node=attempt.node_id, slug=verdict.slug)
    if anew:
        # The Worker's first heartbeat of this life says whether its last one took an earlier try: until then,
        # starting it elsewhere could run it twice.
        return
    turn.refuse_attempt(attempt, verdict.sentence or verdict.slug)


def on_stops_delivered(turn: Turn, delivered: StopsDelivered) -> None:
    """The Worker will not start these any more. Those whose launch had no answer are asked about once more."""
    for attempt_id in delivered.attempts:
        attempt = turn.book.attempt(attempt_id)
        if attempt is not None:
            flight = turn.book.flights[attempt_id.task]
            flight.stop_delivered = True
            if attempt.answered_at is None and flight.uncertain:
                turn.relaunches.append(attempt_id)


def on_heartbeat(turn: Turn, beat: HeartbeatReceived) -> HeartbeatAnswer:
    """Takes a heartbeat.

    Raises:
        Fenced: a later start of the same Worker has been heard.
    """
    book = turn.book
    before = book.leases.get(beat.node_id)
    if before is not None and before.incarnation > beat.incarnation:
        raise Fenced(f"A later start of the worker {beat.node_id} has been heard; this one is superseded.")
    grant = leases.renew(
        before,
        incarnation=beat.incarnation,
        address=beat.address,
        stopping=beat.stopping,
        files_suspended=beat.files_suspended,
        other_workers=_worker_count(turn, beat) > 1,
        planned_stop=turn.planned_stop,
        now_s=book.mono,
    )
    was_silent = leases.is_silent(
        before, started_s=book.first_seen(beat.node_id), now_s=book.mono, settings=turn.settings.leases
    )
    book.put_lease(beat.node_id, grant.lease)
    if was_silent:
        book.pass_needed = True
    if before is None or not before.heard:
        book.pass_needed = True
        log.info("worker.heard", node=beat.node_id, incarnation=beat.incarnation, live=len(beat.live))
    discard = tuple(a for a in beat.live if _confirm(turn, beat, a))
    moved = before is not None and before.incarnation < beat.incarnation and before.address != beat.address
    _look_for_missing(turn, beat, moved=moved)
    confirmation.on_heartbeat(book, beat.node_id, len(discard))
    stop = tuple(
        StopAttempt(attempt.id, attempt.stop_word or "cancelled")
        for attempt in book.on_node(beat.node_id)
        if attempt.state is AttemptState.STOPPING
    )
    extend = tuple(extension.extend_order(a) for a in book.on_node(beat.node_id) if extension.is_due(a))
    return HeartbeatAnswer(grant.enforced, discard, stop, extend)


def _worker_count(turn: Turn, beat: HeartbeatReceived) -> int:
    return len(turn.book.nodes.keys() | {beat.node_id})


def _confirm(turn: Turn, beat: HeartbeatReceived, attempt_id: AttemptId) -> bool:
    """The machine has this attempt. Answers whether to discard it there."""
    attempt = turn.book.attempt(attempt_id)
    if attempt is None:
        return turn.is_disowned(attempt_id)
    if attempt.node_id != beat.node_id:
        return True
    flight = turn.book.flights[attempt_id.task]
    if flight.uncertain:
        flight.confirmed_s = turn.book.mono
    flight.sent, flight.uncertain, flight.missing_since_s = True, False, None
    _accepted(turn, attempt, None)
    return False


def _look_for_missing(turn: Turn, beat: HeartbeatReceived, *, moved: bool) -> None:
    # A name that comes from elsewhere may be a second machine's: then the first one may still run what it had, until
    # its next heartbeat is refused and its launchers have ended it. A lease is ample for that.
    patience_s = turn.settings.leases.lease_s if moved else 0.0
    listed = set(beat.live)
    for attempt in turn.book.on_node(beat.node_id):
        if attempt.id in listed:
            continue
        flight = turn.book.flights[attempt.id.task]
        if attempt.answered_at is None and attempt.incarnation < beat.incarnation:
            _not_taken(turn, attempt, beat.incarnation)
            continue
        # A launch that may still be on its way proves nothing, unless its stop was there first.
        if attempt.answered_at is None and not flight.stop_delivered:
            continue
        if flight.missing_since_s is None:
            flight.missing_since_s = turn.book.mono + patience_s
        elif leases.is_gone(flight.missing_since_s, now_s=turn.book.mono, settings=turn.settings.leases):
            turn.lose(attempt, f"{beat.node_id} does not have it any more.")


def _not_taken(turn: Turn, attempt: Attempt, incarnation: int) -> None:
    """No launch to a Worker's last life can arrive any more, and what that one took is listed by this one from its
    first heartbeat on: so it runs nowhere, and the same attempt is sent to this life."""
    if attempt.state is AttemptState.STOPPING:
        turn.refuse_attempt(attempt, "the worker was restarted before it took it")
        return
    turn.book.put_attempt(replace(attempt, incarnation=incarnation))
    turn.book.flights[attempt.id.task].uncertain = False
    turn.relaunches.append(attempt.id)
