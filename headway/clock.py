"""Time as an argument: one ``Clock`` is injected wherever something depends on it."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What the services know of time.

    ``now`` may step backwards or forwards (people set clocks); anything that measures a duration, a lease or a
    timeout uses ``monotonic``, which counts seconds since boot and goes on during suspend.
    """

    def now(self) -> float:
        """Wall-clock time in seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds since boot (CLOCK_BOOTTIME): never steps."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait ``seconds`` (zero or less: only let others run)."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
