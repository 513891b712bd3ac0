"""Registers this node with ResourceManager, and reports changed conditions at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import Fenced, HeadwayError
from headway.logs import get_logger
from headway.waiting import wait

from ..machine.conditions import Conditions

log = get_logger(__name__)

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0


class Registration:
    """``register`` returns the poll interval in seconds. ``report`` returns whether ResourceManager knows this node.

    Both raise a HeadwayError while ResourceManager does not answer. A report is sent when ``Conditions.changed`` is
    set, and when nobody has polled for three intervals.
    """

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
        """ResourceManager has just asked for the status, so it knows this node."""
        self._polled_at = self._clock.monotonic()

    async def run(self) -> None:
        """Register, then report changes. Register again when ResourceManager does not know this node."""
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

    async def first(self) -> None:
        """Register before anything else is done, however long it takes.

        Raises:
            Fenced: another process serves this node, or has this state folder.
        """
        await self._until_registered()
        self.registered.set()

    async def _until_registered(self) -> float:
        pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            self._conditions.changed.clear()
            try:
                poll_s = await self._register()
            except Fenced:
                raise  # another process serves this node id, and there must not be two
            except HeadwayError as error:
                pause_s = pauses.next_s()
                log.warning("registration.delayed", retry_s=pause_s, reason=str(error))
            else:
                log.info("registration.done", poll_s=poll_s)
                return max(0.1, poll_s)
            # By chance somewhat later: after an outage all machines ask.
            await self._clock.sleep(pause_s * random.uniform(1.0, 1.5))

    async def _reported(self) -> bool:
        """False: ResourceManager does not know this node, or no longer."""
        try:
            return await self._report()
        except HeadwayError as error:
            log.warning("status.not_reported", reason=str(error))
            self._conditions.changed.set()
            await self._clock.sleep(1.0)
            return True
