"""A frame: what one pass saw and decided, small enough to be stored. A replay of it makes the identical plan.

A frame holds only the tasks that the pass looked at. The others decided nothing: a pass goes through the queue in the
order of the keys and stops by counting. Without them, it takes the very same steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from headway.ids import NodeId, TaskId

from ..model import Node, Task
from ..order.policy import ClusterView, Key, Policy, View, sort_key
from ..order.queue import TaskQueue
from ..planning import promises
from ..planning.bookings import Booking, Reservation
from ..planning.changes import Change
from ..planning.pass_model import PassInput, PassSettings, Placement, Plan, Wait
from ..planning.placement import FreeResources
from ..planning.scheduling_pass import plan_pass

MOST_TASKS = 3_000  # a frame has no more tasks; a pass that looked at more can't be replayed
_MOST_NUMBERS = 50  # so many keys are kept to be shown, under a policy that sorts the queue anew


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """What a pass has once. Times in seconds, as in `PassInput`."""

    now_s: float
    wall_s: float
    policy: str
    settings: PassSettings
    gpus: int
    waiting: int  # tasks in the queue
    waiting_gpu_s: float
    failure: str  # why `aging_sjf` was used instead
    whole: bool  # whether the frame has all tasks that the pass looked at
    ahead_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FrameTask:
    """A task as a pass saw it. ``number`` is its key under a static policy; else it is 0, and `Frame.order` counts."""

    task: Task
    number: float
    queued: bool  # False: on hold
    runnable: bool
    closes_at: float | None  # steady clock: from then on no new task can overtake it; None: not asked


@dataclass(frozen=True, slots=True)
class FrameNodeCapacity:
    """What was free on a node before the pass. ``free``: indexes in `Node.gpus`; ``used``: when each was last used.

    ``shares``: of each shared card its index and its free units.
    """

    order: int
    cpu_centi: int
    memory_bytes: int
    free: tuple[int, ...]
    used: tuple[float, ...]
    closed: str
    shares: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """One stored pass."""

    head: FrameHeader
    tasks: Mapping[TaskId, FrameTask]
    nodes: Mapping[NodeId, Node]  # with only those images that some task names
    left: Mapping[NodeId, FrameNodeCapacity]
    running: Mapping[TaskId, Booking]
    places: Mapping[TaskId, Reservation]  # reservations that were stored before the pass
    waits: Mapping[TaskId, Wait]
    placements: tuple[Placement, ...]
    order: tuple[TaskId, ...]  # of the tasks, under a policy that sorts the queue anew
    numbers: Mapping[TaskId, float]  # keys under such a policy: of the first tasks, and of those that started
    outlived: tuple[TaskId, ...]  # running tasks beyond the end of their booking, in the order of the pass
    changes: tuple[Change, ...] = ()  # what left less room than the pass before saw


def frame_of(inp: PassInput, new_plan: Plan, policy: str) -> Frame:
    """The frame of a pass that was just made and not applied yet. ``policy``: as it was asked for."""
    looked = dict.fromkeys(placement.task_id for placement in new_plan.placements)
    looked.update(dict.fromkeys(new_plan.waits))
    looked.update(dict.fromkeys(new_plan.reservations))
    looked.update(dict.fromkeys(t for t in inp.reservations if t in inp.tasks and inp.tasks[t].waiting))
    whole = len(looked) <= MOST_TASKS
    ids = list(looked) if whole else list(looked)[:MOST_TASKS]
    static = bool(inp.queue.effective_policy.static)
    tasks, keys = {}, {}
    for task_id in ids:
        key = inp.queue.key_of(task_id)
        if key is not None:
            keys[task_id] = key
        number = key[1] if key is not None and static else 0.0
        closes = promises.order_settled_at(inp, inp.tasks[task_id]) if task_id in new_plan.reservations else None
        runnable = key is not None and inp.queue.is_runnable(task_id)
        tasks[task_id] = FrameTask(inp.tasks[task_id], number, key is not None, runnable, closes)
    order: tuple[TaskId, ...] = ()
    numbers: dict[TaskId, float] = {}
    if not static:
        order = tuple(sorted(keys, key=lambda task_id: keys[task_id]))
        started = [placement.task_id for placement in new_plan.placements]
        numbers = {t: keys[t][1] for t in (*order[:_MOST_NUMBERS], *started[:_MOST_NUMBERS]) if t in keys}
    images = {seen.task.shape.image for seen in tasks.values()} - {""}
    return Frame(
        head=FrameHeader(
            inp.now_s, inp.wall_s, policy, inp.settings, inp.view.gpus, len(inp.queue), inp.view.waiting_gpu_s,
            inp.queue.failure, whole, inp.ahead_s,
        ),
        tasks=tasks,
        nodes={room.node.id: _bare(room.node, images) for room in inp.free_resources},
        left={room.node.id: _left(room, inp) for room in inp.free_resources},
        running={booking.task_id: booking for booking in inp.running},
        places=dict(inp.reservations),
        waits={task_id: new_plan.waits[task_id] for task_id in ids if task_id in new_plan.waits},
        placements=new_plan.placements,
        order=order,
        numbers=numbers,
        outlived=tuple(booking.task_id for booking in inp.running if booking.until_s <= inp.now_s),
        changes=tuple(
            change if change.node is None else replace(change, node=_bare(change.node, images))
            for change in inp.changes
        ),
    )  # fmt: skip


def _bare(node: Node, images: Set[str]) -> Node:
    # Nodes have up to a thousand images; the queue asks for few of them.
    there = node.images & images
    return node if len(there) == len(node.images) else replace(node, images=frozenset(there))


def _left(room: FreeResources, inp: PassInput) -> FrameNodeCapacity:
    shares = tuple((i, room.shares[gpu.uuid]) for i, gpu in enumerate(room.node.gpus) if gpu.uuid in room.shares)
    if not room.gpus:
        return FrameNodeCapacity(room.order, room.cpu_centi, room.memory_bytes, (), (), room.closed, shares)
    free = {gpu.uuid for gpu in room.gpus}
    places = tuple(i for i, gpu in enumerate(room.node.gpus) if gpu.uuid in free)
    used = tuple(inp.last_used(room.node.gpus[i].uuid) for i in places)
    return FrameNodeCapacity(room.order, room.cpu_centi, room.memory_bytes, places, used, room.closed, shares)


# -- replay -----------------------------------------------------------------------------------


def replay(frame: Frame) -> Plan:
    """Makes the plan of the pass again, with the code of today."""
    return plan_pass(pass_input_of(frame))


def decides_the_same(frame: Frame, new_plan: Plan) -> bool:
    """Whether a plan decides the same as the stored pass."""
    return new_plan.placements == frame.placements and new_plan.waits == frame.waits


def pass_input_of(frame: Frame) -> PassInput:
    """What the pass saw."""
    head = frame.head
    rule = _Recorded(frame)
    queue = TaskQueue(rule, limits=head.settings.limits)
    for seen in frame.tasks.values():
        if seen.queued:
            queue.add(seen.task, runnable=seen.runnable)
    last = set(frame.outlived)
    return PassInput(
        now_s=head.now_s,
        wall_s=head.wall_s,
        ahead_s=head.ahead_s,
        queue=queue,
        tasks={task_id: seen.task for task_id, seen in frame.tasks.items()},
        free_resources=free_resources_of(frame),
        running=[b for b in frame.running.values() if b.task_id not in last]
        + [frame.running[t] for t in frame.outlived],
        reservations=frame.places,
        policy=rule,
        view=ClusterView(head.gpus, head.waiting_gpu_s),
        settings=head.settings,
        last_used=_last_used(frame),
        changes=frame.changes,
    )


def free_resources_of(frame: Frame) -> list[FreeResources]:
    """What was free on every node before the pass."""
    found = []
    for node_id, left in sorted(frame.left.items(), key=lambda item: item[1].order):
        node = frame.nodes[node_id]
        cards = [node.gpus[i] for i in left.free]
        shares = {node.gpus[i].uuid: units for i, units in left.shares}
        found.append(FreeResources(node, left.order, left.cpu_centi, left.memory_bytes, cards, left.closed, shares))
    return found


def _last_used(frame: Frame) -> _Used:
    used = {}
    for node_id, left in frame.left.items():
        for place, when in zip(left.free, left.used, strict=True):
            used[frame.nodes[node_id].gpus[place].uuid] = when
    return _Used(used)


@dataclass(frozen=True, slots=True)
class _Used:
    by_uuid: Mapping[str, float]

    def __call__(self, uuid: str) -> float:
        return self.by_uuid.get(uuid, 0.0)


class _Recorded(Policy):
    """A policy that repeats the order of a stored pass."""

    __slots__ = ("_closes", "_numbers")

    name = "recorded"
    static = True

    def __init__(self, frame: Frame) -> None:
        self._numbers = {task_id: seen.number for task_id, seen in frame.tasks.items()}
        self._numbers.update((task_id, float(place)) for place, task_id in enumerate(frame.order))
        self._closes = {task_id: seen.closes_at for task_id, seen in frame.tasks.items()}

    def key(self, task: Task, now: float, view: View | None) -> float:
        return self._numbers[task.id]

    def closes_at(self, task: Task, min_timeout_s: float) -> float | None:
        return self._closes[task.id]


def in_order(frame: Frame) -> Sequence[TaskId]:
    """The tasks that were not on hold, in the order of that pass."""
    if frame.order:
        return frame.order
    keys: dict[TaskId, Key] = {t: sort_key(seen.task, seen.number) for t, seen in frame.tasks.items() if seen.queued}
    return sorted(keys, key=lambda task_id: keys[task_id])
