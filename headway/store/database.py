"""A database with one writer thread and a few readers.

How it is used:

    db = await Database.open("/var/lib/headway/jobs.db", room="job_manager")
    count = await db.write(lambda conn: conn.execute(insert(jobs), rows).rowcount)     # ONE transaction
    rows = await db.read(lambda conn: conn.execute(select(jobs)).all())
    await db.close()
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import math
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Engine, MetaData, create_engine, event, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from ..backoff import Backoff, grown_s
from ..errors import ConfigInvalid, HeadwayError, StoreFull, StoreUnavailable
from ..logs import get_logger
from ..units import format_duration
from .faults import StoreInUse, StoreRefused, translated

if TYPE_CHECKING:
    from ..metrics.shared import DatabaseNumbers

log = get_logger(__name__)
T = TypeVar("T")
Work = Callable[[Connection], T]

_READERS = 3
_BUSY_TIMEOUT_S = 5.0
_DEFER_S = 0.5
_LONGEST_DEFER_S = 10.0  # after failures
_LOCK_WAIT_S = 10.0
_FIRST_WAIT_S = 0.2  # for a server that is away at the start
_LONGEST_WAIT_S = 5.0
_TELL_EVERY_S = 30.0
_GIVEN_BACK_PAGES = 256
_KEPT_FREE_PAGES = 512  # are soon used again


def _both(work: Work[T], also: Work[Any]) -> Work[T]:
    def both(conn: Connection) -> T:
        result = work(conn)
        also(conn)
        return result

    return both


def after_commit(conn: Connection, call: Callable[[], None]) -> None:
    """Inside a write: `call()` runs on the event loop once this transaction is durable, never if it fails."""
    conn.info.setdefault("headway_after_commit", []).append(call)


class Database:
    """SQLite (WAL, synchronous=FULL) or PostgreSQL behind the same two calls.

    Writes run one after another in one thread, each function in exactly one transaction. So a function sees the state
    that its transaction will commit against. A function must not keep the connection. After `StoreUnavailable` its
    caller may run it anew, and it must bear that: a broken connection can hide a commit that happened.
    """

    def __init__(self, url: URL, room: str, numbers: DatabaseNumbers | None = None) -> None:
        self.room = room
        self._numbers = numbers
        self._writes = 0  # handed to the writer and not ended
        if numbers is not None:
            numbers.watch(lambda: self._writes)
        self.path: str | None = url.database if url.get_backend_name() == "sqlite" else None
        self.place = f"the database {self.path}" if self.path else f"the database {_shown(url)}"
        self._folder = os.path.dirname(self.path) or "." if self.path else None
        self._url = url
        self._lock_fd = -1
        self._write_engine = _engine(url, room, size=1, writer=True)
        self._read_engine = _engine(url, room, size=_READERS, writer=False)
        self._write_thread = ThreadPoolExecutor(1, thread_name_prefix=f"{room}-writer")
        self._read_threads = ThreadPoolExecutor(_READERS, thread_name_prefix=f"{room}-reader")
        self._deferred: list[Work[Any]] = []
        self._deferred_lock = threading.Lock()
        self.dropped = 0  # how often deferred work was given up, for a fault in it
        # Asked on the event loop at each write, by whom it is called: work that joins the same transaction.
        self.joins: Callable[[], Work[Any] | None] = lambda: None
        self._flush: asyncio.TimerHandle | None = None
        self._flush_task: asyncio.Task[None] | None = None
        self._flush_failures = 0
        self._closed = False
        self._loop = asyncio.get_running_loop()

    # -- opening and closing --------------------------------------------------------------------

    @classmethod
    async def open(
        cls, url: str, *, room: str, metadata: MetaData | None = None, numbers: DatabaseNumbers | None = None
    ) -> Database:
        """Opens the database, takes it for this process alone and brings its tables up to date.

        `url` is a path, `sqlite:///path` or `postgresql://…`. The room's migrations run unless `metadata` is
        given, which then creates its tables (for tests). On PostgreSQL each room has a schema of its own. Transactions
        are counted in `numbers`, if any.

        A PostgreSQL server that is away or recovers is waited for, and the log says so: machines may start in any
        order. The caller may be cancelled meanwhile.

        Raises:
            ConfigInvalid: the URL makes no sense.
            StoreUnavailable: it can't be opened, or another process has it.
            StoreRefused: the server does not take this user, or has no such database.
            DatabaseTooNew: a newer Headway wrote it.
        """
        db = cls(parse_url(url), room, numbers)
        try:
            await db._prepare_once_there(metadata)
        except BaseException:
            await db.close()
            raise
        return db

    async def _prepare_once_there(self, metadata: MetaData | None) -> None:
        pauses = Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S)
        began_s = time.monotonic()
        told_s = -math.inf
        while True:
            try:
                await self._in_writer(lambda: self._prepare(metadata))
                break
            except StoreUnavailable as error:
                if self.path is not None or isinstance(error, StoreRefused | StoreInUse):
                    raise
                if time.monotonic() - told_s >= _TELL_EVERY_S:
                    told_s = time.monotonic()
                    waited = format_duration(round(told_s - began_s))
                    log.warning("store.waited_for", room=self.room, waited=waited, reason=f"Waits, since {error}")
            await asyncio.sleep(pauses.next_s())
        if told_s > -math.inf:
            log.info("store.there", room=self.room, waited=format_duration(round(time.monotonic() - began_s)))

    async def close(self) -> None:
        """Finishes what was handed in, then lets go of the file. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if self._flush is not None:
            self._flush.cancel()
        await asyncio.to_thread(self._close_blocking)

    def _close_blocking(self) -> None:
        self._read_threads.shutdown(wait=True)
        self._write_thread.submit(self._last_deferred)
        self._write_thread.shutdown(wait=True)
        self._read_engine.dispose()
        # The last connection to close folds SQLite's WAL back into the file.
        self._write_engine.dispose()
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    # -- work -----------------------------------------------------------------------------------

    async def write(self, work: Work[T]) -> T:
        """Runs `work(conn)` in one transaction in the writer thread and returns its result after the commit.

        If the caller is cancelled, the transaction still ends by itself one way or the other.

        Raises:
            StoreFull: no space; nothing was stored.
            StoreUnavailable: locked, away, closing or read-only; nothing was stored as far as one can know.
            Exception: whatever `work` raised; nothing was stored.
        """
        also = self.joins()
        return await self._in_writer(lambda: self._transaction(work if also is None else _both(work, also)))

    async def read(self, work: Work[T]) -> T:
        """Runs `work(conn)` on one snapshot in a reader thread. It can't write.

        Raises:
            StoreUnavailable: the database does not answer.
        """
        if self._closed:
            raise StoreUnavailable(f"{self.place} is closed.")

        def reading() -> T:
            with translated(self.place, self._folder), self._read_engine.begin() as conn:
                return work(conn)

        return await asyncio.get_running_loop().run_in_executor(self._read_threads, reading)

    def defer(self, work: Work[Any]) -> None:
        """Joins `work(conn)` to the next write's transaction, or runs it alone half a second later.

        For clean-up that may be lost in a crash and then happens again (acknowledged outbox rows): it costs no
        fsync of its own. Call it on the event loop.
        """
        with self._deferred_lock:
            self._deferred.append(work)
        self._arm_flush()

    async def give_back(self, most_pages: int = _GIVEN_BACK_PAGES) -> bool:
        """Gives a little of the room that deleted rows left back to the disk; whether there is more to give.

        A step moves few pages, so other writes wait for moments only. On PostgreSQL, and in a file that was made before
        Headway could do this, there is nothing to do: the room is used again.

        Raises:
            StoreFull, StoreUnavailable: as for a write.
        """
        if self.path is None:
            return False
        before = await self.read(_free_pages)
        if before <= _KEPT_FREE_PAGES:
            return False

        def step(conn: Connection) -> int:
            _vacuum(conn, most_pages)
            return _free_pages(conn)

        left = await self.write(step)
        return _KEPT_FREE_PAGES < left < before

    # -- inside the writer thread ---------------------------------------------------------------

    async def _in_writer(self, call: Callable[[], T]) -> T:
        try:
            future = asyncio.get_running_loop().run_in_executor(self._write_thread, call)
        except RuntimeError as error:
            raise StoreUnavailable(f"{self.place} is closed.") from error
        self._writes += 1
        future.add_done_callback(self._write_ended)
        return await future

    def _write_ended(self, future: asyncio.Future[Any]) -> None:
        self._writes -= 1

    def _transaction(self, work: Work[T]) -> T:
        with self._deferred_lock:
            joined, self._deferred = self._deferred, []
        began_s = time.perf_counter()
        try:
            calls: list[Callable[[], None]]
            with translated(self.place, self._folder), self._write_engine.begin() as conn:
                calls = conn.info["headway_after_commit"] = []
                result = work(conn)
                for extra in joined:
                    extra(conn)
                commits_s = time.perf_counter()
        except BaseException as error:
            if joined:
                with self._deferred_lock:
                    self._deferred[:0] = joined
            if isinstance(error, StoreFull):
                self._fold_log()
            raise
        if self._numbers is not None:
            ended_s = time.perf_counter()
            self._numbers.written(ended_s - began_s, ended_s - commits_s)
        for call in calls:
            self._loop.call_soon_threadsafe(call)
        return result

    def _fold_log(self) -> None:
        """On a full disk: SQLite's log goes into the file and gives its room back. Else even deletions find none."""
        if self.path is None:
            return
        with contextlib.suppress(Exception):
            connection = self._write_engine.raw_connection()
            try:
                connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                connection.close()

    def _last_deferred(self) -> None:
        with contextlib.suppress(Exception):
            if self._deferred:
                self._transaction(lambda conn: None)

    def _arm_flush(self) -> None:
        if self._flush is None and not self._closed:
            delay_s = grown_s(self._flush_failures, first_s=_DEFER_S, most_s=_LONGEST_DEFER_S)
            self._flush = self._loop.call_later(delay_s, self._start_flush)

    def _start_flush(self) -> None:
        self._flush = None
        if self._deferred and not self._closed:
            self._flush_task = self._loop.create_task(self._flush_deferred())

    async def _flush_deferred(self) -> None:
        try:
            await self.write(lambda conn: None)
            self._flush_failures = 0
        except HeadwayError as error:
            self._flush_failures += 1
            log.warning("store.clean_up_delayed", room=self.room, reason=str(error))
            self._arm_flush()
        except Exception as error:
            # A fault in clean-up code must not make every later write fail with it: drop it, it comes again.
            log.error("store.clean_up_failed", room=self.room, exc=error)
            with self._deferred_lock:
                self._deferred.clear()
                self.dropped += 1

    def _prepare(self, metadata: MetaData | None) -> None:
        from .migrations import migrate

        self._take_for_this_process()
        with translated(self.place, self._folder):
            if metadata is not None:
                metadata.create_all(self._write_engine)
            else:
                migrate(self._write_engine, self.room, self.place)

    def _take_for_this_process(self) -> None:
        if self.path is not None:
            self._lock_file(self.path)
            return
        # The writer's connection takes the lock as it is made.
        with translated(self.place, None), self._write_engine.begin() as conn:
            conn.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{self.room}"'))

    def _lock_file(self, path: str) -> None:
        try:
            os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
            # SQLite gives its -wal and -shm files the mode of the database.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            self._lock_fd = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"{self.place} can't be opened: {error.strerror}.") from error
        _retry_until_true(lambda: _try_flock(self._lock_fd), self.place)


def parse_url(url: str) -> URL:
    """A path or URL as SQLAlchemy wants it.

    Raises:
        ConfigInvalid: neither a path, nor sqlite, nor PostgreSQL; the message never shows a password.
    """
    if "://" not in url:
        return URL.create("sqlite", database=os.path.abspath(os.path.expanduser(url)))
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise ConfigInvalid("A database URL looks like sqlite:///path or postgresql://user@host/name.") from error
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise ConfigInvalid("A database needs a file: write sqlite:////path/to/file.db.")
        return URL.create("sqlite", database=os.path.abspath(parsed.database))
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    raise ConfigInvalid(f"Databases of kind {backend!r} are not supported; use SQLite or PostgreSQL.")


def _shown(url: URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=True)


def _engine(url: URL, room: str, *, size: int, writer: bool) -> Engine:
    if url.get_backend_name() != "sqlite":
        options = {} if "options" in url.query else {"options": f"-csearch_path={room} {_SERVER_FINDS_THE_DEAD}"}
        engine = create_engine(
            url,
            pool_size=size,
            max_overflow=0,
            pool_pre_ping=True,
            connect_args={"connect_timeout": 5, **_FINDS_THE_DEAD, **options},
        )
        if not writer:
            return engine.execution_options(postgresql_readonly=True, isolation_level="REPEATABLE READ")

        @event.listens_for(engine, "connect")
        def lock(connection: Any, _record: Any) -> None:
            # The connection that writes is the one that holds the lock: whichever is made in its place after a
            # restart of the server has to get it anew, or writes nothing. It lives and dies with that session.
            _retry_until_true(lambda: _try_advisory_lock(connection, room), f"the database {_shown(url)}")

        return engine
    engine = create_engine(
        url, pool_size=size, max_overflow=0, connect_args={"check_same_thread": False, "timeout": _BUSY_TIMEOUT_S}
    )
    begin = "BEGIN IMMEDIATE" if writer else "BEGIN"

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        # The driver's own idea of transactions leaves DDL outside of them: BEGIN is sent here instead.
        connection.isolation_level = None
        for pragma in _PRAGMAS_WRITE if writer else _PRAGMAS_READ:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def on_begin(conn: Connection) -> None:
        conn.exec_driver_sql(begin)

    return engine


# A machine that vanished without a word is noticed within a minute, on both sides. Till then the server keeps the lock
# of a session that nobody has any more.
_FINDS_THE_DEAD = {"keepalives_idle": 20, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 30_000}
_SERVER_FINDS_THE_DEAD = (
    "-ctcp_keepalives_idle=20 -ctcp_keepalives_interval=10 -ctcp_keepalives_count=3 -ctcp_user_timeout=30000"
)
_PRAGMAS_READ = ("foreign_keys=ON", "query_only=ON", "cache_size=-2000")
_PRAGMAS_WRITE = (
    # Before anything else is written: a file that has tables keeps the kind that it has.
    "auto_vacuum=INCREMENTAL",
    "journal_mode=WAL",
    "synchronous=FULL",
    # Debian's SQLite writes zeros over all that is deleted: on a full disk there would be no room even for that.
    "secure_delete=FAST",
    "foreign_keys=ON",
    "cache_size=-4000",
    # A burst must not leave a WAL of gigabytes behind.
    "journal_size_limit=67108864",
)


def _free_pages(conn: Connection) -> int:
    return int(conn.exec_driver_sql("PRAGMA freelist_count").scalar() or 0)


def _vacuum(conn: Connection, most_pages: int) -> None:
    # SQLite frees one page in each step of this statement, and the driver takes one step where it sees no columns.
    for _ in range(most_pages):
        conn.exec_driver_sql("PRAGMA incremental_vacuum(1)")


def _try_advisory_lock(connection: Any, room: str) -> bool:
    row = connection.execute("SELECT pg_try_advisory_lock(hashtext(%s))", (f"headway.{room}",)).fetchone()
    connection.commit()  # the lock is the session's, and outlasts this transaction
    return bool(row[0])


def _try_flock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _retry_until_true(attempt: Callable[[], bool], place: str) -> None:
    # An earlier process may be on its way out; waiting a little beats a restart loop of the supervisor.
    give_up_at = time.monotonic() + _LOCK_WAIT_S
    while not attempt():
        if time.monotonic() > give_up_at:
            raise StoreInUse(f"{place} is in use by another process; stop that one first.")
        time.sleep(0.1)
