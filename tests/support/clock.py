"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from dataclasses import dataclass, field

# Turns that the event loop gets after each wake-up. A task that wakes, works through a few awaits and sleeps
# again needs a handful; the rest is room for chains of tasks.
_TURNS = 25


@dataclass(order=True, slots=True)
class _Sleeper:
    wake_at: float
    order: int
    woken: asyncio.Future[None] = field(compare=False)


class FakeClock:
    """A ``headway.clock.Clock`` for tests.

    ``advance`` moves both clocks and wakes sleepers in the order of their deadlines, each at exactly its own
    instant, so that a loop that sleeps ten seconds at a time runs six times in a minute. ``step_wall`` moves
    the wall clock alone, as time synchronisation does.
    """

    def __init__(self, *, now: float = 1_800_000_000.0, monotonic: float = 1_000.0) -> None:
        self._now = now
        self._boots = 1
        self._monotonic = monotonic
        self._order = itertools.count()
        self._sleepers: list[_Sleeper] = []

    def now(self) -> float:
        """Wall-clock time in seconds since the epoch."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since boot."""
        return self._monotonic

    def boot_id(self) -> str:
        """Of this life of the machine."""
        return f"boot {self._boots}"

    async def sleep(self, seconds: float) -> None:
        """Wait until the test has advanced the clock by ``seconds``."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        sleeper = _Sleeper(self._monotonic + seconds, next(self._order), asyncio.get_running_loop().create_future())
        heapq.heappush(self._sleepers, sleeper)
        await sleeper.woken

    @property
    def sleeping(self) -> int:
        """How many are waiting on this clock."""
        return sum(1 for sleeper in self._sleepers if not sleeper.woken.done())

    async def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass, waking every sleeper that falls due on the way, also those who sleep anew."""
        if seconds < 0:
            raise ValueError("time does not run backwards; step_wall moves the wall clock")
        end = self._monotonic + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0].wake_at <= end:
            self._move_to(self._sleepers[0].wake_at)
            while self._sleepers and self._sleepers[0].wake_at <= self._monotonic:
                sleeper = heapq.heappop(self._sleepers)
                if not sleeper.woken.done():
                    sleeper.woken.set_result(None)
            await self.settle()
        self._move_to(end)
        await self.settle()

    def tick(self, seconds: float) -> None:
        """Let ``seconds`` pass for code that only reads the clock; sleepers wake at the next ``advance``."""
        self._move_to(self._monotonic + seconds)

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back, leaving the monotonic one alone."""
        self._now += seconds

    def reboot(self) -> None:
        """Another life of the machine: what the boot clock said and was written down tells nothing any more."""
        self._boots += 1

    async def settle(self) -> None:
        """Let every task that can go on do so. Work in threads isn't waited for: use ``eventually`` there."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    def _move_to(self, instant: float) -> None:
        passed = max(0.0, instant - self._monotonic)
        self._now += passed
        self._monotonic += passed
