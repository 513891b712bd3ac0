"""One scheduling pass: a snapshot and one ``now`` go in, a plan comes out. Nothing else happens here."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from headway.ids import NodeId, TaskId

from .admission import Limits
from .model import Shape, Task
from .placement import Choice, CpuTasks, Room, choose
from .places import Booking, Place
from .policy import Key, Policy, View
from .queue import TaskQueue, id_of


class Discipline(StrEnum):
    """How waiting tasks that do not fit now bind those behind them."""

    CONSERVATIVE = "conservative"  # each of the first has a reservation that nobody may delay
    EASY = "easy"  # only the first has one
    GREEDY = "greedy"  # nobody has one: all that fits starts
    STRICT = "strict"  # nobody overtakes


@dataclass(frozen=True, slots=True)
class PassSettings:
    """What a pass depends on besides the snapshot; times in seconds."""

    discipline: Discipline = Discipline.CONSERVATIVE
    reserved: int = 200  # so many tasks have a reservation (`conservative`)
    filled: int = 1_000  # so many behind them are tried
    promised: int = 200  # at most so many promises at a time
    start_limit_s: float = 0.0  # the platform's: from placement to the user's process
    stop_limit_s: float = 0.0  # the platform's: from the timeout until the GPUs are free
    limits: Limits = field(default_factory=Limits)
    cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT


@dataclass(frozen=True, slots=True)
class PassInput:
    """The snapshot. A pass changes nothing of it.

    ``now_s`` is the pass's clock (live: the boot clock), by which bookings and places are; ``wall_s`` is the clock
    of submissions and keys. In a simulation they are equal.
    """

    now_s: float
    wall_s: float
    queue: TaskQueue
    tasks: Mapping[TaskId, Task]
    rooms: Sequence[Room]  # what is left of every node now, and why some take nothing
    running: Sequence[Booking]
    places: Mapping[TaskId, Place]  # what the pass before said
    policy: Policy
    view: View
    settings: PassSettings = field(default_factory=PassSettings)
    last_used: Callable[[str], float] = lambda uuid: 0.0


@dataclass(frozen=True, slots=True)
class Placement:
    """One task starts there."""

    task_id: TaskId
    node_id: NodeId
    gpu_uuids: tuple[str, ...]


class Why(StrEnum):
    """Why a task that was looked at does not start now."""

    NO_NODE = "no_node"  # no open node could hold it even when empty
    NO_ROOM = "no_room"  # too little is free
    RESERVED = "reserved"  # what is free is kept for a task ahead, or for one with a promise
    BEHIND = "behind"  # `strict`: the task ahead goes first
    USER_LIMIT = "user_limit"  # its account holds as many GPUs as it may
    SHORT_RESERVE = "short_reserve"  # the rest is kept for short tasks


@dataclass(frozen=True, slots=True)
class Wait:
    """One task's reason. ``blocker``: for whom it is kept, or who goes first."""

    why: Why
    node_id: NodeId | None = None  # where it comes nearest
    blocker: TaskId | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """When a task probably starts, by the pass's clock; ``rough`` without a reservation behind it."""

    start_s: float
    rough: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    """A promise that was lost, and why, in words. ``promised_s``: what it was; ``now_s``: what it is now, if any."""

    task_id: TaskId
    cause: str
    promised_s: float
    now_s: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pass decided. Shapes in ``no_room`` had tasks that fit nowhere; why is told by ``explain``."""

    placements: tuple[Placement, ...]
    no_room: frozenset[Shape]
    places: Mapping[TaskId, Place] = field(default_factory=dict)  # all that are stored from now on: the promised ones
    reservations: Mapping[TaskId, Place] = field(default_factory=dict)  # these, and those made afresh at each pass
    estimates: Mapping[TaskId, Estimate] = field(default_factory=dict)
    waits: Mapping[TaskId, Wait] = field(default_factory=dict)  # of those looked at
    dropped: tuple[Dropped, ...] = ()
    next_wake_s: float | None = None  # a pass is due then, by the pass's clock, if no event brings one before
    policy_failed: str = ""  # the policy raised or gave no number: `aging_sjf` stood in, and this says why


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
