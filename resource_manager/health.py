"""Whether a node is alive. Pure, and by the monotonic clock only: no wall clock matters, here or at the Worker.

A node is SUSPECT after some silence and DOWN after more. One answer makes a SUSPECT node READY again; a DOWN one has to
answer twice. So a machine that comes and goes does not come and go in the cluster as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from headway.states import NodeHealth, StateMachine


class HealthSignal(StrEnum):
    """What is noticed of a node."""

    REGISTERED = "REGISTERED"  # its Worker has started
    ANSWERED = "ANSWERED"
    ANSWERED_AGAIN = "ANSWERED_AGAIN"  # at least the second time in a row
    SILENT = "SILENT"  # for suspect_after_s
    LONG_SILENT = "LONG_SILENT"  # for down_after_s


_H = NodeHealth
HEALTH: StateMachine[NodeHealth, HealthSignal] = StateMachine(
    "node health",
    NodeHealth,
    HealthSignal,
    moves={
        **{(state, HealthSignal.REGISTERED): _H.READY for state in (_H.SUSPECT, _H.DOWN)},
        (_H.SUSPECT, HealthSignal.ANSWERED): _H.READY,
        (_H.SUSPECT, HealthSignal.ANSWERED_AGAIN): _H.READY,
        (_H.DOWN, HealthSignal.ANSWERED_AGAIN): _H.READY,
        (_H.READY, HealthSignal.SILENT): _H.SUSPECT,
        **{(state, HealthSignal.LONG_SILENT): _H.DOWN for state in (_H.READY, _H.SUSPECT)},
    },
    ignored={
        (_H.READY, HealthSignal.REGISTERED): "it was restarted between two polls",
        (_H.READY, HealthSignal.ANSWERED): "as expected",
        (_H.READY, HealthSignal.ANSWERED_AGAIN): "as expected",
        (_H.DOWN, HealthSignal.ANSWERED): "once may be chance: the next answer counts",
        (_H.SUSPECT, HealthSignal.SILENT): "already suspect",
        (_H.DOWN, HealthSignal.SILENT): "already down",
        (_H.DOWN, HealthSignal.LONG_SILENT): "already down",
    },
)


@dataclass(frozen=True, slots=True)
class SilenceLimits:
    """Silence in seconds before a node is SUSPECT, and before it is DOWN."""

    suspect_after_s: float
    down_after_s: float


@dataclass(frozen=True, slots=True)
class HealthState:
    """How a node is, and when it last answered.

    ``seen`` is a monotonic instant: that of its last answer, or of this service's own start.
    """

    health: NodeHealth
    seen: float
    answers: int = 0  # in a row
    answered_before: bool = True  # False: not one since this service started
    failure: str = ""  # what the last poll met, empty after an answer


def at_start(monotonic: float) -> HealthState:
    """The state of a node that was known before this service started: no new work until it answers."""
    return HealthState(NodeHealth.SUSPECT, monotonic, answered_before=False)


def on_registered(monotonic: float) -> HealthState:
    return HealthState(NodeHealth.READY, monotonic, answers=1)


def on_answer(state: HealthState, monotonic: float) -> HealthState:
    signal = HealthSignal.ANSWERED_AGAIN if state.answers else HealthSignal.ANSWERED
    return HealthState(HEALTH.after(state.health, signal), monotonic, answers=state.answers + 1)


def on_failure(state: HealthState, failure: str) -> HealthState:
    """A poll met ``failure`` (a sentence). How long the silence lasts decides, not how often it was asked."""
    return replace(state, answers=0, failure=failure)


def on_time(state: HealthState, monotonic: float, limits: SilenceLimits) -> HealthState:
    """The state after time has passed without a new answer."""
    silent_s = monotonic - state.seen
    if silent_s < limits.suspect_after_s:
        return state
    after = HEALTH.after(
        state.health, HealthSignal.LONG_SILENT if silent_s >= limits.down_after_s else HealthSignal.SILENT
    )
    # Answers from before the silence don't speak for what comes after it.
    return state if after is state.health else replace(state, health=after, answers=0)


def forgive(state: HealthState, pause_s: float) -> HealthState:
    """This service itself stood still for ``pause_s`` (its machine slept): nobody was silent in that time."""
    return replace(state, seen=state.seen + pause_s)


def sentence(state: HealthState, monotonic: float, blocking: tuple[str, ...] = ()) -> str:
    """Why it is so, for a person; ``blocking`` are sentences of what keeps a live node from taking work."""
    if state.health is NodeHealth.READY:
        return " ".join(blocking)
    silent_s = max(0.0, monotonic - state.seen)
    if state.health is NodeHealth.DOWN and state.answers:
        return "It answers again; it is ready if it answers the next time too."
    since = f"for {_span(silent_s)}" if state.answered_before else f"since Headway was started {_span(silent_s)} ago"
    what = f"It has not answered {since}"
    what += f" ({state.failure.rstrip('.')})." if state.failure else "."
    return what + (" No new work is sent there." if state.health is NodeHealth.SUSPECT else " It counts as down.")


def _span(seconds: float) -> str:
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7_200:
        return f"{whole // 60} min"
    return f"{whole // 3_600} h"
