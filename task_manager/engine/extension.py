"""More time for a running task: who may get it, and what it costs others.

A request is granted at once if no promised start moves and the short reserve is kept. The attempt is the booking, so a
grant changes the attempt. The change is stored first; then it is sent to the Worker until the launcher uses it. Only
the launcher enforces the timeout. An extension that it did not receive in time was never given.
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
from ..planning.limit_checks import GpuHoldings, long_tasks_hold
from . import pass_input
from .events import ExtendOrder, ExtendTask
from .turn import Turn

if TYPE_CHECKING:
    from ..planning.pass_model import PassInput, Plan

log = get_logger(__name__)

_MOST_TIMES = 200
_MOST_NAMED = 5
_SLACK_S = 0.001  # sums of the same seconds differ by less


# -- what it costs others -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PromiseDelay:
    """A promised start that would not hold, by the clock of the pass. ``start_s`` None: the new start is not known."""

    task_id: TaskId
    promised_s: float
    start_s: float | None


def delayed_promises(
    snapshot: PassInput, task_id: TaskId, more_s: float, plan: Callable[[PassInput], Plan]
) -> tuple[PromiseDelay, ...]:
    """The promises that would move if the running task kept its resources for ``more_s`` longer, earliest first.

    ``plan``, the pass that decides, runs twice: once with the bookings as they are, once with the longer booking. A
    promise that breaks in both is not this request's fault.
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


def _broken(plan: Plan, promised: dict[TaskId, float]) -> list[PromiseDelay]:
    starting = {placement.task_id for placement in plan.placements}
    moved = []
    for task_id, promised_s in promised.items():
        if task_id in starting:
            continue
        place = plan.promised.get(task_id) or plan.reservations.get(task_id)
        start_s = None if place is None else max(place.start_s, place.promised_s or place.start_s)
        if start_s is None or start_s > promised_s + _SLACK_S:
            moved.append(PromiseDelay(task_id, promised_s, start_s))
    return moved


# -- who may have it ----------------------------------------------------------------------------------


def refusal(
    attempt: Attempt,
    seconds: float,
    *,
    limit_s: float | None,
    moved: Sequence[PromiseDelay],
    force: bool,
    reserve_conflict: str = "",
) -> HeadwayError | None:
    """Why a live attempt gets no more time; None: it does. ``limit_s`` is the longest timeout of this cluster;
    ``reserve_conflict`` comes from `short_reserve_conflict`."""
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
    if force or not (moved or reserve_conflict):
        return None
    sentences = [reserve_conflict] if reserve_conflict else []
    if moved:
        sentences.append(_sentence(attempt, seconds, moved))
    kind = PromisesMove if moved else KeptForShortTasks
    return kind(" ".join([*sentences, "An admin can grant it anyway."]))


def short_reserve_conflict(
    attempt: Attempt, seconds: float, limits: AdmissionLimits, holdings: GpuHoldings, *, gpus: int
) -> str:
    """Why it may not become a long task: long tasks hold all the GPUs that they may. A sentence; empty: it may.

    ``gpus``: of the cluster.
    """
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


def _sentence(attempt: Attempt, seconds: float, moved: Sequence[PromiseDelay]) -> str:
    named = [_waits(one) for one in moved[:_MOST_NAMED]]
    if len(moved) > _MOST_NAMED:
        named.append(f"{len(moved) - _MOST_NAMED} more")
    return (
        f"With {format_duration(seconds)} more for {attempt.id.task}, {counted(len(moved), 'task')} would start later "
        f"than promised: {', '.join(named)}."
    )


def _waits(moved: PromiseDelay) -> str:
    if moved.start_s is None:
        return f"{moved.task_id} by an unknown time"
    return f"{moved.task_id} by {format_duration(max(1.0, float(math.ceil(moved.start_s - moved.promised_s))))}"


# -- giving it ----------------------------------------------------------------------------------------


def on_extend(turn: Turn, asked: ExtendTask) -> Attempt:
    """Grants more time, or raises why not; the same request again gets the same answer.

    Raises:
        NotFound, Conflict, InvalidInput: nothing runs, or it may not have more time.
        PromisesMove: others would start later than promised.
        KeptForShortTasks: it would become a long task, and those hold all that they may.
        IdempotencyMismatch: the request id came with another amount before.
    """
    seconds = round(asked.seconds, 3)
    if not (math.isfinite(asked.seconds) and seconds > 0):
        raise InvalidInput("More time is a duration above zero, such as 30m.")
    attempt = turn.state.attempts.get(asked.task_id)
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
    there = pass_input.current_pass_input(turn.state, turn.settings)
    moved = delayed_promises(there, asked.task_id, seconds, scheduling_pass.plan_pass)
    limits, gpus = turn.settings.limits, turn.state.gpus
    reserve_conflict = short_reserve_conflict(
        attempt, seconds, limits, pass_input.holdings(turn.state, limits), gpus=gpus
    )
    limit_s = limits.max_timeout_s(gpus)
    refused = refusal(
        attempt, seconds, limit_s=limit_s, moved=moved, force=asked.force, reserve_conflict=reserve_conflict
    )
    if refused is not None:
        raise refused
    given = Extension(turn.now, asked.by, seconds, asked.force and bool(moved or reserve_conflict), asked.request_id)
    longer = replace(attempt, timeout_s=round(attempt.timeout_s + seconds, 3), extensions=(*attempt.extensions, given))
    turn.state.put_attempt(longer)
    turn.extends.append(extend_order(longer))
    turn.state.pass_needed = True  # other tasks may start later now
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


def extend_order(attempt: Attempt) -> ExtendOrder:
    """The order for its Worker."""
    return ExtendOrder(attempt.id, attempt.timeout_s, attempt.extensions)


def is_due(attempt: Attempt) -> bool:
    """Whether the order has to be sent (again)."""
    return attempt.extension_pending and attempt.state is AttemptState.RUNNING


def with_effective_timeout(attempt: Attempt, reason: EndReason) -> tuple[Attempt, EndReason]:
    """An ended attempt with the timeout that it really had: without extensions that its launcher did not receive."""
    if not attempt.extensions:
        return attempt, reason
    had_s = attempt.counted_s if attempt.counted_s is not None else attempt.launched_timeout_s
    if had_s >= attempt.timeout_s:
        return attempt, reason
    if reason.word is EndWord.TIMED_OUT and "too late" not in reason.detail:
        late = f"The {round_duration(attempt.timeout_s - had_s)} more that it was given came too late."
        reason = replace(reason, detail=f"{reason.detail} {late}".strip())
    return replace(attempt, timeout_s=had_s), reason
