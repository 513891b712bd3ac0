"""What orders the queue, for pages and people."""

from __future__ import annotations

import math
from itertools import islice

from headway.rpc.v1 import task_manager_pb2 as pb

from ..engine.scheduling_choice import DISCIPLINE, POLICY, Steering
from ..engine.state import Book
from ..model import Task
from ..order.guard import reraise_ctrl_c
from ..order.policy import common_terms
from ..planning.admission import contradictions

_TERMS = 20  # shown of one task


def scheduling(book: Book, steering: Steering) -> pb.Scheduling:
    """What acts, who said so, and what is wrong with it."""
    configured = steering.configured
    said = pb.Scheduling(
        policy=steering.asked_text,
        discipline=steering.settings.discipline.value,
        configured_policy=steering.configured_text,
        configured_discipline=configured.discipline.value,
        failure=steering.problem,
        contradictions=contradictions(steering.settings.limits, book.gpus),
    )
    if book.queue.failure:
        fails = f"{book.queue.failure}; aging_sjf orders the queue until it works again"
        said.failure = "; ".join(filter(None, (steering.problem, fails)))
    policy, discipline = steering.chosen.get(POLICY), steering.chosen.get(DISCIPLINE)
    if policy is not None:
        said.policy_set_by, said.policy_set_at = policy.by, policy.at
    if discipline is not None:
        said.discipline_set_by, said.discipline_set_at = discipline.by, discipline.at
    return said


def terms(book: Book, task: Task, steady: float) -> dict[str, float]:
    """The parts of a task's priority by the rule that orders now; a third party's rule may fail at it."""
    try:
        parts = islice(book.queue.effective_policy.terms(task, steady).items(), _TERMS)
        said = [(str(name), float(value)) for name, value in parts]
    except BaseException as error:
        reraise_ctrl_c(error)
        return common_terms(task, steady)
    return {name: value for name, value in said if math.isfinite(value) and name.isprintable()}
