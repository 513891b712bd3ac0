"""The runnable tasks that may start, in order: those of shapes that have no room and those that a limit keeps from a
start are passed over, however many they are."""

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

_IN_A_ROW = 16  # so many tasks of a lane that a limit holds are looked at; then only those that are short enough
_SLACK_S = 1e-5  # sums of the same seconds may differ by less


@dataclass(slots=True)
class _Row:
    """What is left of a lane. ``shape``: None: of those that have a place, of whatever shape."""

    shape: Shape | None
    group: LimitGroup
    keys: Iterator[Key]
    limited: int = 0  # in a row
    most_s: float = math.inf  # what takes longer is not among the keys any more


class Candidates:
    """Of one pass: ``placements``, ``reservations`` and ``stored`` that are still to be looked at are as they are at
    that moment. Notes in ``waits`` whom a limit holds, and in ``no_room`` (by id) shapes that fit nowhere."""

    def __init__(
        self,
        inp: PassInput,
        timelines: NodeTimelines,
        placements: Mapping[TaskId, Placement],
        reservations: Mapping[TaskId, Reservation],
        stored: Mapping[TaskId, Reservation],
        waits: dict[TaskId, Wait],
        no_room: dict[int, Shape],
    ) -> None:
        self._inp = inp
        self._timelines = timelines
        self._placements = placements
        self._reservations = reservations
        self._stored = stored
        self._waits = waits
        self._no_room = no_room
        settings = inp.settings
        inp.queue.set_duration(settings.duration_s, (settings.start_limit_s, settings.stop_limit_s))

    def behind(self, after: Key | None, *, all_shapes: bool = False) -> Iterator[Task]:
        """Those behind ``after``; None: all. With ``all_shapes`` also those that no node has room for at that moment.

        A task with a place is among them whatever limits say, since its own place counts against them.
        """
        timelines, tasks, limits = self._timelines, self._inp.tasks, self._inp.settings.limits.may_hold_tasks
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
        queue, timelines = self._inp.queue, self._timelines
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
        """Whether a limit keeps it from a start now. Then it does so for all of its lane that take as long or longer:
        of these only the first are looked at."""
        limited = self._timelines.limit_on(task, self._inp.settings.duration_s(task))
        if limited is None:
            row.limited = 0
            return False
        self._waits[task.id] = limited.wait
        row.limited += 1
        if limited.most_s <= 0:
            row.keys = iter(())
        elif row.limited >= _IN_A_ROW and limited.most_s < row.most_s and row.shape is not None:
            row.limited, row.most_s = 0, limited.most_s
            row.keys = self._inp.queue.shorter_than(row.shape, row.group, limited.most_s + _SLACK_S, key)
        return True
