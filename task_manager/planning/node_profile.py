"""What is free of a node at every moment from now on, as a step function of time.

Bookings have exact ends, so it is known what will be free. A step holds from its time to the next one, the last step
for ever. All times are in seconds by the pass's clock.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headway.ids import NodeId, TaskId

from .node_capacity import NodeCapacity, capacity_of
from .placement import FreeResources
from .step_functions import Cards, Change, StartBounds, Steps, Window, cut, spans, steps_from, time_of


@dataclass(frozen=True, slots=True, eq=False)
class ProfileDemand:
    """What a shape demands of one kind of node.

    ``kinds`` are the indexes of the suitable kinds of cards in `NodeProfile.kinds`; the first ones are given first.
    ``gpus`` is how many of them; for a share it is how many units of one shared card.
    """

    number: int
    cpu_centi: int
    memory_bytes: int
    gpus: int
    kinds: tuple[int, ...]
    named: tuple[str, ...] = ()  # exactly these cards
    # A share that may be on any of several cards, on one of them for its whole time: it asks for one of these.
    one_of: tuple[ProfileDemand, ...] = ()


class NodeProfile:
    """What is free of one open node over time."""

    __slots__ = (
        "_cards",
        "_cpu",
        "_first",
        "_least",
        "_memory",
        "_never_before",
        "_times",
        "_whole",
        "_windows",
        "end_unconfirmed",
        "free_cards",
        "free_now",
        "group",
        "kinds",
        "outlived",
    )  # fmt: skip

    def __init__(
        self,
        free_now: FreeResources,
        now_s: float,
        group: int = 0,
        ends: Iterable[Change] = (),
        machine: NodeCapacity | None = None,
    ) -> None:
        self.free_now = free_now
        self.group = group  # of nodes that are alike when empty
        self.free_cards = list(free_now.gpus)  # now; starts take from it
        machine = machine or capacity_of(free_now.node)
        self.kinds = machine.kinds
        self._whole = machine.whole
        self.outlived: TaskId | None = None  # its attempt here runs beyond its booking, so its end is a guess
        self.end_unconfirmed: TaskId | None = None  # its Worker has not confirmed its end yet, so its end is a guess
        self._windows: dict[int, list[Window]] = {}
        self._first: dict[int, float] = {}
        self._never_before: dict[int, StartBounds] = {}  # by the number of a need
        self._least: tuple[int, int] | None = None  # CPUs and memory that are free at every moment
        self._times, self._cpu, self._memory, self._cards = machine.steps(free_now, now_s, list(ends))

    @property
    def id(self) -> NodeId:
        return self.free_now.node.id

    @property
    def is_sure(self) -> bool:
        """Whether the ends of all that runs here are known: a start behind a guess is not promised."""
        return self.outlived is None and self.end_unconfirmed is None

    # -- bookings ---------------------------------------------------------------------------------

    def take(self, cpu_centi: int, memory_bytes: int, cards: Cards, start_s: float, end_s: float) -> None:
        """Books CPUs, memory and ``cards`` from ``start_s`` to ``end_s``; negative numbers give back."""
        rows = (self._cpu, self._memory, *self._cards)
        first, last = cut(self._times, rows, start_s), cut(self._times, rows, end_s)
        for row, taken in ((self._cpu, cpu_centi), (self._memory, memory_bytes)):
            if taken:
                row[first:last] = [free - taken for free in row[first:last]]
                self._least = None
        gives = cpu_centi < 0 or memory_bytes < 0
        for kind, count in cards:
            row = self._cards[kind]
            row[first:last] = [free - count for free in row[first:last]]
            gives = gives or count < 0
        self._windows.clear()
        if gives:
            self._first.clear()
            self._never_before.clear()
        else:  # less is free now, so a start that was too early still is
            for gpus in [gpus for gpus, free_s in self._first.items() if start_s <= free_s < end_s]:
                del self._first[gpus]

    def with_all(self, changes: Sequence[Change]) -> Steps | None:
        """The steps with all these changes as well; None: they take more than there is at some moment."""
        first = (self._times[0], self._cpu[0], self._memory[0], [row[0] for row in self._cards])
        steps = steps_from(first, sorted([*self._as_changes(), *changes], key=time_of))
        _, cpu, memory, cards = steps
        if min(cpu) < 0 or min(memory) < 0 or any(min(row) < 0 for row in cards):
            return None
        return steps

    def become(self, steps: Steps) -> None:
        """Replaces the steps by what ``with_all`` returned."""
        self._times, self._cpu, self._memory, self._cards = steps
        self._windows.clear()
        self._first.clear()
        self._never_before.clear()
        self._least = None

    # -- reading ----------------------------------------------------------------------------------

    def first_free(self, gpus: int) -> float:
        """The first moment at which so many whole GPUs of any kind are free: a lower bound of any start."""
        found = self._first.get(gpus)
        if found is None:
            rows = [self._cards[kind] for kind in self._whole]
            totals = rows[0] if len(rows) == 1 else [sum(at) for at in zip(*rows, strict=True)]
            found = self._times[0] if not gpus else math.inf
            for time, total in zip(self._times, totals, strict=False):
                if total >= gpus:
                    found = time
                    break
            self._first[gpus] = found
        return found

    def fits_now(self, demand: ProfileDemand) -> bool:
        """Whether it fits at this moment, even if only for a short time."""
        if demand.one_of:
            return any(self.fits_now(one) for one in demand.one_of)
        return (
            demand.cpu_centi <= self._cpu[0]
            and demand.memory_bytes <= self._memory[0]
            and (demand.gpus == 0 or demand.gpus <= sum([self._cards[kind][0] for kind in demand.kinds]))
            and (not demand.named or self.has_named(demand.named))
        )

    def has_named(self, uuids: Sequence[str]) -> bool:
        """Whether all these cards are free now. The rows count cards of a kind, and not which ones."""
        free = {gpu.uuid for gpu in self.free_cards}
        return free.issuperset(uuids)

    def free_at(self, demand: ProfileDemand, at_s: float) -> int:
        """How many suitable cards are free at that moment; for a share: units of the fullest card with room for it."""
        i = max(0, bisect_right(self._times, at_s) - 1)
        if demand.one_of:
            free = [self._cards[kind][i] for kind in demand.kinds]
            return min((units for units in free if units >= demand.gpus), default=0)
        return sum([self._cards[kind][i] for kind in demand.kinds])

    def free_until(self, demand: ProfileDemand) -> float:
        """Until when it fits without a break from this moment on; infinity: for ever."""
        if demand.one_of:
            return max(self.free_until(one) for one in demand.one_of)
        if demand.named and not self.has_named(demand.named):
            return self._times[0]
        free, gpus = self._row(demand)
        for i, time in enumerate(self._times):
            if free[i] < gpus or self._cpu[i] < demand.cpu_centi or self._memory[i] < demand.memory_bytes:
                return time
        return math.inf

    def windows(self, demand: ProfileDemand) -> list[Window]:
        """The longest spans of time in which it fits at every moment, in order."""
        found = self._windows.get(demand.number)
        if found is None:
            found = self._windows[demand.number] = self._find_windows(demand)
        return found

    def earliest_start(self, demand: ProfileDemand, duration_s: float, after_s: float) -> float | None:
        """The first start from ``after_s`` on; None: there is none."""
        if demand.one_of:
            starts = [self.earliest_start(one, duration_s, after_s) for one in demand.one_of]
            return min((start_s for start_s in starts if start_s is not None), default=None)
        if len(demand.kinds) <= 1 or demand.gpus == 0:
            start_s = self._first_start(demand, duration_s, after_s, math.inf)
            return start_s if start_s < math.inf else None
        for start, end in self.windows(demand):
            start = max(start, after_s)
            if start + duration_s > end:
                continue
            held = self._first_held(demand, duration_s, start, end)
            if held is not None:
                return held
        return None

    def might_start_earlier(self, demand: ProfileDemand, duration_s: float, start_s: float) -> bool:
        """Whether a task that is booked here from ``start_s`` on could start earlier without its booking."""
        if demand.one_of:
            return any(self.might_start_earlier(one, duration_s, start_s) for one in demand.one_of)
        if len(demand.kinds) <= 1 or demand.gpus == 0:
            if start_s <= self._times[0]:
                return False
            at = bisect_left(self._times, start_s) - 1
            free, gpus = self._row(demand)
            if free[at] >= gpus and self._cpu[at] >= demand.cpu_centi and self._memory[at] >= demand.memory_bytes:
                return True
            return self._first_start(demand, duration_s, self._times[0], start_s) < start_s
        return any(
            start < start_s and (end >= start_s or start + duration_s <= end) for start, end in self.windows(demand)
        )

    def cards_for(self, demand: ProfileDemand, start_s: float, end_s: float) -> list[tuple[int, int]]:
        """How many cards of each kind to take for the whole time; too few in all if it does not fit.

        A share takes the fullest card on which it fits for the whole time.
        """
        cards = []
        left = demand.gpus
        first, last = self._span(start_s, end_s)
        if demand.one_of:
            free = [(min(self._cards[kind][first:last]), kind) for kind in demand.kinds]
            best = min(((units, kind) for units, kind in free if units >= left), default=None)
            return [] if best is None else [(best[1], left)]
        for kind in demand.kinds:
            count = min(left, min(self._cards[kind][first:last]))
            if count > 0:
                cards.append((kind, count))
                left -= count
        return cards

    def has_free(
        self, cpu_centi: int, memory_bytes: int, cards: Sequence[tuple[int, int]], start_s: float, end_s: float
    ) -> bool:
        """Whether exactly this is free for the whole time."""
        first, last = self._span(start_s, end_s)
        return (
            min(self._cpu[first:last]) >= cpu_centi
            and min(self._memory[first:last]) >= memory_bytes
            and all(min(self._cards[kind][first:last]) >= count for kind, count in cards)
        )

    def spans_with(self, cpu_centi: int, memory_bytes: int, cards: Cards, until_s: float) -> list[Window]:
        """The longest spans that begin by ``until_s`` in which exactly this is free, in order."""
        rows = [(self._cards[kind], count) for kind, count in cards]
        if self._least is None:
            self._least = (min(self._cpu), min(self._memory))
        if cpu_centi > self._least[0]:
            rows.append((self._cpu, cpu_centi))
        if memory_bytes > self._least[1]:
            rows.append((self._memory, memory_bytes))
        return spans(self._times, rows, until_s)

    def changes_after(self, at_s: float) -> float:
        """The next moment after ``at_s`` at which the free resources change; infinity: never."""
        i = bisect_right(self._times, at_s)
        return self._times[i] if i < len(self._times) else math.inf

    # -- inside -----------------------------------------------------------------------------------

    def _as_changes(self) -> list[Change]:
        changes: list[Change] = []
        for i in range(1, len(self._times)):
            cards = [(kind, row[i] - row[i - 1]) for kind, row in enumerate(self._cards)]
            change = (self._times[i], self._cpu[i] - self._cpu[i - 1], self._memory[i] - self._memory[i - 1], cards)
            changes.append(change)
        return changes

    def _span(self, start_s: float, end_s: float) -> tuple[int, int]:
        first = max(0, bisect_right(self._times, start_s) - 1)
        return first, max(first + 1, bisect_left(self._times, end_s))

    def _row(self, demand: ProfileDemand) -> tuple[Sequence[int], int]:
        """What is free of the demanded cards over time, and how many are demanded."""
        if demand.gpus == 0:
            return self._cpu, demand.cpu_centi  # any row that is long enough: no card is asked for
        if len(demand.kinds) == 1:
            return self._cards[demand.kinds[0]], demand.gpus
        return [sum(at) for at in zip(*(self._cards[kind] for kind in demand.kinds), strict=True)], demand.gpus

    def _first_start(self, demand: ProfileDemand, duration_s: float, after_s: float, until_s: float) -> float:
        """The first start from ``after_s`` on, for cards of one kind; ``until_s`` or later: there is none before."""
        bounds = self._never_before.get(demand.number)
        if bounds is None:
            bounds = self._never_before[demand.number] = StartBounds()
        known_s = bounds.of(duration_s)
        if known_s >= until_s:
            return known_s
        from_s = max(after_s, known_s)
        found_s = self._scan(demand, duration_s, from_s, until_s)
        if after_s <= self._times[0] or known_s >= after_s:
            bounds.add(duration_s, min(found_s, until_s))
        return found_s

    def _scan(self, demand: ProfileDemand, duration_s: float, from_s: float, until_s: float) -> float:
        if self._least is None:
            self._least = (min(self._cpu), min(self._memory))
        free, gpus = self._row(demand)
        cpu_centi, memory_bytes = demand.cpu_centi, demand.memory_bytes
        cards_only = cpu_centi <= self._least[0] and memory_bytes <= self._least[1]
        times = self._times
        begin: float | None = None
        for i in range(max(0, bisect_right(times, from_s) - 1), len(times)):
            time = times[i]
            if begin is not None and begin + duration_s <= time:
                return begin
            if free[i] >= gpus and (cards_only or (self._cpu[i] >= cpu_centi and self._memory[i] >= memory_bytes)):
                if begin is None:
                    if time >= until_s:
                        return until_s
                    begin = max(time, from_s)
            else:
                begin = None
                if time >= until_s:
                    return until_s
        return math.inf if begin is None else begin

    def _find_windows(self, demand: ProfileDemand) -> list[Window]:
        free, gpus = self._row(demand)
        cpu_centi, memory_bytes = demand.cpu_centi, demand.memory_bytes
        if self._least is None:
            self._least = (min(self._cpu), min(self._memory))
        found = []
        start: float | None = None
        if cpu_centi <= self._least[0] and memory_bytes <= self._least[1]:
            for time, cards in zip(self._times, free, strict=True):
                if cards >= gpus:
                    if start is None:
                        start = time
                elif start is not None:
                    found.append((start, time))
                    start = None
        else:
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

    def _first_held(self, demand: ProfileDemand, duration_s: float, start: float, end: float) -> float | None:
        # At each moment enough cards may be free, but not the same ones. A task holds the same cards all the time.
        for time in (start, *self._times[bisect_right(self._times, start) :]):
            if time + duration_s > end:
                return None
            if sum(count for _, count in self.cards_for(demand, time, time + duration_s)) >= demand.gpus:
                return time
        return None


class NodesByFirstFree:
    """The nodes, sorted by the first moment at which they could have so many GPUs."""

    def __init__(self, gpus: int, nodes: Iterable[NodeProfile]) -> None:
        self._gpus = gpus
        self._known = {node.free_now.order: node.first_free(gpus) for node in nodes}
        self.row = sorted((first_s, number) for number, first_s in self._known.items())

    def refresh(self, node: NodeProfile) -> None:
        """Moves the node to its new position after its bookings have changed."""
        number, first_s = node.free_now.order, node.first_free(self._gpus)
        known = self._known[number]
        if first_s != known:
            del self.row[bisect_left(self.row, (known, number))]
            insort(self.row, (first_s, number))
            self._known[number] = first_s
