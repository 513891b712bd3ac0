"""One scheduling pass: a snapshot and one ``now`` go in, a plan comes out. Nothing else happens here."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headway.ids import NodeId, TaskId

from .backfill import Walk
from .model import Shape
from .passes import (
    Discipline,
    Dropped,
    Estimate,
    PassInput,
    PassSettings,
    Placement,
    Plan,
    Rough,
    Wait,
    Why,
)
from .placement import Choice, CpuTasks, Room, choose
from .policy import Key
from .queue import id_of

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
    "plan",
    "plan_greedy",
]


def plan(inp: PassInput) -> Plan:
    """What starts now, and what is kept for whom.

    Of the snapshot only the queue's own order is touched: a rule that re-sorts is sorted to this moment.
    """
    inp.queue.sort(inp.wall_s, inp.view)
    return Walk(inp).run()


def plan_greedy(
    runnable: Mapping[Shape, Iterable[Key]],
    rooms: Sequence[Room],
    *,
    avoid: Callable[[TaskId], Collection[NodeId]] = lambda task_id: (),
    cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT,
    last_used: Callable[[str], float] = lambda uuid: 0.0,
    limit: int = 1_000_000,
) -> Plan:
    """The ``greedy`` discipline: in key order, every task that fits now starts.

    ``runnable`` holds, for each shape, its tasks in key order; ``rooms`` are taken from as tasks are placed. A task
    that does not fit hides nobody behind it, and ends the search for its shape alone, so a pass costs as much as
    there are starts and shapes, however long the queue is. At most ``limit`` tasks start.
    """
    placements: list[Placement] = []
    no_room: set[Shape] = set()
    open_rooms = [room for room in rooms if not room.closed]
    limits = _Envelope(open_rooms)
    heads: list[tuple[Key, int]] = []
    shelves: list[_Shelf] = []
    for shape, keys in runnable.items():
        if not limits.may_fit(shape):
            no_room.add(shape)
            continue
        rest = iter(keys)
        key = next(rest)
        heads.append((key, len(shelves)))
        shelves.append(_Shelf(shape, rest, id_of(key)))
    heapq.heapify(heads)
    while heads and len(placements) < limit:
        _key, number = heads[0]
        shelf = shelves[number]
        shape = shelf.shape
        choice: Choice | None = None
        if limits.may_fit(shape):
            choice = choose(shape, open_rooms, avoid=avoid(shelf.task_id), cpu_tasks=cpu_tasks, last_used=last_used)
        if choice is None:
            no_room.add(shape)
            heapq.heappop(heads)
            continue
        placements.append(Placement(shelf.task_id, choice.node_id, choice.gpu_uuids))
        room = next(room for room in open_rooms if room.node.id == choice.node_id)
        room.take(shape, choice.gpu_uuids)
        limits.refresh()
        following = next(shelf.rest, None)
        if following is None:
            heapq.heappop(heads)
        else:
            shelf.task_id = id_of(following)
            heapq.heapreplace(heads, (following, number))
    return Plan(tuple(placements), frozenset(no_room))


@dataclass(slots=True)
class _Shelf:
    """The tasks of one shape that are still to be tried, the first of them taken out."""

    shape: Shape
    rest: Iterator[Key]
    task_id: TaskId


class _Envelope:
    """The most that any one node has left of each kind: rules most shapes out in one comparison."""

    def __init__(self, rooms: Sequence[Room]) -> None:
        self._rooms = rooms
        self.refresh()

    def refresh(self) -> None:
        self._cpu = max((room.cpu_centi for room in self._rooms), default=-1)
        self._memory = max((room.memory_bytes for room in self._rooms), default=-1)
        self._gpus = max((len(room.gpus) for room in self._rooms), default=-1)

    def may_fit(self, shape: Shape) -> bool:
        return shape.cpu_centi <= self._cpu and shape.memory_bytes <= self._memory and shape.gpus <= self._gpus
