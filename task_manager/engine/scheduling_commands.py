"""Another policy or discipline for the running queue, and when the state of a policy is stored."""

from __future__ import annotations

from dataclasses import replace

from headway.logs import get_logger

from .events import SetScheduling
from .scheduling_choice import DEFAULT, DISCIPLINE, POLICY, AdminChoice, SchedulingChoice
from .turn import Turn

log = get_logger(__name__)

_SAVED_EVERY_S = 60.0
_TASKS_PER_INTERVAL = 1_000  # a long queue makes long states, so they are saved less often


def on_set_scheduling(turn: Turn, steering: SchedulingChoice, event: SetScheduling) -> None:
    """Another policy or discipline from this turn on.

    Raises:
        InvalidInput: there is no such one; nothing has changed.
    """
    asked = None if event.policy is None else event.policy.strip()
    named = None if event.discipline is None else event.discipline.strip()
    policy = steering.make(asked) if asked is not None else None
    discipline = steering.discipline(named) if named is not None else None
    for name, value in ((POLICY, asked), (DISCIPLINE, named)):
        if value is not None:
            turn.chosen[name] = None if value == DEFAULT else AdminChoice(value, event.by, turn.now)
    if policy is not None:
        save_policy_state(turn, steering)  # of the one that goes
        if policy is not turn.book.policy:
            steering.restore(policy)
            turn.book.change_policy(policy)
    if discipline is not None:
        turn.settings = replace(turn.settings, discipline=discipline)
    turn.book.pass_needed = True
    log.warning("scheduling.set", policy=asked, discipline=named, by=event.by)


def save_policy_state(turn: Turn, steering: SchedulingChoice) -> None:
    """Stores what the acting policy has learnt, if that is anything new."""
    steering.saved_s = turn.book.mono
    text = steering.learnt(turn.book.policy)
    if text:
        turn.states[turn.book.policy.name] = text


def save_policy_state_if_due(turn: Turn, steering: SchedulingChoice) -> None:
    """As ``save_policy_state``, now and then."""
    every_s = _SAVED_EVERY_S * (1 + len(turn.book.queue) // _TASKS_PER_INTERVAL)
    if turn.book.mono - steering.saved_s >= every_s:
        save_policy_state(turn, steering)
