"""Step functions of time: how much is free from each moment on, and what is known of the first start.

A step holds from its time up to the next one, the last for ever.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from headway.ids import TaskId

Cards = Sequence[tuple[int, int]]  # index of the kind, how many
Change = tuple[float, int, int, Cards]  # when, and the CPUs, memory and cards that are free from then on, or no more
# Times; the CPUs, memory and cards of each kind that are free then.
Steps = tuple[list[float], list[int], list[int], list[list[int]]]


class Allowance:
    """GPUs that an account, or all long tasks together, may still take."""

    __slots__ = ("_free", "_never_before", "_times", "_until", "kept", "limit")

    def __init__(self, now_s: float, limit: int) -> None:
        self.limit = limit
        self.kept: dict[TaskId, tuple[int, float]] = {}  # for waiting tasks: GPUs, and from when on
        self._times = [now_s]
        self._free = [limit]
        self._until: dict[int, float] = {}
        self._never_before: dict[int, StartBounds] = {}

    def take(self, gpus: int, start_s: float, end_s: float) -> None:
        """Books; a negative number gives back."""
        first, last = cut(self._times, (self._free,), start_s), cut(self._times, (self._free,), end_s)
        for i in range(first, last):
            self._free[i] -= gpus
        self._until.clear()
        if gpus < 0:
            self._never_before.clear()

    def with_all(self, bookings: Iterable[tuple[int, float, float]]) -> Allowance | None:
        """With all these (GPUs, from, up to) taken as well; None: that is too much at some moment."""
        made = Allowance(0.0, self.limit)
        made._times, made._free = self._times.copy(), self._free.copy()
        for gpus, start_s, end_s in bookings:
            made.take(gpus, start_s, end_s)
        return made if min(made._free) >= 0 else None

    def become(self, other: Allowance) -> None:
        """Takes over what ``with_all`` made."""
        self._times, self._free = other._times, other._free
        self._until.clear()
        self._never_before.clear()

    def until(self, gpus: int, own: tuple[float, float] | None = None) -> float:
        """Where the stretch of time ends in which so many are left from the first moment on. ``own``: from when up to
        when as many are booked for whoever asks."""
        found = self._until.get(gpus)
        if found is None:
            found = self._until[gpus] = self._first_lack(gpus, 0)
        if own is not None and own[0] <= found < own[1]:
            found = self._first_lack(gpus, bisect_left(self._times, own[1]))
        return found

    def blocker(self, gpus: int, at_s: float) -> TaskId | None:
        """For whom it is kept that there are not so many any longer from then on; None: those that run hold it."""
        if at_s > self._times[0]:
            return next((task_id for task_id, (_, start_s) in self.kept.items() if start_s == at_s), None)
        due = {task_id: held for task_id, (held, start_s) in self.kept.items() if start_s <= at_s}
        return next(iter(due), None) if self._free[0] + sum(due.values()) >= gpus else None

    def earliest_start(self, gpus: int, duration_s: float, after_s: float) -> float | None:
        """The first start from ``after_s`` on with so many for so long; None: never."""
        start_s = self._first_start(gpus, duration_s, after_s, math.inf)
        return start_s if start_s < math.inf else None

    def might_start_earlier(self, gpus: int, duration_s: float, start_s: float) -> bool:
        """Whether what is booked for so many and so long from ``start_s`` on could start earlier, were it taken out."""
        if start_s <= self._times[0]:
            return False
        if self._free[bisect_left(self._times, start_s) - 1] >= gpus:
            return True
        return self._first_start(gpus, duration_s, self._times[0], start_s) < start_s

    def _first_lack(self, gpus: int, first: int) -> float:
        steps = zip(self._times[first:], self._free[first:], strict=True)
        return next((time for time, free in steps if free < gpus), math.inf)

    def _first_start(self, gpus: int, duration_s: float, after_s: float, until_s: float) -> float:
        """The first start from ``after_s`` on; ``until_s`` or later: none before that."""
        bounds = self._never_before.get(gpus)
        if bounds is None:
            bounds = self._never_before[gpus] = StartBounds()
        known_s = bounds.of(duration_s)
        if known_s >= until_s:
            return known_s
        found_s = self._scan(gpus, duration_s, max(after_s, known_s), until_s)
        if after_s <= self._times[0] or known_s >= after_s:
            bounds.add(duration_s, min(found_s, until_s))
        return found_s

    def _scan(self, gpus: int, duration_s: float, from_s: float, until_s: float) -> float:
        times, frees = self._times, self._free
        begin: float | None = None
        for i in range(max(0, bisect_right(times, from_s) - 1), len(times)):
            time = times[i]
            if begin is not None and begin + duration_s <= time:
                return begin
            if frees[i] >= gpus:
                if begin is None:
                    if time >= until_s:
                        return until_s
                    begin = max(time, from_s)
            else:
                begin = None
                if time >= until_s:
                    return until_s
        return math.inf if begin is None else begin


class StartBounds:
    """What is known of the first start of one need, by its duration: a longer one starts no earlier."""

    __slots__ = ("_durations", "_starts")

    def __init__(self) -> None:
        self._durations: list[float] = []  # both rise
        self._starts: list[float] = []

    def of(self, duration_s: float) -> float:
        """No start is before this."""
        i = bisect_right(self._durations, duration_s)
        return self._starts[i - 1] if i else -math.inf

    def add(self, duration_s: float, start_s: float) -> None:
        """No start of this duration is before that."""
        if self.of(duration_s) >= start_s:
            return
        first = bisect_left(self._durations, duration_s)
        last = bisect_right(self._starts, start_s, lo=first)
        self._durations[first:last] = [duration_s]
        self._starts[first:last] = [start_s]


def steps_from(first: tuple[float, int, int, list[int]], changes: Iterable[Change]) -> Steps:
    """The steps from what is free at first, with these changes, which are in the order of time."""
    last_s, cpu, memory, now = first
    times, cpus, memories, cards = [last_s], [cpu], [memory], [[free] for free in now]
    for at_s, more_cpu, more_memory, more_cards in changes:
        if at_s > last_s:
            times.append(at_s)
            cpus.append(cpu)
            memories.append(memory)
            for row, free in zip(cards, now, strict=True):
                row.append(free)
            last_s = at_s
        if more_cpu:
            cpu += more_cpu
            cpus[-1] = cpu
        if more_memory:
            memory += more_memory
            memories[-1] = memory
        for kind, count in more_cards:
            now[kind] += count
            cards[kind][-1] = now[kind]
    return times, cpus, memories, cards


def time_of(change: Change) -> float:
    return change[0]


def cut(times: list[float], rows: Sequence[list[int]], at_s: float) -> int:
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
