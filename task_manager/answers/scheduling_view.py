"""Which policy and discipline order the queue, as pages show it."""

from __future__ import annotations

import math
from itertools import islice

from headway.rpc.v1 import task_manager_pb2 as pb

from ..engine.scheduling_choice import DISCIPLINE, POLICY, SchedulingChoice
from ..engine.state import EngineState
from ..model import Task
from ..order.guard import reraise_ctrl_c
from ..order.policy import common_terms
from ..planning.limit_checks import contradictions

_TERMS = 20  # shown of one task


def scheduling(state: EngineState, scheduling_choice: SchedulingChoice) -> pb.Scheduling:
    """What is in use, who chose it, and what is wrong with it."""
    configured = scheduling_choice.configured
    reply = pb.Scheduling(
        policy=scheduling_choice.asked_text,
        discipline=scheduling_choice.settings.discipline.value,
        configured_policy=scheduling_choice.configured_text,
        configured_discipline=configured.discipline.value,
        failure=scheduling_choice.problem,
        contradictions=contradictions(scheduling_choice.settings.limits, state.gpus),
        promises=scheduling_choice.settings.promises.value,
        promised=sum(place.promised_s is not None for place in state.reservations.values()),
        slack_s=_slack_s(state),
        growth_failure=scheduling_choice.growth_failure(),
    )
    if state.queue.failure:
        fails = f"{state.queue.failure}; aging_sjf orders the queue until it works again"
        reply.failure = "; ".join(filter(None, (scheduling_choice.problem, fails)))
    policy, discipline = scheduling_choice.admin_choices.get(POLICY), scheduling_choice.admin_choices.get(DISCIPLINE)
    if policy is not None:
        reply.policy_set_by, reply.policy_set_at = policy.by, policy.at
    if discipline is not None:
        reply.discipline_set_by, reply.discipline_set_at = discipline.by, discipline.at
    return reply


def _slack_s(state: EngineState) -> float:
    """By how much the promised starts are later than estimated, on average."""
    estimates = {} if state.plan is None else state.plan.estimates
    slacks = [
        max(0.0, place.promised_s - estimates[task_id].start_s)
        for task_id, place in state.reservations.items()
        if place.promised_s is not None and task_id in estimates
    ]
    return math.fsum(slacks) / len(slacks) if slacks else 0.0


def terms(state: EngineState, task: Task, steady: float) -> dict[str, float]:
    """The terms of a task's priority under the policy in use. If a third-party policy fails, the common terms."""
    try:
        parts = islice(state.queue.effective_policy.terms(task, steady).items(), _TERMS)
        shown = [(str(name), float(value)) for name, value in parts]
    except BaseException as error:
        reraise_ctrl_c(error)
        return common_terms(task, steady)
    return {name: value for name, value in shown if math.isfinite(value) and name.isprintable()}
