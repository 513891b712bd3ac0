"""Promised starts that come before those of tasks further ahead in the queue.

They were promised before those tasks came ahead, so the tasks wait longer than their positions suggest.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, islice

from headway.ids import TaskId

from ..model import Task
from ..order.policy import Key
from .bookings import Reservation
from .pass_model import Plan
from .reasons.explain import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class _Row:
    key: Key
    task_id: TaskId
    reservation: Reservation


class OvertakingPromises:
    """The promised starts of one plan. ``key_of`` gives the keys by which the planned queue is sorted."""

    def __init__(self, plan: Plan, key_of: Callable[[TaskId], Key | None]) -> None:
        self.plan = plan
        self._key_of = key_of
        keys = {task_id: key for task_id in plan.promised if (key := key_of(task_id)) is not None}
        rows = sorted((plan.promised[task_id].start_s, key, task_id) for task_id, key in keys.items())
        self._starts = [start_s for start_s, _, _ in rows]
        self._rows = [_Row(key, task_id, plan.promised[task_id]) for _, key, task_id in rows]
        # For each row the largest key up to there: the task furthest behind in the queue.
        self._last = list(accumulate((row.key for row in self._rows), max))

    def ahead_of(self, task: Task, cluster: ClusterSnapshot, *, since_at: float = -math.inf) -> list[TaskId]:
        """At most two tasks behind this one whose promised starts come before its own, the soonest first.

        Only starts count that are on nodes which this task could use, and that were promised before it came ahead.
        ``since_at`` is when the queue got its present order, in epoch seconds by the wall clock.
        """
        reservation, key = self.plan.reservations.get(task.id), self._key_of(task.id)
        if reservation is None or key is None:
            return []
        earlier = bisect_left(self._starts, reservation.start_s)
        if not earlier or self._last[earlier - 1] <= key:
            return []
        nodes, rows, came_at = (
            cluster.could_hold(task.shape),
            islice(self._rows, earlier),
            max(task.queued_at, since_at),
        )
        found = (
            row.task_id
            for row in rows
            if row.key > key
            and row.reservation.node_id in nodes
            and (row.reservation.first_promised_at or -math.inf) <= came_at
        )
        return list(islice(found, 2))
