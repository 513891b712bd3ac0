"""More time for a running task: who may have it, what it costs others, and what is told of it.

It is granted at once when nobody's promised start moves and the short reserve is kept. The attempt is the booking, so
granting it is one change of the attempt: on disk first, then told to its Worker until the launcher counts by it. The
launcher alone holds the timeout; what it did not take before it struck was never given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headway.errors import (
    Conflict,
    HeadwayError,
    IdempotencyMismatch,
    InvalidInput,
    KeptForShortTasks,
    NotFound,
    PromisesMove,
)
from headway.ids import TaskId
from headway.logs import get_logger
from headway.model.reasons import EndReason, EndWord
from headway.states import AttemptState
from headway.units import MAX_DURATION_S, counted, format_duration, round_duration

from ..limits import AdmissionLimits
from ..model import Attempt, Extension, Task
from ..planning import scheduling_pass
from ..planning.admission import GpuHoldings, long_tasks_hold
from . import pass_input, passes
from .events import Extend, ExtendOrder
from .turn import Turn

if TYPE_CHECKING:
    from ..planning.pass_model import PassInput, Plan

log = get_logger(__name__)

_MOST_TIMES = 200
_MOST_NAMED = 5
_SLACK_S = 0.001  # sums of the same seconds differ by less


# -- what it costs others -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moved:
    """A promised start that would not hold, by the pass's clock. ``start_s`` None: nobody knows when it starts then."""

    task_id: TaskId
    promised_s: float
    start_s: float | None


def moved_promises(
    snapshot: PassInput, task_id: TaskId, more_s: float, plan: Callable[[PassInput], Plan]
) -> tuple[Moved, ...]:
    """The promises that would move if the running task held what it has for ``more_s`` longer, first promised first.

    Asked of ``plan`` itself, the pass that decides: once as things are, once with the longer booking. What is lost
    either way is nobody's doing here.
    """
    longer = [
        replace(booking, until_s=booking.until_s + more_s, timeout_s=booking.timeout_s + more_s)
        if booking.task_id == task_id
        else booking
        for booking in snapshot.running
    ]
    promised = {key: place.promised_s for key, place in snapshot.reservations.items() if place.promised_s is not None}
    if not promised:
        return ()
    after = _broken(plan(replace(snapshot, running=longer)), promised)
    if not after:
        return ()
    before = {moved.task_id for moved in _broken(plan(snapshot), promised)}
    return tuple(sorted((m for m in after if m.task_id not in before), key=lambda m: (m.promised_s, m.task_id)))


def _broken(plan: Plan, promised: dict[TaskId, float]) -> list[Moved]:
    starting = {placement.task_id for placement in plan.placements}
    moved = []
    for task_id, promised_s in promised.items():
        if task_id in starting:
            continue
        place = plan.promised.get(task_id) or plan.reservations.get(task_id)
        if place is None or place.start_s > promised_s + _SLACK_S:
            moved.append(Moved(task_id, promised_s, None if place is None else place.start_s))
    return moved


# -- who may have it ----------------------------------------------------------------------------------


def refusal(
    attempt: Attempt, seconds: float, *, limit_s: float | None, moved: Sequence[Moved], force: bool, kept: str = ""
) -> HeadwayError | None:
    """Why a live attempt gets no more time; None: it does. ``limit_s`` is the longest timeout of this cluster,
    ``kept`` what `over_reserve` says."""
    if attempt.state is AttemptState.STOPPING:
        return Conflict(f"The task {attempt.id.task} is being stopped; it gets no more time.")
    if attempt.state is not AttemptState.RUNNING:
        return Conflict(
            f"The task {attempt.id.task} has not started yet: its timeout counts from its start. Ask again then."
        )
    if len(attempt.extensions) >= _MOST_TIMES:
        return Conflict(f"The task {attempt.id.task} was given more time {_MOST_TIMES} times; it gets no more.")
    longest_s = min(MAX_DURATION_S, limit_s if limit_s is not None else MAX_DURATION_S)
    if attempt.timeout_s + seconds > longest_s + _SLACK_S:
        left_s = math.floor(longest_s - attempt.timeout_s)
        rest = f"it can have {format_duration(left_s)} more" if left_s >= 1 else "it has that already"
        return Conflict(
            f"With {format_duration(seconds)} more the timeout of the task {attempt.id.task} would be above this "
            f"cluster's limit of {format_duration(longest_s)}; {rest}."
        )
    if force or not (moved or kept):
        return None
    sentences = [kept] if kept else []
    if moved:
        sentences.append(_sentence(attempt, seconds, moved))
    kind = PromisesMove if moved else KeptForShortTasks
    return kind(" ".join([*sentences, "An admin can grant it all the same."]))


def over_reserve(attempt: Attempt, seconds: float, limits: AdmissionLimits, holdings: GpuHoldings, *, gpus: int) -> str:
    """Why so much more time would make it one of the long tasks, which hold what they may already, as a sentence;
    empty where it would not. ``gpus``: of the cluster."""
    reserve, asked = limits.short_reserve, attempt.shape.gpus
    if reserve is None or not asked:
        return ""
    if limits.is_long(attempt.timeout_s) or not limits.is_long(attempt.timeout_s + seconds):
        return ""
    if holdings.of_long + asked <= gpus - reserve.gpus:
        return ""
    return (
        f"With {format_duration(seconds)} more {attempt.id.task} would be a task longer than "
        f"{format_duration(reserve.above_s)} with {counted(asked, 'GPU')}. "
        f"{long_tasks_hold(reserve, holdings.of_long, gpus)}."
    )


def _sentence(attempt: Attempt, seconds: float, moved: Sequence[Moved]) -> str:
    named = [_waits(one) for one in moved[:_MOST_NAMED]]
    if len(moved) > _MOST_NAMED:
        named.append(f"{len(moved) - _MOST_NAMED} more")
    return (
        f"With {format_duration(seconds)} more for {attempt.id.task}, {counted(len(moved), 'task')} would start later "
        f"than promised: {', '.join(named)}."
    )


def _waits(moved: Moved) -> str:
    if moved.start_s is None:
        return f"{moved.task_id} by an unknown time"
    return f"{moved.task_id} by {format_duration(max(1.0, float(math.ceil(moved.start_s - moved.promised_s))))}"


# -- giving it ----------------------------------------------------------------------------------------


def on_extend(turn: Turn, asked: Extend) -> Attempt:
    """Grants it or raises why not; the same request again is answered as the first time.

    Raises:
        NotFound, Conflict, InvalidInput: there is nothing to give time to, or it may not have it.
        PromisesMove: others would start later than promised.
        KeptForShortTasks: it would be long, and long tasks hold all that they may.
        IdempotencyMismatch: the request id came with another amount before.
    """
    seconds = round(asked.seconds, 3)
    if not (math.isfinite(asked.seconds) and seconds > 0):
        raise InvalidInput("More time is a duration above zero, such as 30m.")
    attempt = turn.book.attempts.get(asked.task_id)
    if attempt is None:
        raise _nothing_runs(turn.task(asked.task_id), asked.task_id)
    for one in attempt.extensions:
        if asked.request_id and one.request_id == asked.request_id:
            if one.seconds != seconds:
                raise IdempotencyMismatch(
                    f"This request id gave {asked.task_id} {format_duration(one.seconds)} more before, not "
                    f"{format_duration(seconds)}; ask for other time with another Idempotency-Key."
                )
            return attempt
    there = passes.seen_now(turn.book, turn.settings)
    moved = moved_promises(there, asked.task_id, seconds, scheduling_pass.plan_pass)
    limits, gpus = turn.settings.limits, turn.book.gpus
    kept = over_reserve(attempt, seconds, limits, pass_input.holdings(turn.book, limits), gpus=gpus)
    limit_s = limits.max_timeout_s(gpus)
    refused = refusal(attempt, seconds, limit_s=limit_s, moved=moved, force=asked.force, kept=kept)
    if refused is not None:
        raise refused
    given = Extension(turn.now, asked.by, seconds, asked.force and bool(moved or kept), asked.request_id)
    longer = replace(attempt, timeout_s=round(attempt.timeout_s + seconds, 3), extensions=(*attempt.extensions, given))
    turn.book.put_attempt(longer)
    turn.extends.append(order(longer))
    turn.book.pass_needed = True  # what waits is told anew
    log.info(
        "attempt.extended", attempt=str(attempt.id), by=asked.by, seconds=seconds, timeout_s=longer.timeout_s,
        forced=given.forced,
    )  # fmt: skip
    return longer


def _nothing_runs(task: Task | None, task_id: TaskId) -> HeadwayError:
    if task is None:
        return NotFound(f"The queue knows no task {task_id}.")
    if task.ended:
        return Conflict(f"The task {task_id} has ended ({task.state.value}); there is nothing to give time to.")
    return Conflict(
        f"The task {task_id} waits: its timeout counts from its start. Ask again once it runs, or submit it anew with "
        "a longer timeout."
    )


def order(attempt: Attempt) -> ExtendOrder:
    """What its Worker is told."""
    return ExtendOrder(attempt.id, attempt.timeout_s, attempt.extensions)


def is_due(attempt: Attempt) -> bool:
    """Whether its Worker is to be told (again)."""
    return attempt.extension_pending and attempt.state is AttemptState.RUNNING


def at_end(attempt: Attempt, reason: EndReason) -> tuple[Attempt, EndReason]:
    """An ended attempt with the timeout that it really had: time that its launcher did not take was never given."""
    if not attempt.extensions:
        return attempt, reason
    had_s = attempt.counted_s if attempt.counted_s is not None else attempt.launched_timeout_s
    if had_s >= attempt.timeout_s:
        return attempt, reason
    if reason.word is EndWord.TIMED_OUT and "too late" not in reason.detail:
        late = f"The {round_duration(attempt.timeout_s - had_s)} more that it was given came too late."
        reason = replace(reason, detail=f"{reason.detail} {late}".strip())
    return replace(attempt, timeout_s=had_s), reason
