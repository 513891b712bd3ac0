"""Why and when a hold ends, by what is written down of it. Pure. Instants are nanoseconds of the boot clock."""

from __future__ import annotations

from dataclasses import dataclass

from ..box import BoxEnd, EndRecord, StopWord
from .record import Ending, HoldRecord

NS = 1_000_000_000
MS = 1_000_000


@dataclass(frozen=True, slots=True)
class HoldLimits:
    """In seconds."""

    take_s: float = 15.0  # an offer stands so long: who waits is connected already
    silence_s: float = 120.0


def next_due_ns(record: HoldRecord, heard_ns: int, limits: HoldLimits) -> int:
    """When ``ending_due`` may first say something."""
    due = [] if record.lease_until_ns is None else [record.lease_until_ns]
    if record.holder is None:
        return min([*due, _offered_until_ns(record, limits)])
    return min([*due, _time_is_over_ns(record), heard_ns + round(limits.silence_s * NS)])


def ending_due(record: HoldRecord, heard_ns: int, now_ns: int, limits: HoldLimits) -> Ending | None:
    """Why it has to end now. None: it has not."""
    if record.lease_until_ns is not None and record.lease_until_ns <= now_ns:
        return Ending(BoxEnd.LEASE_EXPIRED, now_ns, record.lease_grace_ms)
    if record.holder is None:
        over = _offered_until_ns(record, limits) <= now_ns
        return Ending(BoxEnd.STOPPED, now_ns, 0, StopWord.CANCELLED) if over else None
    if _time_is_over_ns(record) <= now_ns:
        return Ending(BoxEnd.TIMED_OUT, now_ns, record.grace_ms)
    if heard_ns + round(limits.silence_s * NS) <= now_ns:
        return Ending(BoxEnd.STOPPED, now_ns, record.grace_ms, StopWord.KILLED_OUTSIDE)
    return None


def end_of(record: HoldRecord, *, done: bool, now_ns: int, wall_ns: int) -> EndRecord:
    """The end, once nothing lives. ``done``: its client has given it back."""
    ending = record.ending
    if ending is not None:
        reason, word = ending.reason, ending.word
    elif done:
        reason, word = BoxEnd.EXITED, None
    else:  # it has ended without a word
        reason, word = BoxEnd.STOPPED, StopWord.KILLED_OUTSIDE
    taken = record.holder is not None
    return EndRecord(
        reason,
        exit_code=record.exit_code,
        signal=record.signal,
        stop_word=word,
        started_wall_ns=record.wall_ns if taken else None,
        ended_wall_ns=wall_ns,
        run_ns=max(0, now_ns - record.taken_ns) if taken else 0,
        timeout_ms=record.timeout_ms,
    )


def _offered_until_ns(record: HoldRecord, limits: HoldLimits) -> int:
    return record.offered_ns + round(limits.take_s * NS)


def _time_is_over_ns(record: HoldRecord) -> int:
    return record.taken_ns + record.timeout_ms * MS
