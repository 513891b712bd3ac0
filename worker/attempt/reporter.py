"""Reports attempts to TaskManager, each at least once, with all waiting reports in one message.

A report holds all that is known of its attempt, so a newer one replaces one that still waits. Only ends are sent at
once. So a task of a millisecond needs one report instead of three. An end is stored before it comes here. It is sent
again until TaskManager has answered, also by a restarted Worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import HeadwayError
from headway.ids import AttemptId
from headway.logs import get_logger
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.waiting import wait

log = get_logger(__name__)

_MAX_BATCH = 500
_HOLD_S = 0.03  # a report that is no end waits so long for a newer one; it carries its own times
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0

Send = Callable[[Sequence[tm.AttemptReport]], Awaitable[Sequence[AttemptId]]]


class AttemptReporter:
    """See the module. ``send`` delivers a batch and returns what to discard. After a HeadwayError it is tried again.

    ``on_acked`` gets the ends that were taken. ``on_discard`` gets all that TaskManager does not want.
    """

    def __init__(
        self,
        send: Send,
        clock: Clock,
        *,
        on_acked: Callable[[Sequence[AttemptId]], None],
        on_discard: Callable[[Sequence[AttemptId]], None],
    ) -> None:
        self._send = send
        self._clock = clock
        self._on_acked = on_acked
        self._on_discard = on_discard
        self._waiting: dict[AttemptId, tm.AttemptReport] = {}
        self._since: dict[AttemptId, float] = {}  # monotonic: when the first still waiting one came
        self._ends: set[AttemptId] = set()
        self._news = asyncio.Event()
        self._end_news = asyncio.Event()
        self._retry = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def submit(self, attempt: AttemptId, report: tm.AttemptReport, *, end: bool = False) -> None:
        """Add the newest report of an attempt. Nothing follows an end."""
        if attempt in self._ends:
            return
        if end:
            self._ends.add(attempt)
            self._end_news.set()
        self._waiting[attempt] = report
        self._since.setdefault(attempt, self._clock.monotonic())
        self._idle.clear()
        self._news.set()

    def retry_now(self) -> None:
        """TaskManager answers again: send what waits now, not at the next try."""
        self._retry.set()

    def withdraw(self, attempt: AttemptId) -> None:
        """Drop the report of an attempt that was superseded."""
        self._waiting.pop(attempt, None)
        self._since.pop(attempt, None)
        self._ends.discard(attempt)

    async def wait_until_delivered(self) -> None:
        """Returns once every report has been answered."""
        await self._idle.wait()

    async def run(self) -> None:
        """Send reports as long as the service runs."""
        pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            self._news.clear()
            self._end_news.clear()
            if not self._waiting:
                self._idle.set()
                await self._news.wait()
                continue
            batch = self._due()
            if not batch:
                await wait(self._end_news, _HOLD_S, self._clock)
                continue
            self._retry.clear()
            try:
                discard = await self._send(list(batch.values()))
            except HeadwayError as error:
                pause_s = pauses.next_s()
                log.warning("reports.delayed", waiting=len(self._waiting), retry_s=pause_s, reason=str(error))
                await wait(self._retry, pause_s, self._clock)
                continue
            pauses.reset()
            self._delivered(batch, discard)
            if discard:
                self._on_discard(discard)

    def _due(self) -> dict[AttemptId, tm.AttemptReport]:
        """What to send now: every end, and what has waited long enough."""
        before = self._clock.monotonic() - _HOLD_S
        due = [a for a in self._waiting if a in self._ends or self._since[a] <= before]
        return {attempt: self._waiting[attempt] for attempt in due[:_MAX_BATCH]}

    def _delivered(self, batch: dict[AttemptId, tm.AttemptReport], discard: Collection[AttemptId]) -> None:
        acked = []
        for attempt, report in batch.items():
            # A newer one may have come while this was on its way.
            if self._waiting.get(attempt) is report:
                del self._waiting[attempt]
                self._since.pop(attempt, None)
                if attempt in self._ends:
                    self._ends.discard(attempt)
                    if attempt not in discard:
                        acked.append(attempt)
        if acked:
            self._on_acked(acked)
