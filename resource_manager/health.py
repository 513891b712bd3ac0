"""Is a node alive. Pure, and by the monotonic clock only: neither the wall clock here nor the Worker's matters.

A node is SUSPECT after some silence and DOWN after more. One answer makes a SUSPECT node READY again; a DOWN one has
to answer twice, so that a machine that comes and goes does not come and go in the cluster as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from headway.states import Machine, NodeHealth


class Sign(StrEnum):
    """What is noticed of a node."""

    REGISTERED = "REGISTERED"  # its Worker has started
    ANSWERED = "ANSWERED"
    ANSWERED_AGAIN = "ANSWERED_AGAIN"  # at least the second time in a row
    SILENT = "SILENT"  # for suspect_after_s
    LONG_SILENT = "LONG_SILENT"  # for down_after_s


_H = NodeHealth
HEALTH: Machine[NodeHealth, Sign] = Machine(
    "node health",
    NodeHealth,
    Sign,
    moves={
        **{(state, Sign.REGISTERED): _H.READY for state in (_H.SUSPECT, _H.DOWN)},
        (_H.SUSPECT, Sign.ANSWERED): _H.READY,
        (_H.SUSPECT, Sign.ANSWERED_AGAIN): _H.READY,
        (_H.DOWN, Sign.ANSWERED_AGAIN): _H.READY,
        (_H.READY, Sign.SILENT): _H.SUSPECT,
        **{(state, Sign.LONG_SILENT): _H.DOWN for state in (_H.READY, _H.SUSPECT)},
    },
    ignored={
        (_H.READY, Sign.REGISTERED): "it was restarted between two polls",
        (_H.READY, Sign.ANSWERED): "as expected",
        (_H.READY, Sign.ANSWERED_AGAIN): "as expected",
        (_H.DOWN, Sign.ANSWERED): "once may be chance: the next answer counts",
        (_H.SUSPECT, Sign.SILENT): "already suspect",
        (_H.DOWN, Sign.SILENT): "already down",
        (_H.DOWN, Sign.LONG_SILENT): "already down",
    },
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Silence in seconds before a node is SUSPECT, and before it is DOWN."""

    suspect_after_s: float
    down_after_s: float


@dataclass(frozen=True, slots=True)
class Pulse:
    """A node's signs of life; ``seen`` is a monotonic instant, of the last one or of this service's own start."""

    health: NodeHealth
    seen: float
    answers: int = 0  # in a row
    ever: bool = True  # False: not one since this service started
    failure: str = ""  # what the last poll met, empty after an answer


def at_start(monotonic: float) -> Pulse:
    """Of a node known from before this service's own restart: no new work until it answers."""
    return Pulse(NodeHealth.SUSPECT, monotonic, ever=False)


def on_registered(monotonic: float) -> Pulse:
    return Pulse(NodeHealth.READY, monotonic, answers=1)


def on_answer(pulse: Pulse, monotonic: float) -> Pulse:
    sign = Sign.ANSWERED_AGAIN if pulse.answers else Sign.ANSWERED
    return Pulse(HEALTH.after(pulse.health, sign), monotonic, answers=pulse.answers + 1)


def on_failure(pulse: Pulse, failure: str) -> Pulse:
    """A poll met ``failure`` (a sentence). How long the silence lasts decides, not how often it was asked."""
    return replace(pulse, answers=0, failure=failure)


def on_time(pulse: Pulse, monotonic: float, limits: Limits) -> Pulse:
    """As time passes."""
    silent_s = monotonic - pulse.seen
    if silent_s < limits.suspect_after_s:
        return pulse
    after = HEALTH.after(pulse.health, Sign.LONG_SILENT if silent_s >= limits.down_after_s else Sign.SILENT)
    # Answers from before the silence don't speak for what comes after it.
    return pulse if after is pulse.health else replace(pulse, health=after, answers=0)


def forgive(pulse: Pulse, pause_s: float) -> Pulse:
    """This service itself stood still for ``pause_s`` (its machine slept): nobody was silent in that time."""
    return replace(pulse, seen=pulse.seen + pause_s)


def sentence(pulse: Pulse, monotonic: float, blocking: tuple[str, ...] = ()) -> str:
    """Why it is so, for a person; ``blocking`` are sentences of what keeps a live node from taking work."""
    if pulse.health is NodeHealth.READY:
        return " ".join(blocking)
    silent_s = max(0.0, monotonic - pulse.seen)
    if pulse.health is NodeHealth.DOWN and pulse.answers:
        return "It answers again; it is ready if it answers the next time too."
    since = f"for {_span(silent_s)}" if pulse.ever else f"since ResourceManager started {_span(silent_s)} ago"
    what = f"It has not answered {since}"
    what += f" ({pulse.failure.rstrip('.')})." if pulse.failure else "."
    return what + (" No new work is sent there." if pulse.health is NodeHealth.SUSPECT else " It counts as down.")


def _span(seconds: float) -> str:
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7_200:
        return f"{whole // 60} min"
    return f"{whole // 3_600} h"
