"""Which policy and discipline are in use, who chose them, and what policies have learnt.

The configuration chooses at first. An admin may choose another one for the running queue. That choice is stored and
counts until it is taken back. Waiting tasks stay in the queue and get the new order. Promised starts stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from headway.errors import InvalidInput
from headway.logs import get_logger

from ..order import policy_registry
from ..order.guard import message_of, reraise_ctrl_c
from ..order.policy import Policy
from ..planning.pass_model import Discipline
from ..settings import TaskManagerSettings

log = get_logger(__name__)

POLICY, DISCIPLINE = "policy", "discipline"
DEFAULT = "default"  # as configured


@dataclass(frozen=True, slots=True)
class AdminChoice:
    """What an admin set."""

    value: str
    by: str
    at: float  # wall clock


@dataclass(slots=True)
class SchedulingChoice:
    """What is in use since the last commit. The engine has one object, and changes it only between turns."""

    configured: TaskManagerSettings
    configured_policy: Policy
    admin_choices: dict[str, AdminChoice] = field(default_factory=dict)
    policy_states: dict[str, str] = field(default_factory=dict)  # of policies by name, as stored
    settings: TaskManagerSettings = field(init=False)
    policy: Policy = field(init=False)
    growth_failure: Callable[[], str] = lambda: ""  # why the hook for growth failed last
    problem: str = ""  # why what an admin set can't be used
    saved_s: float = 0.0  # boot clock

    def __post_init__(self) -> None:
        self.settings, self.policy = self.configured, self.configured_policy

    def load(self, chosen: Mapping[str, AdminChoice], states: Mapping[str, str]) -> None:
        """Takes over what is stored. If that policy can't be loaded any more, the configured one is used."""
        was = self.admin_choices.get(POLICY)
        self.admin_choices, self.policy_states = dict(chosen), dict(states)
        there = self.admin_choices.get(POLICY)
        if there != was:
            self.policy, self.problem = self.configured_policy, ""
            if there is not None:
                try:
                    self.policy = self.make(there.value)
                except InvalidInput as error:
                    why = error.message.rstrip(".")
                    self.problem = f"{there.value} can't be had ({why}); {self.configured_text} orders the queue"
                    log.error("policy.unusable", reason=self.problem, instead=self.policy.name)
        named = self.admin_choices.get(DISCIPLINE)
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
            return policy_registry.by_name(text, self.configured.policy_defaults)
        except ValueError as error:
            raise InvalidInput(str(error)) from error

    @property
    def configured_text(self) -> str:
        """The configured policy with its parameters, as the configuration has it."""
        return self.configured.policy.strip() or self.configured_policy.name

    @property
    def policy_text(self) -> str:
        """The policy in use with its parameters, as it was asked for."""
        return self.configured_text if self.problem else self.asked_text

    @property
    def asked_text(self) -> str:
        """What an admin set, even if it can't be loaded; else what is configured."""
        there = self.admin_choices.get(POLICY)
        return self.configured_text if there is None else there.value

    def commit(
        self,
        settings: TaskManagerSettings,
        policy: Policy,
        chosen: Mapping[str, AdminChoice | None],
        states: Mapping[str, str],
    ) -> None:
        """A turn is on disk: these settings and this policy are in use, and these choices and states are stored."""
        self.settings, self.policy = settings, policy
        if POLICY in chosen:
            self.problem = ""
        for name, choice in chosen.items():
            if choice is None:
                self.admin_choices.pop(name, None)
            else:
                self.admin_choices[name] = choice
        self.policy_states.update(states)

    def restore(self, policy: Policy) -> None:
        """Gives a policy its stored state back; without one it starts to learn anew."""
        text = self.policy_states.get(policy.name)
        if text is None:
            return
        try:
            policy.restore(json.loads(text))
        except BaseException as error:  # a policy of another version may not be able to read it
            reraise_ctrl_c(error)
            log.warning("policy.state_not_restored", policy=policy.name, reason=message_of(error))

    def learnt(self, policy: Policy) -> str:
        """What a policy has learnt, as text; empty where that is nothing new since the last time."""
        try:
            state = policy.state()
            text = json.dumps(state, allow_nan=False) if state else ""
        except BaseException as error:
            reraise_ctrl_c(error)
            log.warning("policy.state_not_saved", policy=policy.name, reason=message_of(error))
            return ""
        return text if text != self.policy_states.get(policy.name) else ""

    def discipline(self, text: str) -> Discipline:
        """The discipline of this name.

        Raises:
            InvalidInput: there is none.
        """
        if text == DEFAULT:
            return self.configured.discipline
        try:
            return Discipline(text)
        except ValueError:
            known = ", ".join(Discipline)
            raise InvalidInput(f"There is no overtaking rule {text!r}; there are {known}, and {DEFAULT}.") from None
