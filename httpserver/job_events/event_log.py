"""Takes job events in from JobManager, keeps them, and tells readers when there are new ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from headway.clock import Clock
from headway.errors import InvalidInput
from headway.logs import get_logger
from headway.model.job_events import JobEventWord
from headway.model.retention import DAY_S
from headway.rpc.v1 import http_server_pb2 as hs
from headway.store import Database, Handler, Timer, Timers, after_commit
from headway.waiting import wait

from . import store
from .store import NUMBERS_A_SECOND, EventFilter, EventPage, StoredJobEvent

log = get_logger(__name__)

_REMOVED_AT_ONCE = 200
_LEAST_PAUSE_S = 60.0
_SOURCES_KEPT_S = 90 * DAY_S
_MOST_SEQ = 2**63 - 1
_OF_JOB = "events-of-removed-job"
_BY_AGE = "events-by-age"


class JobEventLog:
    """See the module. Call :meth:`open` first.

    Each event gets a number here, which is the cursor of readers. It is made of the time in microseconds and always
    above the last one. So a database that was restored from a copy gives no number again that readers have seen.
    """

    def __init__(self, db: Database, clock: Clock, timers: Timers, *, days: int) -> None:
        self.db = db
        self._clock = clock
        self._keep_s = days * DAY_S
        self._timers = timers
        timers.handle(_OF_JOB, Handler(self._remove_of_job))
        timers.handle(_BY_AGE, Handler(self._remove_by_age, self._give_back))
        self._news = asyncio.Event()
        self._last = 0
        self._last_of: dict[str, int] = {}  # by owner; of this run
        self.closed = False

    async def open(self) -> None:
        """Reads where it stands, and has old events removed; once the timers are open."""

        def work(conn: Connection) -> int:
            # At each start, since the rule may be another one by now.
            self._timers.set(conn, _BY_AGE, "", after_s=0.0)
            return store.place(conn).last_number

        self._last = await self.db.write(work)

    def close(self) -> None:
        """Ends all streams of events."""
        self.closed = True
        self._wake()

    # -- in ---------------------------------------------------------------------------------------

    async def apply(self, request: hs.ApplyJobEventsRequest) -> int:
        """Stores what is new among these; answers the highest ``seq`` stored of their last incarnation.

        Raises:
            InvalidInput: a number or a word that no JobManager writes.
        """
        _check(request)
        return await self.db.write(lambda conn: self._apply(conn, request))

    def _apply(self, conn: Connection, request: hs.ApplyJobEventsRequest) -> int:
        now = self._timers.now()
        told = request.told
        heard = store.heard(conn, {told.incarnation, *(batch.incarnation for batch in request.batches)})
        changed: dict[str, int] = {}
        events: list[hs.JobEvent] = []
        if told.incarnation and heard.get(told.incarnation, 0) < told.seq:
            # This database has lost commits that JobManager was told of, and it has forgotten those events since.
            log.error("events.lost", seq=told.seq, known=heard.get(told.incarnation, 0))
            events.append(hs.JobEvent(word=JobEventWord.GAP, at=now))
            changed[told.incarnation] = heard[told.incarnation] = told.seq
        for batch in request.batches:
            if batch.seq <= heard.get(batch.incarnation, 0):
                continue  # delivered again, since the answer was lost
            changed[batch.incarnation] = heard[batch.incarnation] = batch.seq
            events += batch.events
        if changed:
            store.set_heard(conn, changed, now)
        if events:
            self._add(conn, events, now)
        elif (last := store.place(conn).last_number) > self._last:
            # Their commit stood although its answer got lost, so nobody was told of them.
            after_commit(conn, lambda: self._told(last, {"": last}))
        return heard.get(request.batches[-1].incarnation, 0) if request.batches else 0

    def _add(self, conn: Connection, events: Sequence[hs.JobEvent], now: float) -> None:
        at = store.place(conn)
        first = max(at.last_number + 1, int(now * NUMBERS_A_SECOND))
        numbered = [StoredJobEvent(number, event) for number, event in enumerate(events, first)]
        store.add(conn, numbered, now)
        last = numbered[-1].number
        store.set_place(conn, replace(at, last_number=last))
        removed = [event.job_id for event in events if event.word == JobEventWord.REMOVED]
        self._timers.set_many(conn, _OF_JOB, list(dict.fromkeys(removed)), after_s=0.0)
        last_of = {one.event.owner: one.number for one in numbered}
        after_commit(conn, lambda: self._told(last, last_of))

    def _told(self, last: int, last_of: dict[str, int]) -> None:
        self._last = last
        self._last_of.update(last_of)
        self._wake()

    def _wake(self) -> None:
        # One event object serves all waiters; later ones wait for the next.
        self._news.set()
        if not self.closed:
            self._news = asyncio.Event()

    # -- out --------------------------------------------------------------------------------------

    async def page(self, after: int | None, wanted: EventFilter, limit: int) -> EventPage:
        """The first events behind ``after``; None: from the oldest that is kept."""
        return await self.db.read(lambda conn: store.page(conn, after, wanted, limit))

    async def owner_of(self, job_id: str) -> str | None:
        """The owner of a job of which events are kept."""
        return await self.db.read(lambda conn: store.owner_of(conn, job_id))

    @property
    def last_number(self) -> int:
        """Of the newest event."""
        return self._last

    def has_news(self, after: int, owner: str) -> bool:
        """Whether anything for this owner (empty: anybody) may have come behind ``after``."""
        if not owner:
            return self._last > after
        return max(self._last_of.get(owner, 0), self._last_of.get("", 0)) > after

    async def wait(self, after: int, owner: str, seconds: float) -> bool:
        """Waits for events of this owner behind ``after``, at most so long; whether there may be some."""
        until_s = self._clock.monotonic() + seconds
        while not (self.closed or self.has_news(after, owner)):
            left_s = until_s - self._clock.monotonic()
            if left_s <= 0 or not await wait(self._news, left_s, self._clock):
                return False
        return not self.closed

    # -- removal ----------------------------------------------------------------------------------

    def _remove_of_job(self, conn: Connection, timer: Timer) -> None:
        if store.remove_of_job(conn, timer.key, _REMOVED_AT_ONCE):
            self._timers.set(conn, _OF_JOB, timer.key, after_s=0.0)

    def _remove_by_age(self, conn: Connection, timer: Timer) -> None:
        now = self._timers.now()
        more, oldest = store.remove_older(conn, now - self._keep_s, _REMOVED_AT_ONCE)
        store.forget_sources(conn, now - _SOURCES_KEPT_S)
        pause_s = 0.0 if more else DAY_S if oldest is None else max(_LEAST_PAUSE_S, oldest + self._keep_s - now)
        self._timers.set(conn, _BY_AGE, "", after_s=min(pause_s, DAY_S))

    async def _give_back(self, timer: Timer) -> None:
        await self.db.give_back()


def _check(request: hs.ApplyJobEventsRequest) -> None:
    for batch in (*request.batches, request.told):
        texts = [batch.incarnation, *(text for one in batch.events for text in (one.word, one.job_id, one.owner))]
        if batch.seq > _MOST_SEQ or any("\0" in text for text in texts):
            raise InvalidInput("A number of a batch is below 2^63, and no word holds the character NUL.")
