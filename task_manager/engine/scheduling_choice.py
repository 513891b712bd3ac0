"""Which policy and discipline act, who said so, and what policies have learnt.

The configuration says what acts at first; an admin may say otherwise on the running queue, which is stored and counts
until it is taken back. Tasks keep their places in line with the new rule, and promises that were given stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headway.errors import InvalidInput
from headway.logs import get_logger

from ..order import policies
from ..order.guard import message_of, reraise_ctrl_c
from ..order.policy import Policy
from ..planning.pass_model import Discipline
from ..settings import Settings

if TYPE_CHECKING:
    from .events import SetScheduling
    from .turn import Turn

log = get_logger(__name__)

POLICY, DISCIPLINE = "policy", "discipline"
DEFAULT = "default"  # as configured
_SAVED_EVERY_S = 60.0
_TASKS_PER_INTERVAL = 1_000  # a long queue makes long states, so they are saved less often


@dataclass(frozen=True, slots=True)
class Chosen:
    """What an admin set."""

    value: str
    by: str
    at: float  # wall clock


@dataclass(slots=True)
class Steering:
    """What acts now, as of the last commit; one object of the engine, changed between turns only."""

    configured: Settings
    configured_policy: Policy
    chosen: dict[str, Chosen] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)  # of policies by name, as stored
    settings: Settings = field(init=False)
    policy: Policy = field(init=False)
    problem: str = ""  # why what an admin set can't act
    saved_s: float = 0.0  # boot clock

    def __post_init__(self) -> None:
        self.settings, self.policy = self.configured, self.configured_policy

    def load(self, chosen: Mapping[str, Chosen], states: Mapping[str, str]) -> None:
        """Takes over what is stored. A policy that can't be had any more leaves the queue to the configured one."""
        was = self.chosen.get(POLICY)
        self.chosen, self.states = dict(chosen), dict(states)
        there = self.chosen.get(POLICY)
        if there != was:
            self.policy, self.problem = self.configured_policy, ""
            if there is not None:
                try:
                    self.policy = self.make(there.value)
                except InvalidInput as error:
                    why = error.message.rstrip(".")
                    self.problem = f"{there.value} can't be had ({why}); {self.configured_text} orders the queue"
                    log.error("policy.unusable", reason=self.problem, instead=self.policy.name)
        named = self.chosen.get(DISCIPLINE)
        discipline = Discipline(named.value) if named is not None else self.configured.discipline
        self.settings = replace(self.configured, discipline=discipline)

    def make(self, text: str) -> Policy:
        """The policy of this name and parameters.

        Raises:
            InvalidInput: there is none, or not with these.
        """
        if text == DEFAULT:
            return self.configured_policy
        try:
            return policies.by_name(text, self.configured.policy_defaults)
        except ValueError as error:
            raise InvalidInput(str(error)) from error

    @property
    def configured_text(self) -> str:
        """The configured policy with its parameters, as the configuration has it."""
        return self.configured.policy.strip() or self.configured_policy.name

    @property
    def policy_text(self) -> str:
        """What acts, with its parameters, as it was asked for."""
        return self.configured_text if self.problem else self.asked_text

    @property
    def asked_text(self) -> str:
        """What an admin set, though it may not be had, else what is configured."""
        there = self.chosen.get(POLICY)
        return self.configured_text if there is None else there.value

    def took(self, turn: Turn) -> None:
        """The turn is on disk."""
        self.settings = turn.settings
        if POLICY in turn.chosen:
            self.problem = ""
        for name, chosen in turn.chosen.items():
            if chosen is None:
                self.chosen.pop(name, None)
            else:
                self.chosen[name] = chosen
        self.policy = turn.book.policy
        self.states.update(turn.states)

    def restore(self, policy: Policy) -> None:
        """Gives a policy back what it had learnt; without it, it learns anew."""
        text = self.states.get(policy.name)
        if text is None:
            return
        try:
            policy.restore(json.loads(text))
        except BaseException as error:  # also what one of another version can't read
            reraise_ctrl_c(error)
            log.warning("policy.state_not_restored", policy=policy.name, reason=message_of(error))

    def save(self, turn: Turn) -> None:
        """Puts down what the acting policy has learnt, if it has learnt anything since the last time."""
        self.saved_s = turn.book.mono
        policy = turn.book.policy
        try:
            state = policy.state()
            text = json.dumps(state, allow_nan=False) if state else ""
        except BaseException as error:
            reraise_ctrl_c(error)
            log.warning("policy.state_not_saved", policy=policy.name, reason=message_of(error))
            return
        if text and text != self.states.get(policy.name):
            turn.states[policy.name] = text

    def save_now_and_then(self, turn: Turn) -> None:
        """As ``save``, when it is time."""
        every_s = _SAVED_EVERY_S * (1 + len(turn.book.queue) // _TASKS_PER_INTERVAL)
        if turn.book.mono - self.saved_s >= every_s:
            self.save(turn)


def on_set(turn: Turn, steering: Steering, event: SetScheduling) -> None:
    """Another policy or discipline from this turn on.

    Raises:
        InvalidInput: there is no such one; nothing has changed.
    """
    asked = None if event.policy is None else event.policy.strip()
    named = None if event.discipline is None else event.discipline.strip()
    policy = steering.make(asked) if asked is not None else None
    discipline = _discipline(steering, named) if named is not None else None
    for name, value in ((POLICY, asked), (DISCIPLINE, named)):
        if value is not None:
            turn.chosen[name] = None if value == DEFAULT else Chosen(value, event.by, turn.now)
    if policy is not None:
        steering.save(turn)  # of the one that goes
        if policy is not turn.book.policy:
            steering.restore(policy)
            turn.book.change_policy(policy)
    if discipline is not None:
        turn.settings = replace(turn.settings, discipline=discipline)
    turn.book.pass_needed = True
    log.warning("scheduling.set", policy=asked, discipline=named, by=event.by)


def _discipline(steering: Steering, text: str) -> Discipline:
    if text == DEFAULT:
        return steering.configured.discipline
    try:
        return Discipline(text)
    except ValueError:
        known = ", ".join(Discipline)
        raise InvalidInput(f"There is no discipline {text!r}; there are {known}, and {DEFAULT}.") from None
