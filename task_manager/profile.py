"""What is left of a node, or of an allowance, at every moment from now on.

A step function of time: bookings end at exact bounds, so what is free in the future is known. Times are by the pass's
clock; a step holds from its time up to the next one, the last for ever.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headway.ids import NodeId, TaskId

from .model import Gpu, Node
from .placement import Room
from .places import kind_of

Window = tuple[float, float]  # from, up to
End = tuple[float, int, int, Sequence[int]]  # of a live attempt: when, and the CPUs, memory and kinds of cards it gives


class Allowance:
    """GPUs that an account, or all long tasks together, may still take."""

    __slots__ = ("_free", "_times")

    def __init__(self, now_s: float, limit: int) -> None:
        self._times = [now_s]
        self._free = [limit]

    def take(self, gpus: int, start_s: float, end_s: float) -> None:
        """Books; a negative number gives back."""
        first, last = _cut(self._times, (self._free,), start_s), _cut(self._times, (self._free,), end_s)
        for i in range(first, last):
            self._free[i] -= gpus

    def earliest(self, gpus: int, duration_s: float, after_s: float) -> float | None:
        """The first start from ``after_s`` on with so many for so long; None: never."""
        start: float | None = None
        for i, free in enumerate(self._free):
            until = self._times[i + 1] if i + 1 < len(self._times) else math.inf
            if free < gpus:
                start = None
            elif until > after_s:
                if start is None:
                    start = max(self._times[i], after_s)
                if start + duration_s <= until:
                    return start
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """What a shape asks of one kind of node. ``kinds``: places of the suitable cards in `NodeProfile.kinds`, those that
    are given first in front."""

    number: int
    cpu_centi: int
    memory_bytes: int
    gpus: int
    kinds: tuple[int, ...]


class NodeProfile:
    """One open node."""

    __slots__ = (
        "_cards", "_cpu", "_first", "_memory", "_times", "_windows", "free_cards", "group", "kinds", "outlived", "room",
    )  # fmt: skip

    def __init__(self, room: Room, now_s: float, group: int = 0, ends: Iterable[End] = ()) -> None:
        self.room = room
        self.group = group  # of nodes that are alike when empty
        self.free_cards = list(room.gpus)  # now; starts take from it
        self.kinds = machine_of(room.node).kinds
        self.outlived: TaskId | None = None  # an attempt here has outlived its booking: when it ends is a guess
        counts = Counter(kind_of(gpu) for gpu in room.gpus)
        self._times = [now_s]
        self._cpu = [room.cpu_centi]
        self._memory = [room.memory_bytes]
        self._cards = [[counts[kind]] for kind in self.kinds]
        self._add_ends(ends)
        self._windows: dict[int, list[Window]] = {}
        self._first: dict[int, float] = {}

    @property
    def id(self) -> NodeId:
        return self.room.node.id

    # -- bookings ---------------------------------------------------------------------------------

    def take(
        self, cpu_centi: int, memory_bytes: int, cards: Sequence[tuple[int, int]], start_s: float, end_s: float
    ) -> None:
        """Books CPUs, memory and ``cards`` (index of the kind, how many); negative numbers give back."""
        rows = (self._cpu, self._memory, *self._cards)
        first, last = _cut(self._times, rows, start_s), _cut(self._times, rows, end_s)
        for i in range(first, last):
            self._cpu[i] -= cpu_centi
            self._memory[i] -= memory_bytes
        for kind, count in cards:
            row = self._cards[kind]
            for i in range(first, last):
                row[i] -= count
        self._windows.clear()
        self._first.clear()

    # -- reading ----------------------------------------------------------------------------------

    def first_free(self, gpus: int) -> float:
        """No start for so many GPUs of whatever kind is before this."""
        found = self._first.get(gpus)
        if found is None:
            totals = self._cards[0] if len(self._cards) == 1 else [sum(at) for at in zip(*self._cards, strict=True)]
            found = self._times[0] if not gpus else math.inf
            for time, total in zip(self._times, totals, strict=False):
                if total >= gpus:
                    found = time
                    break
            self._first[gpus] = found
        return found

    def fits_now(self, need: Need) -> bool:
        """Whether it fits at this moment, for however short a time."""
        return (
            need.cpu_centi <= self._cpu[0]
            and need.memory_bytes <= self._memory[0]
            and (need.gpus == 0 or need.gpus <= sum([self._cards[kind][0] for kind in need.kinds]))
        )

    def free_at(self, need: Need, at_s: float) -> int:
        """Suitable cards at that moment."""
        i = max(0, bisect_right(self._times, at_s) - 1)
        return sum([self._cards[kind][i] for kind in need.kinds])

    def windows(self, need: Need) -> list[Window]:
        """The longest stretches of time in which it fits at every moment, in order."""
        found = self._windows.get(need.number)
        if found is None:
            found = self._windows[need.number] = self._find_windows(need)
        return found

    def earliest(self, need: Need, duration_s: float, after_s: float) -> float | None:
        """The first start from ``after_s`` on; None: never."""
        for start, end in self.windows(need):
            start = max(start, after_s)
            if start + duration_s > end:
                continue
            if len(need.kinds) <= 1 or need.gpus == 0:
                return start
            held = self._first_held(need, duration_s, start, end)
            if held is not None:
                return held
        return None

    def might_move_up(self, need: Need, duration_s: float, start_s: float) -> bool:
        """Whether a task that is booked here from ``start_s`` on could start earlier, were its booking taken out."""
        return any(
            start < start_s and (end >= start_s or start + duration_s <= end) for start, end in self.windows(need)
        )

    def cards_for(self, need: Need, start_s: float, end_s: float) -> list[tuple[int, int]]:
        """How many of each kind to take for the whole time; fewer than it needs when it does not fit."""
        cards = []
        left = need.gpus
        first, last = self._span(start_s, end_s)
        for kind in need.kinds:
            count = min(left, min(self._cards[kind][first:last]))
            if count > 0:
                cards.append((kind, count))
                left -= count
        return cards

    def holds(
        self, cpu_centi: int, memory_bytes: int, cards: Sequence[tuple[int, int]], start_s: float, end_s: float
    ) -> bool:
        """Whether exactly this is free the whole time."""
        first, last = self._span(start_s, end_s)
        return (
            min(self._cpu[first:last]) >= cpu_centi
            and min(self._memory[first:last]) >= memory_bytes
            and all(min(self._cards[kind][first:last]) >= count for kind, count in cards)
        )

    # -- inside -----------------------------------------------------------------------------------

    def _add_ends(self, ends: Iterable[End]) -> None:
        rows = (self._cpu, self._memory, *self._cards)
        for until_s, cpu_centi, memory_bytes, cards in sorted(ends, key=lambda end: end[0]):
            if until_s > self._times[-1]:
                self._times.append(until_s)
                for row in rows:
                    row.append(row[-1])
            self._cpu[-1] += cpu_centi
            self._memory[-1] += memory_bytes
            for kind in cards:
                self._cards[kind][-1] += 1

    def _span(self, start_s: float, end_s: float) -> tuple[int, int]:
        first = max(0, bisect_right(self._times, start_s) - 1)
        return first, max(first + 1, bisect_left(self._times, end_s))

    def _find_windows(self, need: Need) -> list[Window]:
        if need.gpus == 0:
            free: Sequence[int] = self._cpu  # any row that is long enough: no card is asked for
            gpus = need.cpu_centi
        elif len(need.kinds) == 1:
            free, gpus = self._cards[need.kinds[0]], need.gpus
        else:
            free = [sum(at) for at in zip(*(self._cards[kind] for kind in need.kinds), strict=True)]
            gpus = need.gpus
        cpu_centi, memory_bytes = need.cpu_centi, need.memory_bytes
        found = []
        start: float | None = None
        for time, cpu, memory, cards in zip(self._times, self._cpu, self._memory, free, strict=True):
            if cards >= gpus and cpu >= cpu_centi and memory >= memory_bytes:
                if start is None:
                    start = time
            elif start is not None:
                found.append((start, time))
                start = None
        if start is not None:
            found.append((start, math.inf))
        return found

    def _first_held(self, need: Need, duration_s: float, start: float, end: float) -> float | None:
        # Enough suitable cards at every moment may be different ones; a task holds the same all the time.
        for time in (start, *self._times[bisect_right(self._times, start) :]):
            if time + duration_s > end:
                return None
            if sum(count for _, count in self.cards_for(need, time, time + duration_s)) >= need.gpus:
                return time
        return None


class FirstFree:
    """The nodes by the first moment at which they could have so many GPUs."""

    def __init__(self, gpus: int, nodes: Iterable[NodeProfile]) -> None:
        self._gpus = gpus
        self._known = {node.room.order: node.first_free(gpus) for node in nodes}
        self.row = sorted((first_s, number) for number, first_s in self._known.items())

    def refresh(self, node: NodeProfile) -> None:
        """The node's bookings have changed."""
        number, first_s = node.room.order, node.first_free(self._gpus)
        known = self._known[number]
        if first_s != known:
            del self.row[bisect_left(self.row, (known, number))]
            insort(self.row, (first_s, number))
            self._known[number] = first_s


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """What a node is, whatever runs there."""

    node: Node
    kinds: dict[str, int]  # of its cards, with their places in rows; the least specific in front
    usable: dict[str, int]  # the cards that work, and their kinds' places
    alike: tuple[object, ...]  # equal for nodes that can hold the same shapes when empty, images aside


_machines: dict[int, Machine] = {}  # by the id of the node: a node's value never changes, so neither does this
_MACHINES_KEPT = 4096


def machine_of(node: Node) -> Machine:
    """Looked up again at each pass, worked out once."""
    found = _machines.get(id(node))
    if found is None or found.node is not node:
        if len(_machines) >= _MACHINES_KEPT:
            _machines.clear()
        kinds = kinds_of(node.gpus)
        found = _machines[id(node)] = Machine(
            node,
            kinds,
            {gpu.uuid: kinds[kind_of(gpu)] for gpu in node.gpus if gpu.usable},
            (
                tuple(sorted(kind_of(gpu) for gpu in node.gpus if gpu.usable)),
                tuple(kinds),
                (node.architecture, node.driver_version, node.cuda_version, node.cpu_centi, node.memory_bytes),
            ),
        )
    return found


def kinds_of(gpus: Sequence[Gpu]) -> dict[str, int]:
    """The kinds of a node's cards with their places in rows; the least specific in front."""
    ordered = sorted({(gpu.memory_bytes, gpu.model, kind_of(gpu)) for gpu in gpus})
    return {kind: i for i, (_, _, kind) in enumerate(ordered)}


def _cut(times: list[float], rows: Sequence[list[int]], at_s: float) -> int:
    """Makes a step begin at ``at_s``, and returns its place; what lies before the first step begins with it."""
    if at_s == math.inf:
        return len(times)
    i = bisect_left(times, at_s)
    if i < len(times) and times[i] == at_s:
        return i
    if i == 0:
        return 0
    times.insert(i, at_s)
    for row in rows:
        row.insert(i, row[i - 1])
    return i
