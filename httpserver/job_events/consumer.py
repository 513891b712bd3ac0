"""A named consumer of job events: it deals with each of them, also over kills and restarts.

async def post(events: Sequence[StoredJobEvent]) -> None: ...           # outside: at least once
def note(conn: Connection, events: Sequence[StoredJobEvent]) -> None: ...   # in this database: once

consumer = EventConsumer(event_log, "webhooks", note, outside=post)
service.on_start(consumer.open)
service.side_task("webhooks", consumer.run)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sqlalchemy import Connection

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import HeadwayError
from headway.logs import get_logger

from . import store
from .event_log import JobEventLog
from .store import EventFilter, StoredJobEvent

log = get_logger(__name__)

_AT_ONCE = 100
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0
_LOOKS_S = 3_600.0

Effect = Callable[[Connection, Sequence[StoredJobEvent]], Any]
Outside = Callable[[Sequence[StoredJobEvent]], Awaitable[None]]


class EventConsumer:
    """See the module. Events come in the order of their numbers, in batches.

    ``effect`` runs in the transaction that moves the consumer's position on, so what it stores happens once.
    ``outside`` runs before it. A batch that fails is tried again with growing pauses, and none behind it is taken
    meanwhile.
    """

    def __init__(
        self,
        events: JobEventLog,
        name: str,
        effect: Effect,
        clock: Clock,
        *,
        outside: Outside | None = None,
        from_oldest: bool = False,
    ) -> None:
        self._events = events
        self._name = name
        self._effect = effect
        self._outside = outside
        self._clock = clock
        self._from_oldest = from_oldest

    async def open(self) -> None:
        """Makes the consumer known at its first start: from now on, or ``from_oldest``, it misses no event."""

        def work(conn: Connection) -> None:
            if store.position(conn, self._name) is None:
                at = store.place(conn)
                store.add_consumer(conn, self._name, at.gone_to if self._from_oldest else at.last_number)

        await self._events.db.write(work)

    async def run(self) -> None:
        """Deals with events until cancelled; a side task that never ends by an error."""
        pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            try:
                at = await self.step()
            except Exception as error:
                expected = isinstance(error, HeadwayError)
                log.warning(
                    "consumer.held", consumer=self._name, reason=str(error) if expected else repr(error),
                    exc=None if expected else error,
                )  # fmt: skip
                await self._clock.sleep(pauses.next_s())
                continue
            pauses.reset()
            if at is not None:
                await self._events.wait(at, "", _LOOKS_S)

    async def step(self) -> int | None:
        """Deals with some events; None: with all at once there may be more. Else where it stands.

        Raises:
            Exception: what the effects raised; the position stays.
        """
        before = await self._events.db.read(lambda conn: store.position(conn, self._name))
        assert before is not None, "open comes first"
        page = await self._events.page(before, EventFilter(), _AT_ONCE)
        if not page.events:
            return before
        if self._outside is not None:
            await self._outside(page.events)
        after = page.events[-1].number

        def work(conn: Connection) -> None:
            if store.advance(conn, self._name, before, after):
                self._effect(conn, page.events)

        await self._events.db.write(work)
        return None if page.more else after
