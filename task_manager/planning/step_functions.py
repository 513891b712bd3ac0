"""Step functions of time: how much is free from each moment on, and lower bounds of the first start.

A step holds from its time to the next one, the last step for ever. Times are in seconds by the pass's clock.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

Cards = Sequence[tuple[int, int]]  # index of the kind, how many
# A time, and how many hundredths of a CPU, bytes of memory and cards become free then; negative: are taken then.
Change = tuple[float, int, int, Cards]
# Times, and what is free from each: hundredths of a CPU, bytes of memory, cards of each kind.
Steps = tuple[list[float], list[int], list[int], list[list[int]]]

Window = tuple[float, float]  # from, up to


class StartBounds:
    """Lower bounds of the first start of one demand, by its duration: a longer one starts no earlier."""

    __slots__ = ("_durations", "_starts")

    def __init__(self) -> None:
        self._durations: list[float] = []  # both lists are in rising order
        self._starts: list[float] = []

    def of(self, duration_s: float) -> float:
        """No start of this duration is before the returned time."""
        i = bisect_right(self._durations, duration_s)
        return self._starts[i - 1] if i else -math.inf

    def add(self, duration_s: float, start_s: float) -> None:
        """Notes that no start of this duration is before ``start_s``."""
        if self.of(duration_s) >= start_s:
            return
        first = bisect_left(self._durations, duration_s)
        last = bisect_right(self._starts, start_s, lo=first)
        self._durations[first:last] = [duration_s]
        self._starts[first:last] = [start_s]


def steps_from(first: tuple[float, int, int, list[int]], changes: Iterable[Change]) -> Steps:
    """The steps that begin with ``first`` and follow these changes, which must be in the order of time."""
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
    """The time of a change."""
    return change[0]


def cut(times: list[float], rows: Sequence[list[int]], at_s: float) -> int:
    """Makes a step begin at ``at_s`` and returns its index. A time before the first step counts as the first step."""
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


def spans(times: Sequence[float], rows: Sequence[tuple[Sequence[int], int]], until_s: float) -> list[Window]:
    """The longest spans that begin by ``until_s`` in which each row is at least its number, in order."""
    found: list[Window] = []
    start: float | None = None
    for i, time in enumerate(times):
        if all(row[i] >= least for row, least in rows):
            if start is None:
                if time > until_s:
                    break
                start = time
        elif start is not None:
            found.append((start, time))
            start = None
        elif time > until_s:
            break
    if start is not None:
        found.append((start, math.inf))
    return found


def latest_in(windows: Iterable[Sequence[Window]], duration_s: float, until_s: float) -> float | None:
    """The latest start up to ``until_s`` from which on all of these lists have a span for so long; None: there is none.

    The spans of a list are in order and do not touch.
    """
    stacks = [list(spans_of) for spans_of in windows]
    start_s = until_s
    while True:
        before_s = start_s
        for stack in stacks:
            while stack and (stack[-1][0] > start_s or _latest(stack[-1], duration_s, start_s) is None):
                stack.pop()
            if not stack:
                return None
            found_s = _latest(stack[-1], duration_s, start_s)
            assert found_s is not None
            start_s = found_s
        if start_s == before_s:
            return start_s


def _latest(span: Window, duration_s: float, until_s: float) -> float | None:
    start_s = min(until_s, span[1] - duration_s)
    while start_s + duration_s > span[1]:  # a sum may be rounded up
        start_s = math.nextafter(start_s, -math.inf)
    return start_s if start_s >= span[0] else None
