"""Tells TaskManager what can't be done for attempts after their ends, each at least once.

A message holds all warnings that are left of one attempt, so a newer one replaces one that still waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import HeadwayError
from headway.ids import AttemptId
from headway.logs import get_logger
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.waiting import wait

log = get_logger(__name__)

_MAX_BATCH = 200
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0


class LateReporter:
    """See the module. ``on_told`` gets the warnings of an attempt that TaskManager has taken."""

    def __init__(
        self,
        send: Callable[[Sequence[tm.LateWarnings]], Awaitable[None]],
        clock: Clock,
        *,
        on_told: Callable[[AttemptId, tuple[str, ...]], None] = lambda attempt, warnings: None,
    ) -> None:
        self._send = send
        self._clock = clock
        self._on_told = on_told
        self._waiting: dict[AttemptId, tm.LateWarnings] = {}
        self._news = asyncio.Event()
        self._retry = asyncio.Event()

    def submit(self, attempt: AttemptId, warnings: tm.LateWarnings) -> None:
        """Add the newest warnings of an attempt."""
        self._waiting[attempt] = warnings
        self._news.set()

    def retry_now(self) -> None:
        """TaskManager answers again: send what waits now, not at the next try."""
        self._retry.set()

    async def run(self) -> None:
        """Send warnings as long as the service runs."""
        pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            self._news.clear()
            if not self._waiting:
                await self._news.wait()
                continue
            self._retry.clear()
            batch = dict(list(self._waiting.items())[:_MAX_BATCH])
            try:
                await self._send(list(batch.values()))
            except HeadwayError as error:
                pause_s = pauses.next_s()
                log.warning("late_warnings.delayed", waiting=len(self._waiting), retry_s=pause_s, reason=str(error))
                await wait(self._retry, pause_s, self._clock)
                continue
            pauses.reset()
            for attempt, told in batch.items():
                # A newer one may have come while this was on its way.
                if self._waiting.get(attempt) is told:
                    del self._waiting[attempt]
                self._on_told(attempt, tuple(told.warnings))
