"""The timelines of all open nodes in one pass: what is booked there, and where a task finds the earliest start.

All times are in seconds by the pass's clock (`PassInput.now_s`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from headway.ids import NodeId, TaskId

from ..limits import AdmissionLimits
from ..model import Gpu, Shape, Task
from .allowances import Allowance, Allowances
from .bookings import OUTLIVED_S, Booking, Reservation, kind_of, until_of
from .node_capacity import capacity_of
from .node_profile import NodeProfile, NodesByFirstFree, ProfileDemand
from .pass_model import LimitHold, Placement
from .placement import CpuTasks, FreeResources, full_capacity, shortages, suits
from .step_functions import Change, latest_in


@dataclass(frozen=True, slots=True, eq=False)
class ResourceRequest:
    """What a shape demands of each group of nodes that are alike; None: such a node can't hold it."""

    number: int
    shape: Shape
    by_group: tuple[ProfileDemand | None, ...]

    def on(self, node: NodeProfile) -> ProfileDemand | None:
        """What the shape demands of this node; None: the node can't hold it."""
        shape = self.shape
        if shape.needs_image_there and shape.image not in node.free_now.node.images:
            return None
        demand = self.by_group[node.group]
        if demand is None or not shape.node_id:
            return demand
        return self._on_its_own(node, demand) if node.id == shape.node_id else None

    def _on_its_own(self, node: NodeProfile, demand: ProfileDemand) -> ProfileDemand | None:
        """On the one node that the shape names, with the kinds of the cards that it names."""
        uuids = self.shape.gpu_uuids
        if not uuids:
            return demand
        named = [gpu for gpu in node.free_now.node.gpus if gpu.uuid in uuids and gpu.usable]
        if len(named) < len(uuids):
            return None
        kinds = {node.kinds[kind_of(gpu)] for gpu in named}
        return replace(demand, kinds=tuple(sorted(kinds)), named=uuids)


# Requests are kept from pass to pass: to work them out anew would take a good part of a short pass.
_known_requests: dict[tuple[Shape, tuple[object, ...]], ResourceRequest] = {}
_REQUESTS_KEPT = 4096
_numbers = count()


@dataclass(frozen=True, slots=True)
class EarliestStart:
    """The node and the moment at which a task can start first."""

    node: NodeProfile
    start_s: float


class NodeTimelines:
    """The profiles of all open nodes and what limits allow, with all live attempts booked."""

    def __init__(
        self,
        now_s: float,
        free_resources: Sequence[FreeResources],
        running: Sequence[Booking],
        *,
        limits: AdmissionLimits,
        gpus: int,
        cpu_tasks: CpuTasks,
        last_used: Callable[[str], float],
    ) -> None:
        self.now_s = now_s
        self._cpu_tasks = cpu_tasks
        self._last_used = last_used
        self._running = running
        self.free_resources = {free.node.id: free for free in free_resources}
        self._groups: dict[int, int] = {}
        self.nodes: dict[NodeId, NodeProfile] = {}
        self._allowances = Allowances(now_s, running, limits, gpus)
        self._open([free for free in free_resources if not free.closed])
        self._samples = {node.group: node for node in self.nodes.values()}
        self._by_order = {node.free_now.order: node for node in self.nodes.values()}
        self._orders: dict[int, NodesByFirstFree] = {}
        self._alike = (cpu_tasks, *self._groups)
        self._requests: dict[int, ResourceRequest] = {}  # by the id of a shape, since hashing a shape is slow
        self._kept: dict[NodeId, dict[TaskId, Reservation]] = {}
        self._nodes_now: dict[int, list[NodeProfile]] = {}
        self._blockers: dict[int, tuple[NodeId, TaskId] | None] = {}
        self._named: set[str] = set()  # cards that waiting tasks name: others get them last
        self._held_until = {uuid: until_of(booking, now_s) for booking in running for uuid in booking.gpu_uuids}
        self._kept_named: dict[TaskId, tuple[tuple[str, ...], float]] = {}  # reserved by name, and until when

    # -- where and when ---------------------------------------------------------------------------

    def request_for(self, shape: Shape) -> ResourceRequest:
        """What the shape demands of the nodes."""
        found = self._requests.get(id(shape))
        if found is None:
            found = _known_requests.get((shape, self._alike))
            if found is None:
                if len(_known_requests) >= _REQUESTS_KEPT:
                    _known_requests.clear()
                number = next(_numbers)
                demands = tuple(
                    self._demand(number, shape, self._samples[group]) for group in range(len(self._samples))
                )
                found = _known_requests.setdefault((shape, self._alike), ResourceRequest(number, shape, demands))
            self._requests[id(shape)] = found
            self._named.update(shape.gpu_uuids)
        return found

    def earliest_start(
        self, task: Task, duration_s: float, *, after_s: float, spread: bool = False
    ) -> EarliestStart | None:
        """The earliest start from ``after_s`` on that delays nothing booked; None: there is none.

        If several nodes can start it then, the placement rule (`placement.choose`) picks one. With ``spread``, a start
        in the future is on the node where most GPUs are left over.
        """
        request, gpus = self.request_for(task.shape), task.shape.held_gpus
        allowances = self._allowances.of(task)
        after_s = max(after_s, self._named_free_s(task.shape))
        while True:
            for allowance in allowances:
                start_s = allowance.earliest_start(gpus, duration_s, after_s)
                if start_s is None:
                    return None
                after_s = start_s
            earliest = self._search(request, duration_s, after_s, task.avoid, spread)
            if earliest is None or all(
                a.earliest_start(gpus, duration_s, earliest.start_s) == earliest.start_s for a in allowances
            ):
                return earliest
            after_s = earliest.start_s

    def _named_free_s(self, shape: Shape) -> float:
        """The first moment at which all cards that the shape names are free, as far as their bookings tell."""
        if not shape.gpu_uuids:
            return self.now_s
        node = self.nodes.get(NodeId(shape.node_id))
        free = {gpu.uuid for gpu in node.free_cards} if node is not None else set()
        taken_s = self.now_s + OUTLIVED_S  # by a start of this pass
        ends = [self._held_until.get(uuid, self.now_s if uuid in free else taken_s) for uuid in shape.gpu_uuids]
        kept = [end_s for uuids, end_s in self._kept_named.values() if not set(uuids).isdisjoint(shape.gpu_uuids)]
        return max(self.now_s, *ends, *kept)

    def is_limited(self, task: Task) -> bool:
        """Whether any limit counts this task's GPUs."""
        return bool(self._allowances.of(task))

    def might_start(self, task: Task, reservation: Reservation, duration_s: float) -> bool:
        """A quick first check: False if a task with a reservation surely can't start now."""
        if reservation.start_s <= self.now_s:
            return True
        request = self.request_for(task.shape)
        for node in self._nodes_with_room_now(request):
            demand = request.on(node)
            if demand is not None:
                end_s = node.free_until(demand)
                if self.now_s + duration_s <= end_s or (
                    node.id == reservation.node_id and end_s >= reservation.start_s
                ):
                    return True
        return False

    def start_now(self, task: Task, duration_s: float) -> EarliestStart | None:
        """A start now that delays nothing booked; None: there is none. Limits are not looked at (`limit_on`)."""
        request = self.request_for(task.shape)
        ties = [
            node
            for node in self._nodes_with_room_now(request)
            if (demand := request.on(node)) is not None
            and node.earliest_start(demand, duration_s, self.now_s) == self.now_s
        ]
        if not ties:
            return None
        return EarliestStart(self._preferred(ties, request, self.now_s, task.avoid, spread=False), self.now_s)

    def might_start_earlier(self, task: Task, reservation: Reservation, duration_s: float) -> bool:
        """A quick first check: False if a task with a reservation surely can't start earlier."""
        if not self._allowances.might_start_earlier(task, reservation, duration_s):
            return False
        request = self.request_for(task.shape)
        for node in self._by_first_free(task.shape.gpus):
            if node.first_free(task.shape.gpus) >= reservation.start_s:
                return False
            demand = request.on(node)
            if demand is None:
                continue
            if node.id == reservation.node_id:
                if node.might_start_earlier(demand, duration_s, reservation.start_s):
                    return True
            else:
                start_s = node.earliest_start(demand, duration_s, self.now_s)
                if start_s is not None and start_s < reservation.start_s:
                    return True
        return False

    def fits_now(self, shape: Shape) -> bool:
        """Whether some open node has room at this moment, even if only for a short time."""
        return bool(self._nodes_with_room_now(self.request_for(shape)))

    def can_hold(self, shape: Shape) -> bool:
        """Whether some open node could hold the shape when empty."""
        request = self.request_for(shape)
        return any(request.on(node) is not None for node in self.nodes.values())

    def limit_on(self, task: Task, duration_s: float, own: Reservation | None = None) -> LimitHold | None:
        """The limit that keeps the task from a start now; None: none does. ``own`` is its own reservation."""
        return self._allowances.limit_on(task, duration_s, own)

    def limit_beside_bookings(self, duration_s: Callable[[Task], float]) -> Callable[[Task], LimitHold | None]:
        """A function that tells which limit keeps a task without a reservation from a start.

        ``duration_s`` tells for how many seconds a start of a task is booked.
        """
        return self._allowances.limit_beside_bookings(duration_s)

    def blocker(self, task: Task) -> tuple[NodeId, TaskId] | None:
        """The task for which free resources are kept that this one could use now, and their node; None: there is none.

        If there are several, it is the one on the node that is free for longest.
        """
        request = self.request_for(task.shape)
        if request.number not in self._blockers:
            self._blockers[request.number] = self._blocker(request)
        return self._blockers[request.number]

    # -- bookings ---------------------------------------------------------------------------------

    def book(self, task: Task, earliest: EarliestStart, duration_s: float) -> Reservation:
        """Reserves this start for a task."""
        node, start_s = earliest.node, earliest.start_s
        demand = self.request_for(task.shape).on(node)
        assert demand is not None
        names = list(node.kinds)
        cards = node.cards_for(demand, start_s, start_s + duration_s)
        reservation = Reservation(
            node.id, tuple(sorted((names[kind], count) for kind, count in cards)), start_s, duration_s
        )
        self.add(task, reservation)
        return reservation

    def add(self, task: Task, reservation: Reservation) -> None:
        """Books exactly this reservation. On a closed node it takes nothing, since nothing else can start there."""
        self._keep_named(task, reservation)
        self._move(task, reservation, 1)
        self._allowances.keep(task, reservation)
        self._kept.setdefault(reservation.node_id, {})[task.id] = reservation

    def add_all(self, reservations: Sequence[tuple[Task, Reservation]]) -> bool:
        """Books many reservations on open nodes at once if all of them fit together; if not, it books none."""
        changes: dict[NodeProfile, list[Change]] = {}
        taken: dict[Allowance, list[tuple[int, float, float]]] = {}
        for task, reservation in reservations:
            node, shape = self.nodes[reservation.node_id], task.shape
            cards = self._cards(reservation, node)
            if cards is None:
                return False
            start_s, end_s = max(reservation.start_s, self.now_s), reservation.start_s + reservation.duration_s
            if end_s <= start_s:
                continue
            here = changes.setdefault(node, [])
            here.append((start_s, -shape.cpu_centi, -shape.memory_bytes, [(kind, -count) for kind, count in cards]))
            if end_s < math.inf:
                here.append((end_s, shape.cpu_centi, shape.memory_bytes, cards))
            for allowance in self._allowances.of(task):
                taken.setdefault(allowance, []).append((shape.held_gpus, start_s, end_s))
        limited = [(allowance, allowance.with_all(bookings)) for allowance, bookings in taken.items()]
        booked = [(node, node.with_all(those)) for node, those in changes.items()]
        if any(made is None for _, made in limited) or any(made is None for _, made in booked):
            return False
        for allowance, remaining in limited:
            if remaining is not None:
                allowance.become(remaining)
        for node, steps in booked:
            if steps is not None:
                node.become(steps)
            for order in self._orders.values():
                order.refresh(node)
        self._blockers.clear()
        self._nodes_now.clear()
        for task, reservation in reservations:
            self._keep_named(task, reservation)
            self._kept.setdefault(reservation.node_id, {})[task.id] = reservation
            self._allowances.note(task, reservation)
        return True

    def remove(self, task: Task, reservation: Reservation) -> None:
        """Gives back what ``add`` or ``book`` took."""
        self._move(task, reservation, -1)
        self._allowances.give_back(task, reservation)
        del self._kept[reservation.node_id][task.id]
        self._kept_named.pop(task.id, None)

    def has_room(self, task: Task, reservation: Reservation, slack_s: float) -> bool:
        """Whether the reservation fits on its open node, except for ``slack_s`` at both ends."""
        node, shape = self.nodes[reservation.node_id], task.shape
        cards = self._cards(reservation, node)
        start_s, last_s = _within(reservation, slack_s)
        return cards is not None and node.has_free(shape.cpu_centi, shape.memory_bytes, cards, start_s, last_s)

    def allows(self, task: Task, reservation: Reservation, slack_s: float) -> bool:
        """Whether the limits allow the reservation, except for ``slack_s`` at both ends."""
        start_s, last_s = _within(reservation, slack_s)
        return all(
            allowance.earliest_start(task.shape.held_gpus, last_s - start_s, start_s) == start_s
            for allowance in self._allowances.of(task)
        )

    def delayed_to_fit(self, task: Task, reservation: Reservation, most_s: float) -> Reservation | None:
        """The reservation with the shortest delay that makes it fit on its node; None: ``most_s`` is too short."""
        node, shape, at_s = self.nodes[reservation.node_id], task.shape, reservation.start_s
        cards = self._cards(reservation, node)
        allowances = self._allowances.of(task)
        while cards is not None and at_s <= reservation.start_s + most_s and at_s < math.inf:
            starts = [
                allowance.earliest_start(shape.held_gpus, reservation.duration_s, at_s) for allowance in allowances
            ]
            allowed_s = max((math.inf if start_s is None else start_s for start_s in starts), default=at_s)
            if allowed_s > at_s:
                at_s = allowed_s
            elif node.has_free(shape.cpu_centi, shape.memory_bytes, cards, at_s, at_s + reservation.duration_s):
                return replace(reservation, start_s=at_s)
            else:
                at_s = node.changes_after(at_s)
        return None

    def end_searches(self) -> None:
        """Forgets in which order nodes come free: no earliest start is asked for any more."""
        self._orders.clear()

    def pushed_back(self, task: Task, reservation: Reservation, until_s: float) -> Reservation:
        """The reservation, which is not booked now, with the latest start up to ``until_s`` on its own node."""
        node, shape = self.nodes[reservation.node_id], task.shape
        cards = self._cards(reservation, node)
        if cards is None:
            return reservation
        windows = [node.spans_with(shape.cpu_centi, shape.memory_bytes, cards, until_s)]
        windows += [allowance.spans_with(shape.held_gpus, until_s) for allowance in self._allowances.of(task)]
        start_s = latest_in(windows, reservation.duration_s, until_s)
        if start_s is None or start_s <= reservation.start_s:
            return reservation
        return replace(reservation, start_s=start_s)

    def is_free_now(self, task: Task, reservation: Reservation) -> bool:
        """Whether the node has what the reservation takes at this very moment."""
        node, shape = self.nodes[reservation.node_id], task.shape
        cards = self._cards(reservation, node)
        return (
            cards is not None
            and node.has_free(shape.cpu_centi, shape.memory_bytes, cards, self.now_s, self.now_s)
            and node.has_named(shape.gpu_uuids)
        )

    def start(
        self, task: Task, earliest: EarliestStart, duration_s: float, reservation: Reservation | None = None
    ) -> Placement:
        """Starts a task now: picks its cards, those of its reservation if it has one, and books them."""
        node = earliest.node
        demand = self.request_for(task.shape).on(node)
        assert demand is not None
        kept = self._cards(reservation, node) if reservation is not None else None
        quota = dict(kept if kept is not None else node.cards_for(demand, self.now_s, self.now_s + duration_s))
        if task.shape.gpu_share_bytes:
            return self._start_share(task, node, quota, duration_s)
        chosen: list[Gpu] = []
        if demand.gpus:
            named = task.shape.gpu_uuids
            if named:
                node_kinds = [node.kinds[kind_of(gpu)] for gpu in node.free_cards if gpu.uuid in named]
                quota = dict(Counter(node_kinds))
            for gpu in sorted(
                (
                    gpu
                    for gpu in node.free_cards
                    if quota.get(node.kinds[kind_of(gpu)]) and (not named or gpu.uuid in named)
                ),
                key=lambda gpu: (
                    gpu.memory_bytes,
                    gpu.uuid in self._named,
                    self._last_used(gpu.uuid),
                    gpu.index,
                    gpu.uuid,
                ),
            ):
                kind = node.kinds[kind_of(gpu)]
                if quota[kind] and len(chosen) < demand.gpus:
                    quota[kind] -= 1
                    chosen.append(gpu)
            node.free_cards = [gpu for gpu in node.free_cards if gpu not in chosen]
        assert len(chosen) == demand.gpus, f"{task.id} fits on {node.id}, and there are too few cards"
        counts = Counter(kind_of(gpu) for gpu in chosen)
        self._move(task, Reservation(node.id, tuple(counts.items()), self.now_s, duration_s), 1)
        self._allowances.start(task, duration_s)
        return Placement(task.id, node.id, tuple(gpu.uuid for gpu in chosen))

    # -- inside -----------------------------------------------------------------------------------

    def _start_share(self, task: Task, node: NodeProfile, units: dict[int, int], duration_s: float) -> Placement:
        """Starts a task with a share of the card whose row has these units."""
        (kind,) = (name for name, number in node.kinds.items() if number in units)
        card = next(gpu for gpu in node.free_now.node.gpus if gpu.shared and kind_of(gpu) == kind)
        self._move(task, Reservation(node.id, ((kind, task.shape.share_units),), self.now_s, duration_s), 1)
        self._allowances.start(task, duration_s)
        return Placement(task.id, node.id, (card.uuid,))

    def _keep_named(self, task: Task, reservation: Reservation) -> None:
        if task.shape.gpu_uuids:
            self._kept_named[task.id] = (task.shape.gpu_uuids, reservation.start_s + reservation.duration_s)

    def _demand(self, number: int, shape: Shape, node: NodeProfile) -> ProfileDemand | None:
        # Whether the image is there is asked node by node (`ResourceRequest.on`).
        plain = shape
        if shape.needs_image_there or shape.node_id:
            plain = replace(shape, needs_image_there=False, node_id="", gpu_uuids=())
        if shortages(plain, full_capacity(node.free_now.node), self._cpu_tasks):
            return None
        suitable = {kind_of(gpu) for gpu in node.free_now.node.gpus if suits(gpu, shape)} if shape.uses_gpus else set()
        kinds = tuple(i for kind, i in node.kinds.items() if kind in suitable)
        cards = shape.share_units or shape.gpus
        demand = ProfileDemand(number, shape.cpu_centi, shape.memory_bytes, cards, kinds)
        if shape.gpu_share_bytes and len(kinds) > 1:
            return replace(demand, one_of=tuple(replace(demand, number=next(_numbers), kinds=(i,)) for i in kinds))
        return demand

    def _open(self, free_resources: Sequence[FreeResources]) -> None:
        """Makes the profiles of these nodes, with all that runs there."""
        machines = {free.node.id: capacity_of(free.node) for free in free_resources}
        ends: dict[NodeId, list[Change]] = {node_id: [] for node_id in machines}
        outlived: dict[NodeId, TaskId] = {}
        last_share: dict[tuple[NodeId, str], float] = {}
        end_unconfirmed = {booking.node_id: booking.task_id for booking in self._running if booking.end_unconfirmed}
        for booking in self._running:
            shape, node_id, until_s = booking.shape, booking.node_id, booking.until_s
            if until_s <= self.now_s:
                until_s = until_of(booking, self.now_s)
                outlived[node_id] = booking.task_id
            machine = machines.get(node_id)
            if machine is not None:
                if not shape.gpu_share_bytes:
                    cards = machine.cards(booking.gpu_uuids)
                else:
                    cards = machine.share(booking.gpu_uuids, shape.share_units)
                    for uuid in booking.gpu_uuids:
                        last_share[node_id, uuid] = max(until_s, last_share.get((node_id, uuid), until_s))
                ends[node_id].append((until_s, shape.cpu_centi, shape.memory_bytes, cards))
        for (node_id, uuid), until_s in last_share.items():
            cards = () if uuid in machines[node_id].shared else machines[node_id].cards((uuid,))
            if cards:  # it is not shared any more, and whole again once its last share has ended
                ends[node_id].append((until_s, 0, 0, cards))
        for free in free_resources:
            node_id, machine = free.node.id, machines[free.node.id]
            group = self._groups.setdefault(machine.alike, len(self._groups))
            node = NodeProfile(free, self.now_s, group, ends[node_id], machine)
            node.outlived, node.end_unconfirmed = outlived.get(node_id), end_unconfirmed.get(node_id)
            self.nodes[node_id] = node

    def _nodes_with_room_now(self, request: ResourceRequest) -> list[NodeProfile]:
        found = self._nodes_now.get(request.number)
        if found is None:
            found = self._nodes_now[request.number] = [
                node
                for node in self._by_first_free(request.shape.gpus, until_s=self.now_s)
                if (demand := request.on(node)) is not None and node.fits_now(demand)
            ]
        return found

    def _by_first_free(self, gpus: int, until_s: float = math.inf) -> Iterator[NodeProfile]:
        """The nodes that could have so many GPUs by ``until_s``, in the order of the moment when they could."""
        if len(self.nodes) == 1:
            yield from self.nodes.values()
            return
        order = self._orders.get(gpus)
        if order is None:
            order = self._orders[gpus] = NodesByFirstFree(gpus, self.nodes.values())
        for first_s, number in list(order.row):
            if first_s > until_s:
                return
            yield self._by_order[number]

    def _blocker(self, request: ResourceRequest) -> tuple[NodeId, TaskId] | None:
        longest: tuple[float, NodeProfile] | None = None
        for node in self._nodes_with_room_now(request):
            demand = request.on(node)
            if demand is not None:
                end = node.free_until(demand)
                if longest is None or end > longest[0]:
                    longest = (end, node)
        if longest is None:
            return None
        for task_id, reservation in self._kept.get(longest[1].id, {}).items():
            if reservation.start_s == longest[0]:
                return longest[1].id, task_id
        return None

    def _search(
        self, request: ResourceRequest, duration_s: float, after_s: float, avoid: Sequence[NodeId], spread: bool
    ) -> EarliestStart | None:
        best = math.inf
        ties: list[NodeProfile] = []
        gpus = request.shape.gpus
        for node in self._by_first_free(gpus):
            if node.first_free(gpus) > best:
                break
            demand = request.on(node)
            start_s = None if demand is None else node.earliest_start(demand, duration_s, after_s)
            if start_s is None or start_s > best:
                continue
            if start_s < best:
                best = start_s
                ties.clear()
            ties.append(node)
        if not ties:
            return None
        return EarliestStart(self._preferred(ties, request, best, avoid, spread=spread and best > self.now_s), best)

    def _preferred(
        self,
        ties: Sequence[NodeProfile],
        request: ResourceRequest,
        start_s: float,
        avoid: Sequence[NodeId],
        *,
        spread: bool,
    ) -> NodeProfile:
        """The node that the placement rule (`placement.choose`) takes among nodes that can all start the task then."""
        if len(ties) == 1:
            return ties[0]
        shape = request.shape
        uses_gpus = shape.uses_gpus

        def rank(node: NodeProfile) -> tuple[int, bool, int, bool, int]:
            demand = request.on(node)
            free = node.free_at(demand, start_s) if demand is not None and uses_gpus else 0
            return (
                avoid.count(node.id),
                not uses_gpus and bool(node.kinds) and self._cpu_tasks is CpuTasks.LAST_RESORT,
                -free if spread else free,
                bool(shape.image) and shape.image not in node.free_now.node.images,
                node.free_now.order,
            )

        return min(ties, key=rank)

    def _move(self, task: Task, reservation: Reservation, sign: int) -> None:
        start_s, end_s = max(reservation.start_s, self.now_s), reservation.start_s + reservation.duration_s
        if end_s <= start_s:
            return
        node, shape = self.nodes.get(reservation.node_id), task.shape
        if node is not None:
            cards = self._cards(reservation, node) or []
            node.take(
                sign * shape.cpu_centi,
                sign * shape.memory_bytes,
                [(kind, sign * count) for kind, count in cards],
                start_s,
                end_s,
            )
            self._blockers.clear()
            if start_s == self.now_s:
                self._nodes_now.clear()
            for order in self._orders.values():
                order.refresh(node)

    def _cards(self, reservation: Reservation, node: NodeProfile) -> list[tuple[int, int]] | None:
        """The reservation's cards as rows of the profile; None if the node has no such cards any more."""
        kinds, cards = node.kinds, []
        for kind, held in reservation.gpus:
            if kind not in kinds:
                return None
            cards.append((kinds[kind], held))
        return cards


def _within(reservation: Reservation, slack_s: float) -> tuple[float, float]:
    start_s = reservation.start_s + slack_s
    return start_s, max(start_s, reservation.start_s + reservation.duration_s - slack_s)
