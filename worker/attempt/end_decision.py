"""Decides why an attempt ended. Pure.

It reads the launcher's end record, the engine's answer, and what the Worker itself did. The end record is the proof.
Without one nothing counts as success, whatever exit code the engine reports. After a hard reboot engines have reported
0 for containers that were cut off.
"""

from __future__ import annotations

import signal as signals
from dataclasses import dataclass, field

from headway.model.reasons import EndReason, EndWord
from headway.units import format_duration, format_size

from ..box import BoxEnd, EndRecord, StopWord
from ..model import EndDecision
from ..ports import ContainerFacts, ContainerState
from .start_faults import StartAsked, start_fault

_TERMINATED = 143  # 128 + SIGTERM
_KILLED = 137  # 128 + SIGKILL, as engines report it
_ROUNDED_S = 0.001  # the launcher counts in milliseconds
_ENGINE_RESTARTED = 255  # what Docker reports for containers that it lost during its own restart


@dataclass(frozen=True, slots=True)
class EndEvidence:
    """What the Worker knows besides the end record and the container."""

    node: str
    timeout_s: float  # with all extensions
    memory_bytes: int
    log_limit_bytes: int
    asked: StartAsked = field(default_factory=StartAsked)
    stop: StopWord | None = None  # a stop that this Worker passed on
    stop_detail: str = ""  # why, if this Worker itself decided to stop it
    overran: bool = False  # the launcher did not end it in time, so the Worker killed it
    ever_started: bool = False  # the user's process has run
    rebooted: bool = False  # the machine has rebooted since the start
    alone_s: float = 0.0  # for so long it may run on without an answer from TaskManager
    engine_was_away: bool = False  # the engine stopped or started around the end, so it may be who ended it


def decide(record: EndRecord | None, container: ContainerFacts, evidence: EndEvidence) -> EndDecision:
    """The one reason of the end. ``container`` is what the engine said after the end."""
    if record is None:
        return _without_record(container, evidence)
    out_of_memory = record.oom_kills > 0 or container.oom_killed
    warnings = []
    if record.dropped_bytes:
        warnings.append(
            f"{format_size(record.dropped_bytes)} of output were dropped, because it printed more than its limit of "
            f"{format_size(evidence.log_limit_bytes)}."
        )
    if record.left:
        warnings.append(_left_sentence(record))
    match record.reason:
        case BoxEnd.EXITED:
            if out_of_memory and record.exit_code == 0:
                warnings.append("For lack of memory the kernel killed one of its processes. Its main process went on.")
            reason = _exited(record, evidence, out_of_memory)
        case BoxEnd.TIMED_OUT:
            reason = _timed_out(evidence, record)
        case BoxEnd.STOPPED:
            reason = _stopped(record.stop_word or evidence.stop or StopWord.PLATFORM, evidence, record)
        case BoxEnd.LEASE_EXPIRED:
            reason = EndReason(
                EndWord.NODE_LOST,
                record.exit_code,
                record.signal,
                f"{evidence.node} had no answer from Headway for {format_duration(evidence.alone_s)}, so it ended the "
                "task itself.",
            )
        case BoxEnd.LOG_LIMIT:
            limit = format_size(evidence.log_limit_bytes)
            reason = EndReason(
                EndWord.LOG_LIMIT, record.exit_code, record.signal, f"It printed more than its limit of {limit}."
            )
        case BoxEnd.START_FAILED:
            reason = start_fault(record, evidence.node, evidence.asked)
    reason = _of_engine(reason, evidence)
    return EndDecision(reason, tuple(warnings), elsewhere=reason.platform_retry)


def _left_sentence(record: EndRecord) -> str:
    names = record.left_names.replace("/", ", ")
    one = record.left == 1
    return (
        f"{'A process was' if one else f'{record.left} processes were'} still running in the background when the "
        f"command ended, and {'was' if one else 'were'} ended with it: {names}. Use `wait` at the end of a script."
    )


def looks_killed_outside(record: EndRecord | None, container: ContainerFacts) -> bool:
    """Whether nobody of Headway ended it, so that it may have been the engine in going or coming."""
    if record is None:
        return container.exit_code in (None, _KILLED, _TERMINATED, _ENGINE_RESTARTED)
    if record.reason is BoxEnd.STOPPED:
        return record.stop_word is StopWord.KILLED_OUTSIDE
    return record.reason is BoxEnd.EXITED and record.signal == signals.SIGKILL and not record.oom_kills


def _of_engine(reason: EndReason, evidence: EndEvidence) -> EndReason:
    """An engine without live-restore ends its containers when it stops. That is no fault of the task or of people."""
    if reason.word is not EndWord.KILLED_OUTSIDE or not evidence.engine_was_away:
        return reason
    detail = f"The container engine of {evidence.node} stopped or restarted, and ended it."
    return EndReason(EndWord.PLATFORM_ERROR, reason.exit_code, reason.signal, detail)


def _exited(record: EndRecord, evidence: EndEvidence, out_of_memory: bool) -> EndReason:
    if record.exit_code == 0:
        return EndReason(EndWord.EXITED, 0)
    if out_of_memory:
        return _out_of_memory(evidence, record.exit_code, record.signal)
    if record.signal == signals.SIGKILL:
        # The launcher records a reason when it kills. So a person or a program on the machine sent this one.
        return EndReason(EndWord.KILLED_OUTSIDE, None, record.signal, "It got a SIGKILL that Headway did not send.")
    detail = ""
    if record.signal is not None:
        detail = f"Its process was ended by {_signal_name(record.signal)}."
    return EndReason(EndWord.EXITED, record.exit_code, record.signal, detail)


def _timed_out(evidence: EndEvidence, record: EndRecord | None = None) -> EndReason:
    # The launcher's timeout counts: an extension may have reached it too late.
    timeout_s = record.timeout_ms / 1000 if record and record.timeout_ms else evidence.timeout_s
    late = (
        f" Its extension to {format_duration(evidence.timeout_s)} came too late."
        if (evidence.timeout_s - timeout_s > _ROUNDED_S)
        else ""
    )
    return EndReason(
        EndWord.TIMED_OUT,
        record.exit_code if record else None,
        record.signal if record else None,
        f"It ran past its timeout of {format_duration(timeout_s)} and was ended.{late}",
    )


def _out_of_memory(evidence: EndEvidence, exit_code: int | None = None, signal: int | None = None) -> EndReason:
    limit = format_size(evidence.memory_bytes)
    return EndReason(
        EndWord.OUT_OF_MEMORY,
        exit_code,
        signal,
        f"It needed more than its {limit} of memory.",
    )


def _stopped(word: StopWord, evidence: EndEvidence, record: EndRecord | None = None) -> EndReason:
    exit_code = record.exit_code if record else None
    signal = record.signal if record else None
    match word:
        case StopWord.CANCELLED:
            return EndReason(EndWord.CANCELLED, exit_code, signal)
        case StopWord.SUPERSEDED:
            return EndReason(EndWord.CANCELLED, exit_code, signal, "Another attempt replaced it.")
        case StopWord.SHUTDOWN:
            return EndReason(EndWord.NODE_LOST, exit_code, signal, f"{evidence.node} was shut down.")
        case StopWord.DISK_FULL:
            detail = evidence.stop_detail or f"The disk of {evidence.node} was full."
            return EndReason(EndWord.DISK_FULL, exit_code, signal, detail)
        case StopWord.GPU_IDLE:
            return EndReason(EndWord.GPU_IDLE, exit_code, signal, evidence.stop_detail)
        case StopWord.GPU_MEMORY:
            return EndReason(EndWord.GPU_MEMORY, exit_code, signal, evidence.stop_detail)
        case StopWord.KILLED_OUTSIDE:
            return EndReason(EndWord.KILLED_OUTSIDE, exit_code, signal, "It was stopped from outside Headway.")
        case StopWord.DRAINED:
            return EndReason(EndWord.DRAINED, exit_code, signal)
        case StopWord.PLATFORM:
            return EndReason(EndWord.PLATFORM_ERROR, exit_code, signal, f"Headway ended it on {evidence.node}.")


def _without_record(container: ContainerFacts, evidence: EndEvidence) -> EndDecision:
    reason = _of_engine(_reason_without_record(container, evidence), evidence)
    return EndDecision(reason, elsewhere=reason.platform_retry)


def _reason_without_record(container: ContainerFacts, evidence: EndEvidence) -> EndReason:
    # A KILL of the Worker ends the launcher too, so it explains a missing record best.
    if evidence.stop is not None:
        return _stopped(evidence.stop, evidence)
    if evidence.overran:
        return _timed_out(evidence)
    if evidence.rebooted:
        return EndReason(EndWord.NODE_LOST, detail=f"{evidence.node} restarted while it ran.")
    if container.state is ContainerState.ABSENT:
        if evidence.ever_started:
            return EndReason(EndWord.KILLED_OUTSIDE, detail="Its container was removed from outside Headway.")
        return EndReason(EndWord.PLATFORM_ERROR, detail=f"Its container on {evidence.node} is gone.")
    if container.oom_killed:
        return _out_of_memory(evidence)
    if container.box_was_hidden:
        return EndReason(EndWord.IMAGE_BAD, detail="It was not started: the image hides the files of its launcher.")
    if container.state is ContainerState.CREATED:
        what = container.error or "the engine gave no reason"
        return EndReason(EndWord.START_FAILED, detail=f"Its container could not be started on {evidence.node}: {what}.")
    if container.exit_code == _KILLED:
        return EndReason(EndWord.KILLED_OUTSIDE, None, signals.SIGKILL, "It was killed from outside Headway.")
    if container.exit_code == _ENGINE_RESTARTED:
        return EndReason(EndWord.PLATFORM_ERROR, detail=f"The engine of {evidence.node} restarted while it ran.")
    if not evidence.ever_started and container.exit_code not in (0, None):
        what = container.error or f"the launcher ended with {container.exit_code}"
        return EndReason(EndWord.START_FAILED, detail=f"Its container could not be started on {evidence.node}: {what}.")
    return EndReason(
        EndWord.PLATFORM_ERROR,
        detail=f"Its container on {evidence.node} ended without a record of how, so its result is not known.",
    )


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
