"""The runnable tasks that may start now, in the order of the queue.

Tasks are skipped if no node has room for their shape or if a limit keeps them from a start. Skipping many is quick.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headway.ids import TaskId

from ..model import Shape, Task
from ..order.policy import Key
from ..order.queue import LimitGroup, task_id_of
from .bookings import Reservation
from .node_timelines import NodeTimelines
from .pass_model import PassInput, Placement, Wait

_IN_A_ROW = 16  # once a limit has held so many tasks of a group in a row, only shorter ones are looked at
_SLACK_S = 1e-5  # more than the rounding error of a sum of seconds


@dataclass(slots=True)
class _Row:
    """The keys of a group that are still to be looked at. ``shape`` None: of all tasks with a stored reservation."""

    shape: Shape | None
    group: LimitGroup
    keys: Iterator[Key]
    limited: int = 0  # how many in a row a limit has held
    most_s: float = math.inf  # the keys of longer tasks have been left out


class Candidates:
    """The candidates of one pass.

    ``placements``, ``reservations`` and ``stored`` belong to the pass and change while the candidates are looked at.
    ``stored`` are the stored reservations that are still to be looked at. The candidates note in ``waits`` which tasks
    a limit holds, and in ``no_room`` (by id) which shapes fit nowhere.
    """

    def __init__(
        self,
        snapshot: PassInput,
        timelines: NodeTimelines,
        placements: Mapping[TaskId, Placement],
        reservations: Mapping[TaskId, Reservation],
        stored: Mapping[TaskId, Reservation],
        waits: dict[TaskId, Wait],
        no_room: dict[int, Shape],
    ) -> None:
        self._snapshot = snapshot
        self._timelines = timelines
        self._placements = placements
        self._reservations = reservations
        self._stored = stored
        self._waits = waits
        self._no_room = no_room
        settings = snapshot.settings
        snapshot.queue.set_duration(settings.duration_s, (settings.start_limit_s, settings.stop_limit_s))

    def behind(self, after: Key | None, *, all_shapes: bool = False) -> Iterator[Task]:
        """The candidates behind the key ``after``; None: all of them.

        With ``all_shapes``, tasks that no node has room for now are among them. Tasks with a stored reservation are
        among them whatever limits say, since their own reservations count against the limits.
        """
        timelines, tasks, limits = self._timelines, self._snapshot.tasks, self._snapshot.settings.limits.may_hold_tasks
        rows = list(self._rows(after, all_shapes))
        heads = [(key, number) for number, row in enumerate(rows) if (key := next(row.keys, None)) is not None]
        heapq.heapify(heads)
        while heads:
            key, number = heads[0]
            row, task_id = rows[number], task_id_of(key)
            if row.shape is not None and not all_shapes and not timelines.fits_now(row.shape):
                self._no_room[id(row.shape)] = row.shape
                heapq.heappop(heads)
                continue
            if task_id in self._placements or task_id in self._reservations:
                pass
            elif row.shape is None:
                if task_id in self._stored:
                    yield tasks[task_id]
            elif task_id not in self._stored and not (limits and self._is_limited(row, key, tasks[task_id])):
                yield tasks[task_id]
            following = next(row.keys, None)
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (following, number))

    def _rows(self, after: Key | None, all_shapes: bool) -> Iterator[_Row]:
        queue, timelines = self._snapshot.queue, self._timelines
        with_place = [key for task_id in self._stored if (key := queue.key_of(task_id)) is not None]
        if with_place:
            yield _Row(None, ("", 0), iter(sorted(key for key in with_place if after is None or key > after)))
        most_gpus = max((len(node.free_cards) for node in timelines.nodes.values()), default=-1)
        for shape, groups in queue.ready_by_shape.items():
            if not all_shapes and (shape.gpus > most_gpus or not timelines.fits_now(shape)):
                self._no_room[id(shape)] = shape
                continue
            for group, group_keys in groups.items():
                yield _Row(
                    shape,
                    group,
                    iter(group_keys) if after is None else group_keys.irange(after, inclusive=(False, True)),
                )

    def _is_limited(self, row: _Row, key: Key, task: Task) -> bool:
        """Whether a limit keeps the task from a start now.

        Then it keeps all tasks of its group back that take as long or longer. Only the first of them are looked at.
        """
        limited = self._timelines.limit_on(task, self._snapshot.settings.duration_s(task))
        if limited is None:
            row.limited = 0
            return False
        self._waits[task.id] = limited.wait
        row.limited += 1
        if limited.most_s <= 0:
            row.keys = iter(())
        elif row.limited >= _IN_A_ROW and limited.most_s < row.most_s and row.shape is not None:
            row.limited, row.most_s = 0, limited.most_s
            row.keys = self._snapshot.queue.shorter_than(row.shape, row.group, limited.most_s + _SLACK_S, key)
        return True
