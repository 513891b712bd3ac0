"""Where the time of one attempt went.

The placement is by TaskManager's clock, the rest by the Worker's. Two clocks never agree to the millisecond, and people
set them. So an instant counts only where it can be true, and no phase is ever negative.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..model import Attempt


@dataclass(frozen=True, slots=True)
class Phases:
    """Each in seconds; None while not over (or never begun)."""

    scheduling_s: float | None
    dispatch_s: float | None
    startup_s: float | None
    preparing_s: float | None
    running_s: float | None


def phases_of(attempt: Attempt) -> Phases:
    """The five phases of an attempt as far as they are over."""
    return Phases(
        scheduling_s=_span(attempt.queued_at, attempt.placed_at),
        dispatch_s=_dispatch(attempt),
        startup_s=_span(attempt.accepted_at, attempt.container_started_at),
        preparing_s=_span(attempt.container_started_at, attempt.started_at),
        running_s=running_s(attempt),
    )


def _dispatch(attempt: Attempt) -> float | None:
    # The Worker's own instant is more exact than the moment at which its answer arrived, if it lies before that.
    answered_at = attempt.answered_at
    accepted_at = attempt.accepted_at
    if (
        accepted_at is not None
        and accepted_at >= attempt.placed_at
        and (answered_at is None or accepted_at <= answered_at)
    ):
        return accepted_at - attempt.placed_at
    if answered_at is not None:
        return max(0.0, answered_at - attempt.placed_at)
    return None if accepted_at is None else 0.0


def running_s(attempt: Attempt) -> float | None:
    """How long the user's process ran, in seconds; None: it never did, or still does."""
    if attempt.started_at is None or attempt.ended_at is None:
        return None
    return attempt.run_s if attempt.run_s is not None else _span(attempt.started_at, attempt.ended_at)


def _span(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else max(0.0, end - start)
