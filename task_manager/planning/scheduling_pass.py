"""One scheduling pass: a snapshot and one ``now`` go in, a plan comes out. Nothing else happens here."""

from __future__ import annotations

from ..model import Task
from ..order.queue import TaskQueue
from .disciplines import Walk, rough
from .pass_model import Discipline, Dropped, Estimate, PassInput, PassSettings, Placement, Plan, Rough, Wait, Why

__all__ = [
    "Discipline",
    "Dropped",
    "Estimate",
    "PassInput",
    "PassSettings",
    "Placement",
    "Plan",
    "Rough",
    "Wait",
    "Why",
    "is_out_of_reach",
    "plan",
    "rough",
    "starts_nothing",
]


def plan(inp: PassInput) -> Plan:
    """What starts now, and what is kept for whom.

    Of the snapshot only the queue's own order is touched: a rule that re-sorts is sorted to this moment.
    """
    inp.queue.sort(inp.steady_s, inp.view)
    return Walk(inp).run()


def is_out_of_reach(said: Plan | None, queue: TaskQueue, task: Task) -> bool:
    """Whether a pass that sees one runnable task more than the last one did says the same: nothing has come free since,
    the task is behind all that have a reservation, and there was no room for its shape."""
    if said is None or said.behind is None or not starts_nothing(said, queue, task):
        return False
    key = queue.key_of(task.id)
    return key is not None and key > said.behind


def starts_nothing(said: Plan | None, queue: TaskQueue, task: Task) -> bool:
    """Whether a pass that sees one runnable task more than the last one did starts nothing: no node has room for its
    shape. Where that is all that has happened since, it may come with those that arrive next; a queue that is shorter
    than the tasks with a reservation is quick to look at and is looked at always."""
    if said is None or said.behind is None or queue.failure or not queue.policy.static:
        return False
    return task.shape in said.no_room
