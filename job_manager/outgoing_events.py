"""Job events on their way to HttpServer: stored in the transaction of the change that they report.

All events of a transaction are one row of the outbox, or a few. So a task's end costs no row of its own here.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from functools import lru_cache

from sqlalchemy import Connection, delete, func, select, update

from headway.logs import get_logger
from headway.model.job_events import JobEventWord
from headway.model.reasons import EndReason
from headway.rpc import convert
from headway.rpc.v1 import common_pb2
from headway.rpc.v1 import http_server_pb2 as hs
from headway.store import Database, after_commit

from .job import LiveJob
from .job_event import OutgoingJobEvent
from .tables import HTTP_SERVER, event_outbox, job

log = get_logger(__name__)

MOST_WAITING_BYTES = 256 << 20
_EVENTS_A_ROW = 200
_DROPPED_AT_ONCE = 500
_DROPPED_SHARE = 8  # of what may wait, at most


class OutgoingEvents:
    """The outbox of job events. ``told``: whether anybody is told; else nothing is stored.

    While HttpServer is away events wait, at most ``most_bytes`` of them. Then the oldest are dropped, and one event of
    the word ``gap`` in their place counts them.
    """

    def __init__(self, *, told: bool = True, most_bytes: int = MOST_WAITING_BYTES) -> None:
        self._told = told
        self._most_bytes = most_bytes
        # Numbers of a database that was restored from a copy come again, but not with this beside them.
        self._incarnation = secrets.token_hex(8)
        self._waiting_bytes = 0
        self._dropping = False
        self.under_way = 0  # rows up to this one are being delivered, or are, so nobody lacks them

    async def open(self, db: Database) -> None:
        """Counts what waits since the last run; before anything is stored."""
        size = func.coalesce(func.sum(func.length(event_outbox.table.c.payload)), 0)
        self._waiting_bytes = int(await db.read(lambda conn: conn.execute(select(size)).scalar_one()))

    def store(self, conn: Connection, touched: Iterable[LiveJob], removed: Mapping[str, str], now: float) -> None:
        """Stores what these jobs noted, and that some are being removed, by whom (empty: by a rule); inside the
        transaction of those changes."""
        events: list[hs.JobEvent] = []
        for live in touched:
            if live.events:
                events += [_message(live, event) for event in live.events]
                live.events.clear()
        if not self._told:
            return
        if removed:
            events += _removals(conn, removed, now)
        if events:
            self._add(conn, events, now)

    def delivered(self, size: int) -> None:
        """So many bytes have been received."""
        self._dropping = False
        self._waiting_bytes = max(0, self._waiting_bytes - size)

    def _add(self, conn: Connection, events: list[hs.JobEvent], now: float) -> None:
        parts = [events[start : start + _EVENTS_A_ROW] for start in range(0, len(events), _EVENTS_A_ROW)]
        rows = [
            (str(len(part)), hs.JobEventBatch(incarnation=self._incarnation, events=part).SerializeToString())
            for part in parts
        ]
        size = sum(len(payload) for _, payload in rows)
        event_outbox.add_many(conn, HTTP_SERVER, rows, now)
        if self._waiting_bytes + size > self._most_bytes:
            size -= self._drop_oldest(conn)
        after_commit(conn, lambda: self._count(size))

    def _count(self, more: int) -> None:
        self._waiting_bytes += more

    def _drop_oldest(self, conn: Connection) -> int:
        """Puts a gap in the place of the oldest rows; how many bytes that saved."""
        table = event_outbox.table
        query = select(table.c.seq, table.c.kind, func.length(table.c.payload).label("size"), table.c.created_at)
        oldest = []
        enough = self._most_bytes // _DROPPED_SHARE
        waiting = table.c.seq > self.under_way
        for row in conn.execute(query.where(waiting).order_by(table.c.seq).limit(_DROPPED_AT_ONCE)):
            oldest.append(row)
            enough -= row.size
            if enough <= 0:
                break
        if not oldest:
            return 0
        last = oldest[-1]
        # A row that is a gap already counts what it stands for.
        count = sum(int(row.kind) for row in oldest)
        payload = conn.execute(select(table.c.payload).where(table.c.seq == last.seq)).scalar_one()
        # By the number and the incarnation of the last one it is known again, if that was delivered just now.
        gap = hs.JobEventBatch(incarnation=hs.JobEventBatch.FromString(payload).incarnation)
        gap.events.add(word=JobEventWord.GAP, at=last.created_at, tasks=count)
        conn.execute(delete(table).where(waiting, table.c.seq < last.seq))
        packed = gap.SerializeToString()
        conn.execute(update(table).where(table.c.seq == last.seq).values(kind=str(count), payload=packed))
        if not self._dropping:
            self._dropping = True
            log.error("events.dropped", events=count, reason="HttpServer has not taken job events for too long.")
        return sum(int(row.size) for row in oldest) - len(packed)


def _message(live: LiveJob, event: OutgoingJobEvent) -> hs.JobEvent:
    record = live.record
    message = hs.JobEvent(word=event.word, at=event.at, job_id=record.id, owner=record.owner, state=event.state)
    # There are as many as tasks: only what is set is touched.
    if event.task:
        message.task = event.task
    else:
        message.job_name = record.name
    if event.attempt:
        message.attempt = event.attempt
    if event.generation:
        message.generation = event.generation
    if event.reason is not None:
        message.reason.CopyFrom(_reason(event.reason))
    if event.by:
        message.by = event.by
    if event.sentence:
        message.sentence = event.sentence
    if event.tasks:
        message.tasks = event.tasks
    return message


@lru_cache(1_000)
def _reason(reason: EndReason) -> common_pb2.EndReason:
    return convert.end_reason_to_pb(reason)


def _removals(conn: Connection, removed: Mapping[str, str], now: float) -> list[hs.JobEvent]:
    found: Mapping[str, hs.JobEvent] = {
        row.id: hs.JobEvent(
            word=JobEventWord.REMOVED,
            at=now,
            job_id=row.id,
            owner=row.owner,
            job_name=row.name,
            state=row.state,
            by=removed[row.id],
        )
        for row in conn.execute(select(job.c.id, job.c.owner, job.c.name, job.c.state).where(job.c.id.in_(removed)))
    }
    return [found[job_id] for job_id in removed if job_id in found]
