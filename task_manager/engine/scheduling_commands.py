"""Sets another policy or discipline for the running queue, and stores the state of the policy from time to time."""

from __future__ import annotations

from dataclasses import replace

from headway.logs import get_logger

from .events import SetScheduling
from .scheduling_choice import DEFAULT, DISCIPLINE, POLICY, AdminChoice, SchedulingChoice
from .turn import Turn

log = get_logger(__name__)

_SAVED_EVERY_S = 60.0
_TASKS_PER_INTERVAL = 1_000  # a long queue makes large states, so they are saved less often


def on_set_scheduling(turn: Turn, scheduling_choice: SchedulingChoice, event: SetScheduling) -> None:
    """Sets another policy or discipline from this turn on.

    Raises:
        InvalidInput: it does not exist; nothing has changed.
    """
    asked = None if event.policy is None else event.policy.strip()
    named = None if event.discipline is None else event.discipline.strip()
    policy = scheduling_choice.make(asked) if asked is not None else None
    discipline = scheduling_choice.discipline(named) if named is not None else None
    for name, value in ((POLICY, asked), (DISCIPLINE, named)):
        if value is not None:
            turn.admin_choices[name] = None if value == DEFAULT else AdminChoice(value, event.by, turn.now)
    if policy is not None:
        save_policy_state(turn, scheduling_choice)  # of the old policy
        if policy is not turn.state.policy:
            scheduling_choice.restore(policy)
            turn.state.change_policy(policy)
    if discipline is not None:
        turn.settings = replace(turn.settings, discipline=discipline)
    turn.state.pass_needed = True
    log.warning("scheduling.set", policy=asked, discipline=named, by=event.by)


def save_policy_state(turn: Turn, scheduling_choice: SchedulingChoice) -> None:
    """Stores what the acting policy has learnt, if that is anything new."""
    scheduling_choice.saved_s = turn.state.mono
    text = scheduling_choice.learnt(turn.state.policy)
    if text:
        turn.policy_states[turn.state.policy.name] = text


def save_policy_state_if_due(turn: Turn, scheduling_choice: SchedulingChoice) -> None:
    """As ``save_policy_state``, if enough time has passed."""
    every_s = _SAVED_EVERY_S * (1 + len(turn.state.queue) // _TASKS_PER_INTERVAL)
    if turn.state.mono - scheduling_choice.saved_s >= every_s:
        save_policy_state(turn, scheduling_choice)
