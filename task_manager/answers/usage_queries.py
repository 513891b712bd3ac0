"""Queries of usage and of past runs. They change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from sqlalchemy import Connection

from headway.clock import Clock
from headway.rpc.v1 import task_manager_pb2 as pb
from headway.store import Database

from ..engine.usage import MOST_ROWS, TimeSpan, UsageGrouping, UsageSummary, checked_grouping
from ..store import usage_store
from . import usage_wire

_PAGE = 500  # runs in one part: they take the event loop some milliseconds
_ROWS = 100


class UsageQueries:
    """Reads usage and past runs."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._free = asyncio.Lock()

    async def usage(self, request: pb.GetUsageRequest) -> pb.GetUsageReply:
        """One page of sums over a span.

        Raises:
            InvalidInput: there is no such grouping, no such span, or there are too many days.
        """
        span = TimeSpan(request.from_at, request.to_at)
        by = checked_grouping(request.by, span)
        limit = min(request.limit or _ROWS, MOST_ROWS)

        def read(conn: Connection) -> UsageSummary:
            return usage_store.load_usage(
                conn, by, span, owner=request.owner, now=self._clock.now(), limit=limit, offset=request.offset
            )

        # Years of a busy cluster take seconds. Only one such query runs at a time, so that pages always find a reader.
        await self._free.acquire()
        reading = asyncio.ensure_future(self._db.read(read))
        # The query goes on in the database when the caller goes away.
        reading.add_done_callback(self._done)
        return usage_wire.usage(await asyncio.shield(reading))

    async def runs(self, request: pb.ListRunsRequest) -> AsyncIterator[pb.ListRunsReply]:
        """Ended runs in the order in which they were queued, in parts; at least one part."""
        span = TimeSpan(request.from_at, request.to_at)
        checked_grouping(UsageGrouping.USER, span)
        after = usage_store.FROM_THE_FIRST
        while True:
            found = await self._db.read(
                lambda conn, after=after: usage_store.load_runs(  # type: ignore[misc]
                    conn, span, owner=request.owner, after=after, limit=_PAGE
                )
            )
            yield usage_wire.runs(found)
            if len(found) < _PAGE:
                return
            last = found[-1]
            after = (last.queued_at, last.attempt.task.job_id, last.attempt.task.name, last.attempt.number)

    def _done(self, reading: asyncio.Future[UsageSummary]) -> None:
        self._free.release()
        if not reading.cancelled():
            reading.exception()  # its caller may be gone
