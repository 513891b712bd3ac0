"""Events that leave only after their commit, at least once and in order.

outbox = Outbox(metadata)                                               # tables.py: a table "outbox"

def accept(conn):                                                       # inside db.write
    conn.execute(insert(jobs), ...)
    outbox.add(conn, "task-manager", "enqueue", command.SerializeToString(), now)

async def send(rows: list[OutboxRow]) -> None:                          # returns = all of them are received
    await peer.call(stub.ApplyTaskCommands, request_of(rows), deadline_s=10, idempotent=True)

service.side_task("outbox", outbox.pump(db, "task-manager", send, clock).run)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    Table,
    Text,
    bindparam,
    delete,
    func,
    insert,
    select,
    text,
)

from ..backoff import grown_s
from ..clock import Clock
from ..errors import HeadwayError
from ..logs import get_logger
from .database import after_commit

if TYPE_CHECKING:
    from .database import Database

log = get_logger(__name__)

_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 5.0


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """One event on its way."""

    seq: int
    target: str
    kind: str
    payload: bytes
    created_at: float


Send = Callable[[list[OutboxRow]], Awaitable[None]]
GiveUp = Callable[[OutboxRow, HeadwayError], Awaitable[bool]]


class Outbox:
    """The table of events that wait for delivery. `seq` grows in commit order and is never used twice."""

    def __init__(self, metadata: MetaData, name: str = "outbox") -> None:
        self.table = Table(
            name,
            metadata,
            Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
            Column("target", Text, nullable=False),
            Column("kind", Text, nullable=False),
            Column("payload", LargeBinary, nullable=False),
            Column("created_at", Float, nullable=False),
            Index(f"ix_{name}_target_seq", "target", "seq"),
            sqlite_autoincrement=True,
        )
        self._insert = insert(self.table)  # made once: it is run in nearly every transaction
        self._pumps: list[OutboxPump] = []

    def add(self, conn: Connection, target: str, kind: str, payload: bytes, now: float) -> None:
        """Puts one event in, inside a write; `now` in epoch seconds."""
        self.add_many(conn, target, [(kind, payload)], now)

    def add_many(self, conn: Connection, target: str, events: Iterable[tuple[str, bytes]], now: float) -> None:
        """Puts (kind, payload) pairs in, in order, inside a write."""
        rows = [{"target": target, "kind": kind, "payload": payload, "created_at": now} for kind, payload in events]
        if rows:
            conn.execute(self._insert, rows)
            after_commit(conn, lambda: self._wake(target))

    def last_seq(self, conn: Connection) -> int:
        """The highest `seq` that was given, whether or not its row is still there."""
        name = self.table.name
        if conn.dialect.name == "sqlite":
            return int(conn.execute(text("SELECT seq FROM sqlite_sequence WHERE name = :n"), {"n": name}).scalar() or 0)
        sequence = conn.execute(text("SELECT pg_get_serial_sequence(:n, 'seq')"), {"n": name}).scalar_one()
        row = conn.execute(text(f"SELECT last_value, is_called FROM {sequence}")).one()
        return int(row.last_value) if row.is_called else 0

    def go_on_after(self, conn: Connection, seq: int) -> None:
        """From now on every `seq` is above this one, inside a write: a restored table would use numbers again."""
        if seq <= self.last_seq(conn):
            return
        name = self.table.name
        if conn.dialect.name == "sqlite":
            conn.execute(text("DELETE FROM sqlite_sequence WHERE name = :n"), {"n": name})
            conn.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:n, :s)"), {"n": name, "s": seq})
        else:
            conn.execute(text("SELECT setval(pg_get_serial_sequence(:n, 'seq'), :s)"), {"n": name, "s": seq})

    def pump(
        self,
        db: Database,
        target: str,
        send: Send,
        clock: Clock,
        *,
        max_rows: int = 500,
        max_bytes: int = 2_000_000,
        gather_s: float = 0.0,
        give_up: GiveUp | None = None,
    ) -> OutboxPump:
        """The loop that delivers the events of one target; run it as a side task. ``gather_s``: how long it waits
        after an event for more of them, so that a stream of single events costs few calls."""
        pump = OutboxPump(
            self, db, target, send, clock, max_rows=max_rows, max_bytes=max_bytes, gather_s=gather_s, give_up=give_up
        )
        self._pumps.append(pump)
        return pump

    def _wake(self, target: str) -> None:
        for pump in self._pumps:
            if pump.target == target:
                pump.wake()


class OutboxPump:
    """Sends one target's rows, oldest first, in batches; a failed batch is sent again with growing pauses.

    Acknowledged rows are deleted with the next commit; a crash before it sends them again, so the receiver must
    bear duplicates. A row that is refused for its own sake blocks those behind it unless `give_up(row, error)` says
    True, having recorded what that means.
    """

    def __init__(
        self,
        outbox: Outbox,
        db: Database,
        target: str,
        send: Send,
        clock: Clock,
        *,
        max_rows: int,
        max_bytes: int,
        gather_s: float = 0.0,
        give_up: GiveUp | None,
    ) -> None:
        self.target = target
        self._table = table = outbox.table
        self._query = (
            select(table)
            .where(table.c.target == target, table.c.seq > bindparam("sent"))
            .order_by(table.c.seq)
            .limit(max_rows)
        )
        self._db = db
        self._send = send
        self._clock = clock
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._gather_s = gather_s
        self._give_up = give_up
        self._sent = 0  # highest acknowledged seq: rows up to it may still be in the table
        self._cut = False  # the last batch left rows behind, which were too many bytes
        self._more = asyncio.Event()
        self._failures = 0

    def wake(self) -> None:
        """There is something new; called after each commit that added a row."""
        self._more.set()

    async def backlog(self) -> tuple[int, float]:
        """How many rows are not acknowledged, and for how many seconds the oldest of them waits; 0: none does."""
        oldest_at: float | None
        waiting, oldest_at = await self._db.read(self._count)
        return waiting, 0.0 if oldest_at is None else max(0.0, self._clock.now() - oldest_at)

    async def run(self) -> None:
        """Delivers until cancelled."""
        self._more.set()
        while True:
            await self._more.wait()
            if self._gather_s:
                await self._clock.sleep(self._gather_s)
            self._more.clear()
            try:
                await self._deliver_all()
            except Exception as error:
                # Any failure keeps the rows: the peer may be away, the disk full, or a bug mended by a restart.
                await self._pause(error)
                self._more.set()

    async def _deliver_all(self) -> None:
        while True:
            rows = await self._db.read(self._next_rows)
            if rows:
                await self._deliver(rows)
            if len(rows) < self._max_rows and not self._cut:
                return  # what was committed since has set the event

    async def _deliver(self, rows: list[OutboxRow]) -> None:
        try:
            await self._send(rows)
        except HeadwayError as error:
            if self._give_up is None or error.code != "INVALID_ARGUMENT":
                raise
            if len(rows) > 1:
                for row in rows:
                    await self._deliver([row])
                return
            if not await self._give_up(rows[0], error):
                raise
            log.error("outbox.given_up", target=self.target, seq=rows[0].seq, kind=rows[0].kind, reason=str(error))
        if self._failures:
            log.info("outbox.flows_again", target=self.target, after_failures=self._failures)
            self._failures = 0
        last = self._sent = rows[-1].seq
        self._db.defer(lambda conn: self._forget(conn, last))

    def _count(self, conn: Connection) -> tuple[int, float | None]:
        table = self._table
        mine = (table.c.target == self.target, table.c.seq > self._sent)
        waiting = conn.execute(select(func.count()).select_from(table).where(*mine)).scalar_one()
        oldest = select(table.c.created_at).where(*mine).order_by(table.c.seq.asc()).limit(1)
        return waiting, conn.execute(oldest).scalar_one_or_none()

    def _next_rows(self, conn: Connection) -> list[OutboxRow]:
        rows: list[OutboxRow] = []
        size = 0
        self._cut = False
        with conn.execute(self._query, {"sent": self._sent}) as found:
            for row in found:
                size += len(row.payload)
                if rows and size > self._max_bytes:
                    self._cut = True
                    break
                rows.append(_row(row))
        return rows

    def _forget(self, conn: Connection, last: int) -> None:
        conn.execute(delete(self._table).where(self._table.c.target == self.target, self._table.c.seq <= last))

    async def _pause(self, error: Exception) -> None:
        if self._failures == 0:
            expected = isinstance(error, HeadwayError)
            log.warning(
                "outbox.held", target=self.target, reason=str(error) if expected else repr(error),
                exc=None if expected else error,
            )  # fmt: skip
        delay_s = grown_s(self._failures, first_s=_FIRST_DELAY_S, most_s=_LONGEST_DELAY_S)
        self._failures += 1
        await self._clock.sleep(delay_s)


def _row(row: Row[tuple[int, str, str, bytes, float]]) -> OutboxRow:
    return OutboxRow(row.seq, row.target, row.kind, row.payload, row.created_at)
