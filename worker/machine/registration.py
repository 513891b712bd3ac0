"""Tells ResourceManager that this machine is there, and at once when something keeps it from taking work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import Fenced, HeadwayError
from headway.logs import get_logger
from headway.waiting import wait

from .conditions import Conditions

log = get_logger(__name__)

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0


class Registration:
    """``register`` answers the poll interval in seconds; ``report`` whether ResourceManager knows this node. Both raise
    HeadwayErrors while it is away."""

    def __init__(
        self,
        register: Callable[[], Awaitable[float]],
        report: Callable[[], Awaitable[bool]],
        conditions: Conditions,
        clock: Clock,
    ) -> None:
        self._register = register
        self._report = report
        self._conditions = conditions
        self._clock = clock
        self._polled_at = 0.0
        self.registered = asyncio.Event()

    def polled(self) -> None:
        """ResourceManager has just asked for the status: it knows this node."""
        self._polled_at = self._clock.monotonic()

    async def run(self) -> None:
        """Registers, then reports changes; registers again when nobody has polled for three intervals."""
        while True:
            poll_s = await self._until_registered()
            self.registered.set()
            self.polled()
            while True:
                await wait(self._conditions.changed, 3 * poll_s, self._clock)
                silent_s = self._clock.monotonic() - self._polled_at
                if not self._conditions.changed.is_set() and silent_s < 3 * poll_s:
                    continue
                self._conditions.changed.clear()
                if not await self._reported():
                    break
                if silent_s >= 3 * poll_s:
                    self.polled()

    async def _until_registered(self) -> float:
        pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            self._conditions.changed.clear()
            try:
                poll_s = await self._register()
            except Fenced:
                raise  # another process serves this node id: it must not be two
            except HeadwayError as error:
                pause_s = pauses.next_s()
                log.warning("registration.delayed", retry_s=pause_s, reason=str(error))
            else:
                log.info("registration.done", poll_s=poll_s)
                return max(0.1, poll_s)
            await self._clock.sleep(pause_s)

    async def _reported(self) -> bool:
        """False: ResourceManager does not know this node (any more)."""
        try:
            return await self._report()
        except HeadwayError as error:
            log.warning("status.not_reported", reason=str(error))
            self._conditions.changed.set()
            await self._clock.sleep(1.0)
            return True
