"""Many alarms on one clock: one sleeping task, however many attempts have a moment to be woken at."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from headway.clock import Clock
from headway.waiting import wait

_FEW = 64


@dataclass(slots=True, order=True)
class Alarm:
    """One alarm that was set; ``Alarms.cancel`` takes it back."""

    at: float  # monotonic seconds
    order: int
    ring: Callable[[], None] | None = field(compare=False)


class Alarms:
    """``set`` and ``cancel`` on the event loop; callbacks run there too, while ``run`` is running."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[Alarm] = []
        self._cancelled = 0
        self._order = itertools.count()
        self._sooner = asyncio.Event()

    def set(self, at: float, ring: Callable[[], None]) -> Alarm:
        """Call ``ring`` at ``at`` (monotonic seconds) or soon after."""
        alarm = Alarm(at, next(self._order), ring)
        heapq.heappush(self._heap, alarm)
        if self._heap[0] is alarm:
            self._sooner.set()
        return alarm

    def cancel(self, alarm: Alarm | None) -> None:
        """Safe twice, and after it rang."""
        if alarm is None or alarm.ring is None:
            return
        alarm.ring = None
        self._cancelled += 1
        # A day-long timeout of a task that took a second must not keep its attempt in memory for that day.
        if self._cancelled > _FEW and 2 * self._cancelled > len(self._heap):
            self._heap = [one for one in self._heap if one.ring is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    async def run(self) -> None:
        """Rings what is due. Sleeps without an end while nothing is set."""
        while True:
            now = self._clock.monotonic()
            while self._heap and (self._heap[0].ring is None or self._heap[0].at <= now):
                alarm = heapq.heappop(self._heap)
                ring, alarm.ring = alarm.ring, None
                if ring is None:
                    self._cancelled = max(0, self._cancelled - 1)
                else:
                    ring()
            self._sooner.clear()
            if not self._heap:
                await self._sooner.wait()
                continue
            await wait(self._sooner, self._heap[0].at - now, self._clock)
