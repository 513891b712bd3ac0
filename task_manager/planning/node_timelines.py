"""The cluster over time in one pass: open nodes, what is booked there, and where a task finds the earliest start."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from headway.ids import NodeId, TaskId

from ..model import Gpu, Shape, Task
from .admission import Limits
from .allowances import Allowances, until_of
from .bookings import Booking, Place, kind_of
from .node_capacity import machine_of
from .node_profile import FirstFree, Need, NodeProfile
from .pass_model import Limited, Placement
from .placement import CpuTasks, Room, empty_room, shortages, suits
from .step_functions import Allowance, Change


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """A shape, and what it asks of each group of nodes that are alike; None: such a node can't hold it."""

    number: int
    shape: Shape
    by_group: tuple[Need | None, ...]

    def on(self, node: NodeProfile) -> Need | None:
        if self.shape.needs_image_there and self.shape.image not in node.room.node.images:
            return None
        return self.by_group[node.group]


# What shapes ask of nodes, from pass to pass: worked out anew it would be a good part of a short one.
_asked: dict[tuple[Shape, tuple[object, ...]], Wanted] = {}
_ASKED_KEPT = 4096
_numbers = count()


@dataclass(frozen=True, slots=True)
class Slot:
    """A node and a start there."""

    node: NodeProfile
    start_s: float


class Board:
    """Profiles of all open nodes, and what limits allow, with all live attempts booked."""

    def __init__(
        self,
        now_s: float,
        rooms: Sequence[Room],
        running: Sequence[Booking],
        *,
        limits: Limits,
        gpus: int,
        cpu_tasks: CpuTasks,
        last_used: Callable[[str], float],
    ) -> None:
        self.now_s = now_s
        self._cpu_tasks = cpu_tasks
        self._last_used = last_used
        self._running = running
        self.rooms = {room.node.id: room for room in rooms}
        self._groups: dict[int, int] = {}
        self.nodes: dict[NodeId, NodeProfile] = {}
        self._allowances = Allowances(now_s, running, limits, gpus)
        self._open([room for room in rooms if not room.closed])
        self._samples = {node.group: node for node in self.nodes.values()}
        self._by_order = {node.room.order: node for node in self.nodes.values()}
        self._orders: dict[int, FirstFree] = {}
        self._alike = (cpu_tasks, *self._groups)
        self._wanted_of: dict[int, Wanted] = {}  # by the id of a shape, since hashing one takes longer
        self._kept: dict[NodeId, dict[TaskId, Place]] = {}
        self._roomy: dict[int, list[NodeProfile]] = {}
        self._blockers: dict[int, tuple[NodeId, TaskId] | None] = {}

    # -- where and when ---------------------------------------------------------------------------

    def wanted(self, shape: Shape) -> Wanted:
        """What the shape asks of the nodes."""
        found = self._wanted_of.get(id(shape))
        if found is None:
            found = _asked.get((shape, self._alike))
            if found is None:
                if len(_asked) >= _ASKED_KEPT:
                    _asked.clear()
                number = next(_numbers)
                needs = tuple(self._need(number, shape, self._samples[group]) for group in range(len(self._samples)))
                found = _asked.setdefault((shape, self._alike), Wanted(number, shape, needs))
            self._wanted_of[id(shape)] = found
        return found

    def earliest(self, task: Task, duration_s: float, *, after_s: float, spread: bool = False) -> Slot | None:
        """The earliest start from ``after_s`` on that delays nothing booked, on the node that the placement rule takes
        among those that tie; None: there is none. With ``spread``, a start in the future is on the node where most GPUs
        are left over."""
        wanted, gpus = self.wanted(task.shape), task.shape.gpus
        allowances = self._allowances.of(task)
        while True:
            for allowance in allowances:
                start_s = allowance.earliest(gpus, duration_s, after_s)
                if start_s is None:
                    return None
                after_s = start_s
            slot = self._search(wanted, duration_s, after_s, task.avoid, spread)
            if slot is None or all(a.earliest(gpus, duration_s, slot.start_s) == slot.start_s for a in allowances):
                return slot
            after_s = slot.start_s

    def is_limited(self, task: Task) -> bool:
        """Whether any limit counts this task."""
        return bool(self._allowances.of(task))

    def might_start(self, task: Task, place: Place, duration_s: float) -> bool:
        """Whether a task with a place could start now; if not, there is no need to look closer."""
        if place.start_s <= self.now_s:
            return True
        wanted = self.wanted(task.shape)
        for node in self._room_now(wanted):
            need = wanted.on(node)
            if need is not None:
                end_s = node.free_until(need)
                if self.now_s + duration_s <= end_s or (node.id == place.node_id and end_s >= place.start_s):
                    return True
        return False

    def at_once(self, task: Task, duration_s: float) -> Slot | None:
        """A start now, beside everything booked; limits are another question (`limit_on`)."""
        wanted = self.wanted(task.shape)
        ties = [
            node
            for node in self._room_now(wanted)
            if (need := wanted.on(node)) is not None and node.earliest(need, duration_s, self.now_s) == self.now_s
        ]
        if not ties:
            return None
        return Slot(self._preferred(ties, wanted, self.now_s, task.avoid, spread=False), self.now_s)

    def might_move_up(self, task: Task, place: Place, duration_s: float) -> bool:
        """Whether a task with a place could start earlier; if not, there is no need to look closer."""
        if not self._allowances.might_move_up(task, place, duration_s):
            return False
        wanted = self.wanted(task.shape)
        for node in self._by_first_free(task.shape.gpus):
            if node.first_free(task.shape.gpus) >= place.start_s:
                return False
            need = wanted.on(node)
            if need is None:
                continue
            if node.id == place.node_id:
                if node.might_move_up(need, duration_s, place.start_s):
                    return True
            else:
                start_s = node.earliest(need, duration_s, self.now_s)
                if start_s is not None and start_s < place.start_s:
                    return True
        return False

    def fits_now(self, shape: Shape) -> bool:
        """Whether some open node has room at this moment, for however short a time."""
        return bool(self._room_now(self.wanted(shape)))

    def can_hold(self, shape: Shape) -> bool:
        """Whether some open node could hold it when empty."""
        wanted = self.wanted(shape)
        return any(wanted.on(node) is not None for node in self.nodes.values())

    def limit_on(self, task: Task, duration_s: float, own: Place | None = None) -> Limited | None:
        """The limit that keeps it from a start now; None: none does. ``own``: the place that is kept for it."""
        return self._allowances.limit_on(task, duration_s, own)

    def limits_left(self, length: Callable[[Task], float]) -> Callable[[Task], Limited | None]:
        """What limits leave a task without a reservation beside all that is booked. ``length``: for how long a start
        is booked."""
        return self._allowances.asked(length)

    def blocker(self, task: Task) -> tuple[NodeId, TaskId] | None:
        """For whom room is kept that the task would fit into now: where that room lasts longest."""
        wanted = self.wanted(task.shape)
        if wanted.number not in self._blockers:
            self._blockers[wanted.number] = self._blocker(wanted)
        return self._blockers[wanted.number]

    # -- bookings ---------------------------------------------------------------------------------

    def book(self, task: Task, slot: Slot, duration_s: float) -> Place:
        """Keeps a slot for a task."""
        node, start_s = slot.node, slot.start_s
        need = self.wanted(task.shape).on(node)
        assert need is not None
        names = list(node.kinds)
        cards = node.cards_for(need, start_s, start_s + duration_s)
        place = Place(node.id, tuple(sorted((names[kind], count) for kind, count in cards)), start_s, duration_s)
        self.put(task, place)
        return place

    def put(self, task: Task, place: Place) -> None:
        """Keeps exactly this place for a task. On a node that is closed there is nothing to keep it from."""
        self._move(task, place, 1)
        self._allowances.keep(task, place)
        self._kept.setdefault(place.node_id, {})[task.id] = place

    def put_all(self, places: Sequence[tuple[Task, Place]]) -> bool:
        """``put`` for many at once, on open nodes, if there is room for all of them; if not, none is booked."""
        changes: dict[NodeProfile, list[Change]] = {}
        taken: dict[Allowance, list[tuple[int, float, float]]] = {}
        for task, place in places:
            node, shape = self.nodes[place.node_id], task.shape
            cards = self._cards(place, node)
            if cards is None:
                return False
            start_s, end_s = max(place.start_s, self.now_s), place.start_s + place.duration_s
            if end_s <= start_s:
                continue
            here = changes.setdefault(node, [])
            here.append((start_s, -shape.cpu_centi, -shape.memory_bytes, [(kind, -count) for kind, count in cards]))
            if end_s < math.inf:
                here.append((end_s, shape.cpu_centi, shape.memory_bytes, cards))
            for allowance in self._allowances.of(task):
                taken.setdefault(allowance, []).append((shape.gpus, start_s, end_s))
        limited = [(allowance, allowance.with_all(bookings)) for allowance, bookings in taken.items()]
        booked = [(node, node.with_all(those)) for node, those in changes.items()]
        if any(made is None for _, made in limited) or any(made is None for _, made in booked):
            return False
        for allowance, room in limited:
            if room is not None:
                allowance.become(room)
        for node, steps in booked:
            if steps is not None:
                node.become(steps)
            for order in self._orders.values():
                order.refresh(node)
        self._blockers.clear()
        self._roomy.clear()
        for task, place in places:
            self._kept.setdefault(place.node_id, {})[task.id] = place
            self._allowances.note(task, place)
        return True

    def remove(self, task: Task, place: Place) -> None:
        """Gives back what ``put`` or ``book`` took."""
        self._move(task, place, -1)
        self._allowances.give_back(task, place)
        del self._kept[place.node_id][task.id]

    def holds(self, task: Task, place: Place, slack_s: float) -> bool:
        """Whether an open node has this place free, bar ``slack_s`` at both ends, and the limits too."""
        return self.allows(task, place, slack_s) and self.has_room(task, place, slack_s)

    def has_room(self, task: Task, place: Place, slack_s: float) -> bool:
        """Whether an open node has this place free, bar ``slack_s`` at both ends."""
        node, shape = self.nodes[place.node_id], task.shape
        cards = self._cards(place, node)
        start_s, last_s = _within(place, slack_s)
        return cards is not None and node.holds(shape.cpu_centi, shape.memory_bytes, cards, start_s, last_s)

    def allows(self, task: Task, place: Place, slack_s: float) -> bool:
        """Whether the limits leave room for this place, bar ``slack_s`` at both ends."""
        start_s, last_s = _within(place, slack_s)
        return all(
            allowance.earliest(task.shape.gpus, last_s - start_s, start_s) == start_s
            for allowance in self._allowances.of(task)
        )

    def nudged(self, task: Task, place: Place, most_s: float) -> Place | None:
        """The place, on its open node, as little later as makes it fit; None: ``most_s`` is too little."""
        node, shape, at_s = self.nodes[place.node_id], task.shape, place.start_s
        cards = self._cards(place, node)
        allowances = self._allowances.of(task)
        while cards is not None and at_s <= place.start_s + most_s and at_s < math.inf:
            starts = [allowance.earliest(shape.gpus, place.duration_s, at_s) for allowance in allowances]
            allowed_s = max((math.inf if start_s is None else start_s for start_s in starts), default=at_s)
            if allowed_s > at_s:
                at_s = allowed_s
            elif node.holds(shape.cpu_centi, shape.memory_bytes, cards, at_s, at_s + place.duration_s):
                return replace(place, start_s=at_s)
            else:
                at_s = node.changes_after(at_s)
        return None

    def is_free_now(self, task: Task, place: Place) -> bool:
        """Whether its node has what the place takes at this very moment."""
        node, shape = self.nodes[place.node_id], task.shape
        cards = self._cards(place, node)
        return cards is not None and node.holds(shape.cpu_centi, shape.memory_bytes, cards, self.now_s, self.now_s)

    def start(self, task: Task, slot: Slot, duration_s: float, place: Place | None = None) -> Placement:
        """Starts a task there now: picks its cards, those of its place if it had one, and books it."""
        node = slot.node
        need = self.wanted(task.shape).on(node)
        assert need is not None
        kept = self._cards(place, node) if place is not None else None
        quota = dict(kept if kept is not None else node.cards_for(need, self.now_s, self.now_s + duration_s))
        chosen: list[Gpu] = []
        if need.gpus:
            for gpu in sorted(
                (gpu for gpu in node.free_cards if quota.get(node.kinds[kind_of(gpu)])),
                key=lambda gpu: (gpu.memory_bytes, self._last_used(gpu.uuid), gpu.index, gpu.uuid),
            ):
                kind = node.kinds[kind_of(gpu)]
                if quota[kind] and len(chosen) < need.gpus:
                    quota[kind] -= 1
                    chosen.append(gpu)
            node.free_cards = [gpu for gpu in node.free_cards if gpu not in chosen]
        assert len(chosen) == need.gpus, f"{task.id} fits on {node.id}, and there are too few cards"
        counts = Counter(kind_of(gpu) for gpu in chosen)
        self._move(task, Place(node.id, tuple(counts.items()), self.now_s, duration_s), 1)
        self._allowances.start(task, duration_s)
        return Placement(task.id, node.id, tuple(gpu.uuid for gpu in chosen))

    # -- inside -----------------------------------------------------------------------------------

    def _need(self, number: int, shape: Shape, node: NodeProfile) -> Need | None:
        # The image itself is asked for node by node.
        plain = replace(shape, needs_image_there=False) if shape.needs_image_there else shape
        if shortages(plain, empty_room(node.room.node), self._cpu_tasks):
            return None
        suitable = {kind_of(gpu) for gpu in node.room.node.gpus if suits(gpu, shape)} if shape.gpus else set()
        kinds = tuple(i for kind, i in node.kinds.items() if kind in suitable)
        return Need(number, shape.cpu_centi, shape.memory_bytes, shape.gpus, kinds)

    def _open(self, rooms: Sequence[Room]) -> None:
        """Profiles of these nodes, with all that runs."""
        machines = {room.node.id: machine_of(room.node) for room in rooms}
        ends: dict[NodeId, list[Change]] = {node_id: [] for node_id in machines}
        outlived: dict[NodeId, TaskId] = {}
        awaited = {booking.node_id: booking.task_id for booking in self._running if booking.awaited}
        for booking in self._running:
            shape, node_id, until_s = booking.shape, booking.node_id, booking.until_s
            if until_s <= self.now_s:
                until_s = until_of(booking, self.now_s)
                outlived[node_id] = booking.task_id
            machine = machines.get(node_id)
            if machine is not None:
                cards = machine.cards(booking.gpu_uuids)
                ends[node_id].append((until_s, shape.cpu_centi, shape.memory_bytes, cards))
        for room in rooms:
            node_id, machine = room.node.id, machines[room.node.id]
            group = self._groups.setdefault(machine.alike, len(self._groups))
            node = NodeProfile(room, self.now_s, group, ends[node_id], machine)
            node.outlived, node.awaited = outlived.get(node_id), awaited.get(node_id)
            self.nodes[node_id] = node

    def _room_now(self, wanted: Wanted) -> list[NodeProfile]:
        found = self._roomy.get(wanted.number)
        if found is None:
            found = self._roomy[wanted.number] = [
                node
                for node in self._by_first_free(wanted.shape.gpus, until_s=self.now_s)
                if (need := wanted.on(node)) is not None and node.fits_now(need)
            ]
        return found

    def _by_first_free(self, gpus: int, until_s: float = math.inf) -> Iterator[NodeProfile]:
        """All nodes, those first that could have so many GPUs first; up to those that have them at ``until_s``."""
        if len(self.nodes) == 1:
            yield from self.nodes.values()
            return
        order = self._orders.get(gpus)
        if order is None:
            order = self._orders[gpus] = FirstFree(gpus, self.nodes.values())
        for first_s, number in list(order.row):
            if first_s > until_s:
                return
            yield self._by_order[number]

    def _blocker(self, wanted: Wanted) -> tuple[NodeId, TaskId] | None:
        longest: tuple[float, NodeProfile] | None = None
        for node in self._room_now(wanted):
            need = wanted.on(node)
            if need is not None:
                end = node.free_until(need)
                if longest is None or end > longest[0]:
                    longest = (end, node)
        if longest is None:
            return None
        for task_id, place in self._kept.get(longest[1].id, {}).items():
            if place.start_s == longest[0]:
                return longest[1].id, task_id
        return None

    def _search(
        self, wanted: Wanted, duration_s: float, after_s: float, avoid: Collection[NodeId], spread: bool
    ) -> Slot | None:
        best = math.inf
        ties: list[NodeProfile] = []
        gpus = wanted.shape.gpus
        for node in self._by_first_free(gpus):
            if node.first_free(gpus) > best:
                break
            need = wanted.on(node)
            start_s = None if need is None else node.earliest(need, duration_s, after_s)
            if start_s is None or start_s > best:
                continue
            if start_s < best:
                best = start_s
                ties.clear()
            ties.append(node)
        if not ties:
            return None
        return Slot(self._preferred(ties, wanted, best, avoid, spread=spread and best > self.now_s), best)

    def _preferred(
        self, ties: Sequence[NodeProfile], wanted: Wanted, start_s: float, avoid: Collection[NodeId], *, spread: bool
    ) -> NodeProfile:
        """The placement rule (`placement.choose`) among nodes on which the task could start at that moment."""
        if len(ties) == 1:
            return ties[0]
        shape = wanted.shape

        def rank(node: NodeProfile) -> tuple[bool, bool, int, bool, int]:
            need = wanted.on(node)
            free = node.free_at(need, start_s) if need is not None and shape.gpus else 0
            return (
                node.id in avoid,
                not shape.gpus and bool(node.kinds) and self._cpu_tasks is CpuTasks.LAST_RESORT,
                -free if spread else free,
                bool(shape.image) and shape.image not in node.room.node.images,
                node.room.order,
            )

        return min(ties, key=rank)

    def _move(self, task: Task, place: Place, sign: int) -> None:
        start_s, end_s = max(place.start_s, self.now_s), place.start_s + place.duration_s
        if end_s <= start_s:
            return
        node, shape = self.nodes.get(place.node_id), task.shape
        if node is not None:
            cards = self._cards(place, node) or []
            node.take(
                sign * shape.cpu_centi,
                sign * shape.memory_bytes,
                [(kind, sign * count) for kind, count in cards],
                start_s,
                end_s,
            )
            self._blockers.clear()
            if start_s == self.now_s:
                self._roomy.clear()
            for order in self._orders.values():
                order.refresh(node)

    def _cards(self, place: Place, node: NodeProfile) -> list[tuple[int, int]] | None:
        """The place's cards as rows of the profile; None when the node has no such cards any more."""
        kinds, cards = node.kinds, []
        for kind, held in place.gpus:
            if kind not in kinds:
                return None
            cards.append((kinds[kind], held))
        return cards


def _within(place: Place, slack_s: float) -> tuple[float, float]:
    start_s = place.start_s + slack_s
    return start_s, max(start_s, place.start_s + place.duration_s - slack_s)
