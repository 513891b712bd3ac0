"""Brings stored job events to HttpServer."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, insert, select, update

from headway.rpc.v1 import http_server_pb2 as hs
from headway.store import Database, OutboxRow

from .outgoing_events import OutgoingEvents
from .ports import JobEventsPort
from .tables import event_told

# So long after an event it is waited for more of them: a stream of ends costs a few calls a second, not hundreds.
GATHER_S = 0.2
# Of one call: HttpServer stores it in some hundredths of a second, though much may have piled up while it was away.
MOST_BYTES = 200_000


class EventDelivery:
    """The `send` of the outbox's pump: returns once HttpServer has stored all rows."""

    def __init__(self, events: OutgoingEvents, http_server: JobEventsPort, db: Database) -> None:
        self._events = events
        self._http_server = http_server
        self._db = db
        self._told = hs.JobEventBatch()  # the last one that HttpServer has stored

    async def open(self) -> None:
        """Reads what HttpServer has stored. If that was restored from a copy meanwhile, it says what it lacks."""
        row = await self._db.read(lambda conn: conn.execute(select(event_told)).first())
        if row is not None:
            self._told = hs.JobEventBatch(incarnation=row.incarnation, seq=row.seq)

    async def send(self, rows: Sequence[OutboxRow]) -> None:
        batches = []
        for row in rows:
            batch = hs.JobEventBatch.FromString(row.payload)
            batch.seq = row.seq
            batches.append(batch)
        self._events.under_way = rows[-1].seq
        await self._http_server.apply_events(batches, self._told)
        told = self._told = hs.JobEventBatch(incarnation=batches[-1].incarnation, seq=batches[-1].seq)
        self._db.defer(lambda conn: _note(conn, told))
        self._events.delivered(sum(len(row.payload) for row in rows))


def _note(conn: Connection, told: hs.JobEventBatch) -> None:
    values = {"incarnation": told.incarnation, "seq": told.seq}
    if conn.execute(update(event_told).values(values)).rowcount == 0:
        conn.execute(insert(event_told), {"id": 1, **values})
