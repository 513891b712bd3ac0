"""Durable timers: what is to happen at a moment, and still happens after a kill, a restart or a clock that was set.

timer_table = TimerTable(metadata)                                      # tables.py: the tables "timer", "timer_clock"

timers = Timers(timer_table, db, clock)                                 # app.py
timers.handle("forget", Handler(forget))
service.on_start(timers.open)
service.side_task("timers", timers.run)

timers.set(conn, "forget", job_id, after_s=3_600.0)                     # inside db.write
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Column,
    Connection,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Row,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from ..backoff import Backoff, grown_s
from ..clock import Clock
from ..errors import HeadwayError, StoreFull, Unavailable
from ..logs import get_logger
from ..steady import Anchor
from ..waiting import wait
from .database import after_commit
from .kept_clock import ClockNotes, clock_table, read_anchor

if TYPE_CHECKING:
    from .database import Database

log = get_logger(__name__)

_AT_ONCE = 100
_FIRST_DELAY_S = 1.0
_LONGEST_DELAY_S = 3_600.0
_LONGEST_STORE_DELAY_S = 30.0
_LONGEST_SLEEP_S = 600.0


@dataclass(frozen=True, slots=True)
class Timer:
    """One timer. ``due_at`` is by the steady clock (``headway.steady``); ``tries`` counts those that failed."""

    kind: str
    key: str
    due_at: float
    payload: bytes = b""
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Handler:
    """What timers of one kind do when they are due.

    ``effect`` works in the transaction that deletes the timer, so what it stores happens once. It may set timers, the
    same one too. ``outside`` runs before that transaction, for effects elsewhere: they happen at least once.
    """

    effect: Callable[[Connection, Timer], Any]
    outside: Callable[[Timer], Awaitable[None]] | None = None


class TimerTable:
    """The tables of one service's timers."""

    def __init__(self, metadata: MetaData, name: str = "timer") -> None:
        self.table = Table(
            name,
            metadata,
            Column("kind", Text, nullable=False),
            Column("key", Text, nullable=False),
            Column("due_at", Float, nullable=False),
            Column("payload", LargeBinary, nullable=False),
            Column("set_at", Float, nullable=False),
            Column("try_at", Float, nullable=False),  # due_at, or later after a failure
            Column("tries", Integer, nullable=False),
            PrimaryKeyConstraint("kind", "key"),
            Index(f"ix_{name}_try", "try_at"),
        )
        self.clock = clock_table(metadata, f"{name}_clock")

    def read_clock(self, conn: Connection, clock: Clock) -> Anchor:
        """Where the steady clock is; inside a write."""
        latest = conn.execute(select(func.max(self.table.c.set_at))).scalar()
        return read_anchor(conn, self.clock, clock, latest=latest)


class Timers:
    """Sets timers, and runs what they are for. See the module.

    Moments are by the steady clock: whoever sets the machine's clock makes no timer earlier or later. The time for
    which the machine was off counts as its clock tells it at the boot. A clock that is behind then tells of none, and
    the timer waits longer by that time. A clock that is ahead at a boot makes it fire too early.
    """

    def __init__(self, tables: TimerTable, db: Database, clock: Clock) -> None:
        self._tables = tables
        self._table = tables.table
        self._db = db
        self._clock = clock
        self._handlers: dict[str, Handler] = {}
        self._anchor: Anchor | None = None
        self._notes: ClockNotes | None = None
        self._sooner = asyncio.Event()
        self._sleeps_until = -math.inf  # while it works it looks again before it sleeps

    def handle(self, kind: str, handler: Handler) -> None:
        """What timers of a kind do; before ``run``."""
        self._handlers[kind] = handler

    async def open(self) -> None:
        """Reads the steady clock; before anything is set."""
        self._anchor = await self._db.write(lambda conn: self._tables.read_clock(conn, self._clock))
        self._notes = ClockNotes(self._tables.clock, self._clock, self._anchor)

    def now(self) -> float:
        """Now by the steady clock, in epoch seconds."""
        assert self._anchor is not None, "open comes first"
        return self._anchor.now(self._clock)

    def on_the_wall(self, instant: float) -> float:
        """What the wall clock of today says, or will say, at an instant of the steady clock; in whole seconds."""
        return float(round(instant + self._clock.now() - self.now()))

    # -- inside a write ---------------------------------------------------------------------------

    def set(self, conn: Connection, kind: str, key: str, *, after_s: float, payload: bytes = b"") -> None:
        """This timer is due after so many seconds; one of the same kind and key is replaced."""
        now = self.now()
        self._set(conn, [self._row(kind, key, now, after_s, payload)])

    def set_many(self, conn: Connection, kind: str, keys: Sequence[str], *, after_s: float) -> None:
        """The same for many keys at once."""
        now = self.now()
        self._set(conn, [self._row(kind, key, now, after_s, b"") for key in keys])

    def ensure(self, conn: Connection, kind: str, key: str, *, after_s: float) -> None:
        """Sets the timer if there is none; one that is there stays as it is."""
        if self.due_at(conn, kind, key) is None:
            self.set(conn, kind, key, after_s=after_s)

    def cancel(self, conn: Connection, kind: str, key: str) -> bool:
        """Forgets the timer; whether there was one."""
        table = self._table
        return conn.execute(delete(table).where(table.c.kind == kind, table.c.key == key)).rowcount > 0

    def due_at(self, conn: Connection, kind: str, key: str) -> float | None:
        """When the timer is due; None: there is none. In a read, too."""
        table = self._table
        found: float | None = conn.execute(
            select(table.c.due_at).where(table.c.kind == kind, table.c.key == key)
        ).scalar()
        return found

    def _row(self, kind: str, key: str, now: float, after_s: float, payload: bytes) -> dict[str, Any]:
        due_at = now + max(0.0, after_s)
        return {
            "kind": kind, "key": key, "due_at": due_at, "payload": payload, "set_at": now, "try_at": due_at, "tries": 0,
        }  # fmt: skip

    def _set(self, conn: Connection, rows: list[dict[str, Any]]) -> None:
        table = self._table
        if not rows:
            return
        kind = rows[0]["kind"]
        for start in range(0, len(rows), 500):
            keys = [row["key"] for row in rows[start : start + 500]]
            conn.execute(delete(table).where(table.c.kind == kind, table.c.key.in_(keys)))
        conn.execute(insert(table), rows)
        first = min(row["due_at"] for row in rows)
        after_commit(conn, lambda: self._wake(first))

    def _wake(self, due_at: float) -> None:
        if due_at < self._sleeps_until:
            self._sooner.set()

    # -- the loop ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Runs what is due, in order of time, and sleeps until the next; a side task. It never ends by an error."""
        pauses = Backoff(_FIRST_DELAY_S, _LONGEST_STORE_DELAY_S)
        while True:
            self._sooner.clear()
            self._sleeps_until = math.inf  # whatever is set from now on is seen, by the look or by the event
            try:
                next_at = await self._run_due()
            except Exception as error:
                # The database is away or full: the timers are kept, and wait for it.
                expected = isinstance(error, HeadwayError)
                log.warning(
                    "timers.wait", room=self._db.room, reason=str(error) if expected else repr(error),
                    exc=None if expected else error,
                )  # fmt: skip
                await self._clock.sleep(pauses.next_s())
                continue
            pauses.reset()
            await self._sleep_until(next_at)

    async def _sleep_until(self, moment: float) -> None:
        self._sleeps_until = moment
        while not self._sooner.is_set() and moment > self.now():
            await self._note_clock()
            # The loop's own clock stands still while the machine is suspended, so it is not trusted for long.
            await wait(self._sooner, min(moment - self.now(), _LONGEST_SLEEP_S), self._clock)

    async def _note_clock(self) -> None:
        """Writes down how far the clock is, now and then, for the next boot."""
        notes = self._notes
        if notes is not None and notes.due():
            try:
                notes.noted(await self._db.write(notes.note))
            except Exception as error:
                log.debug("timers.clock_not_noted", reason=repr(error))  # the next look does

    async def _run_due(self) -> float:
        """Runs what is due; when the next one is, infinity where there is none."""
        while True:
            now = self.now()
            due = await self._db.read(lambda conn, now=now: self._due(conn, now))  # type: ignore[misc]
            if not due:
                return await self._db.read(self._next_at)
            await self._run_some(due)

    async def _run_some(self, due: Sequence[Timer]) -> None:
        ready = []
        for timer in due:
            handler = self._handlers.get(timer.kind)
            try:
                if handler is None:
                    raise HeadwayError(f"This version has nothing to do for timers of the kind {timer.kind!r}.")
                if handler.outside is not None:
                    await handler.outside(timer)
            except Exception as error:
                await self._failed(timer, error)
            else:
                ready.append(timer)
        try:
            if ready:
                await self._db.write(lambda conn: self._fire(conn, ready))
        except (Unavailable, StoreFull):
            raise  # no timer's own fault
        except Exception:
            # One of them fails: the others must not wait for it.
            for timer in ready:
                try:
                    await self._db.write(lambda conn, timer=timer: self._fire(conn, [timer]))  # type: ignore[misc]
                except Exception as error:
                    await self._failed(timer, error)

    def _fire(self, conn: Connection, timers: Sequence[Timer]) -> None:
        table = self._table
        for timer in timers:
            here = (table.c.kind == timer.kind) & (table.c.key == timer.key)
            row = conn.execute(select(table).where(here)).first()
            # One that was cancelled meanwhile, or set anew, is none or another one.
            if row is not None and _timer(row) == timer:
                conn.execute(delete(table).where(here))
                self._handlers[timer.kind].effect(conn, timer)

    async def _failed(self, timer: Timer, error: Exception) -> None:
        delay_s = grown_s(timer.tries, first_s=_FIRST_DELAY_S, most_s=_LONGEST_DELAY_S)
        expected = isinstance(error, HeadwayError)
        log.warning(
            "timer.failed", kind=timer.kind, key=timer.key, tries=timer.tries + 1, again_in_s=delay_s,
            reason=str(error) if expected else repr(error), exc=None if expected else error,
        )  # fmt: skip
        table, try_at = self._table, self.now() + delay_s
        here = (table.c.kind == timer.kind) & (table.c.key == timer.key) & (table.c.due_at == timer.due_at)
        await self._db.write(
            lambda conn: conn.execute(update(table).where(here).values(try_at=try_at, tries=timer.tries + 1)).rowcount
        )

    # -- SQL --------------------------------------------------------------------------------------

    def _due(self, conn: Connection, now: float) -> list[Timer]:
        table = self._table
        query = select(table).where(table.c.try_at <= now).order_by(table.c.try_at, table.c.kind, table.c.key)
        return [_timer(row) for row in conn.execute(query.limit(_AT_ONCE))]

    def _next_at(self, conn: Connection) -> float:
        found = conn.execute(select(func.min(self._table.c.try_at))).scalar()
        return math.inf if found is None else float(found)


def _timer(row: Row[Any]) -> Timer:
    return Timer(row.kind, row.key, row.due_at, row.payload, row.tries)
