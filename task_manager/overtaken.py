"""Promised starts that stand before tasks which came ahead in the queue later: why these wait longer than their place
in it tells."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate, islice

from headway.ids import TaskId

from .explain import Sight
from .model import Task
from .passes import Plan
from .policy import Key


class Overtaken:
    """Of one plan. ``key_of``: the keys by which the queue that was planned is sorted."""

    def __init__(self, plan: Plan, key_of: Callable[[TaskId], Key | None]) -> None:
        self.plan = plan
        self._key_of = key_of
        keys = {task_id: key for task_id in plan.places if (key := key_of(task_id)) is not None}
        rows = sorted((plan.places[task_id].start_s, key, task_id) for task_id, key in keys.items())
        self._starts = [start_s for start_s, _, _ in rows]
        self._rows = [(key, task_id, plan.places[task_id].node_id) for _, key, task_id in rows]
        self._last = list(accumulate((key for _, key, _ in rows), max))  # of those up to here the one furthest behind

    def by(self, task: Task, sight: Sight) -> list[TaskId]:
        """Tasks behind this one whose promised starts come before its own, on nodes that it could use itself: the
        soonest, and another one if there are more."""
        place, key = self.plan.reservations.get(task.id), self._key_of(task.id)
        if place is None or key is None:
            return []
        earlier = bisect_left(self._starts, place.start_s)
        if not earlier or self._last[earlier - 1] <= key:
            return []
        nodes, rows = sight.could_hold(task.shape), islice(self._rows, earlier)
        return list(islice((other for their, other, node_id in rows if their > key and node_id in nodes), 2))
