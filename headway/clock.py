"""Time as an argument: one ``Clock`` is injected wherever something depends on it."""

from __future__ import annotations

import asyncio
import time
from functools import cache
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """What the services know of time.

    ``now`` may step backwards or forwards, since people set clocks. What measures a duration, a lease or a timeout uses
    ``monotonic``. It counts seconds since boot and goes on during suspend.
    """

    def now(self) -> float:
        """Wall-clock time in seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds since boot (CLOCK_BOOTTIME): never steps."""
        ...

    def boot_id(self) -> str:
        """Changes with every boot: what ``monotonic`` said and was written down counts only with the same one."""
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

    def boot_id(self) -> str:
        return _boot_id()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
