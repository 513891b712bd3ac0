"""The store's contract, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, delete, insert, select, text
from sqlalchemy.exc import IntegrityError, OperationalError

from headway import logs
from headway.errors import ConfigInvalid, StoreFull, StoreUnavailable
from headway.store import Database, after_commit
from headway.store.database import parse_url
from headway.store.faults import StoreDamaged, StoreRefused, translated
from tests.support.ports import free_port

if TYPE_CHECKING:
    from tests.support.postgres import Postgres

metadata = MetaData()
things = Table("things", metadata, Column("id", Integer, primary_key=True), Column("name", Text, nullable=False))


@pytest.fixture
async def db(url: str) -> AsyncIterator[Database]:
    database = await Database.open(url, room="job_manager", metadata=metadata)
    yield database
    await database.close()


async def names(db: Database) -> list[str]:
    return list(await db.read(lambda conn: conn.execute(select(things.c.name).order_by(things.c.id)).scalars().all()))


async def add(db: Database, name: str, **more: object) -> None:
    await db.write(lambda conn: conn.execute(insert(things).values(name=name, **more)))


async def test_a_read_after_a_write_sees_it(db: Database) -> None:
    await add(db, "ann")
    assert await names(db) == ["ann"]


async def test_a_write_is_all_or_nothing(db: Database) -> None:
    def half(conn: object) -> None:
        conn.execute(insert(things).values(name="half"))  # type: ignore[attr-defined]
        raise ValueError("changed my mind")

    with pytest.raises(ValueError, match="changed my mind"):
        await db.write(half)
    assert await names(db) == []


async def test_a_failed_statement_is_the_callers_to_handle_and_leaves_nothing(db: Database) -> None:
    await add(db, "ann", id=1)
    with pytest.raises(IntegrityError):
        await add(db, "bob", id=1)
    await add(db, "cy", id=2)
    assert await names(db) == ["ann", "cy"]


async def test_writes_run_one_after_another_in_order(db: Database) -> None:
    await asyncio.gather(*(add(db, f"n{i}") for i in range(50)))
    assert await names(db) == [f"n{i}" for i in range(50)]


async def test_reads_do_not_write(db: Database) -> None:
    with pytest.raises(Exception, match=r"(?i)read.?only"):
        await db.read(lambda conn: conn.execute(insert(things).values(name="x")))
    assert await names(db) == []


async def test_after_commit_runs_on_the_loop_and_only_after_a_commit(db: Database) -> None:
    told: list[str] = []

    def good(conn):  # type: ignore[no-untyped-def]
        after_commit(conn, lambda: told.append("good"))

    def bad(conn):  # type: ignore[no-untyped-def]
        after_commit(conn, lambda: told.append("bad"))
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        await db.write(bad)
    await db.write(good)
    await asyncio.sleep(0)
    assert told == ["good"]


async def test_a_cancelled_caller_does_not_tear_a_transaction(db: Database) -> None:
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(conn):  # type: ignore[no-untyped-def]
        loop.call_soon_threadsafe(started.set)
        conn.execute(insert(things).values(name="one"))
        conn.execute(insert(things).values(name="two"))

    task = asyncio.create_task(db.write(slow))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await add(db, "three")
    assert await names(db) in (["one", "two", "three"], ["three"])


async def test_deferred_work_joins_the_next_write(db: Database) -> None:
    db.defer(lambda conn: conn.execute(insert(things).values(name="deferred")))
    await add(db, "next")
    assert sorted(await names(db)) == ["deferred", "next"]


async def test_deferred_work_happens_at_close_at_the_latest(url: str) -> None:
    db = await Database.open(url, room="job_manager", metadata=metadata)
    db.defer(lambda conn: conn.execute(insert(things).values(name="deferred")))
    await db.close()
    again = await Database.open(url, room="job_manager", metadata=metadata)
    assert await names(again) == ["deferred"]
    await again.close()


async def test_deferred_work_survives_a_write_that_fails(db: Database) -> None:
    db.defer(lambda conn: conn.execute(insert(things).values(name="deferred")))
    with pytest.raises(ZeroDivisionError):
        await db.write(lambda conn: 1 // 0)
    assert await names(db) == []
    await add(db, "next")
    assert sorted(await names(db)) == ["deferred", "next"]


async def test_broken_deferred_work_does_not_fail_writes_for_ever(db: Database) -> None:
    db.defer(lambda conn: conn.execute(text("DELETE FROM no_such_table")))
    await db._flush_deferred()
    await add(db, "fine")
    assert await names(db) == ["fine"]


async def test_a_closed_database_says_so(db: Database) -> None:
    await db.close()
    await db.close()
    with pytest.raises(StoreUnavailable, match="is closed"):
        await add(db, "late")
    with pytest.raises(StoreUnavailable, match="is closed"):
        await names(db)


async def test_what_was_handed_in_before_close_is_stored(url: str) -> None:
    db = await Database.open(url, room="job_manager", metadata=metadata)
    writes = [asyncio.create_task(add(db, f"n{i}")) for i in range(20)]
    await asyncio.sleep(0)
    await db.close()
    await asyncio.gather(*writes)
    again = await Database.open(url, room="job_manager", metadata=metadata)
    assert len(await names(again)) == 20
    await again.close()


async def test_a_second_process_is_refused(db: Database, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.store.database._LOCK_WAIT_S", 0.0)
    with pytest.raises(StoreUnavailable, match="in use by another process"):
        await Database.open(url, room="job_manager", metadata=metadata)


# -- PostgreSQL alone --------------------------------------------------------------------------------


@pytest.mark.postgres
async def test_a_server_that_is_killed_is_unavailable_and_found_again(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.tcp_url(postgres.new_database())
    db = await Database.open(url, room="job_manager", metadata=metadata)
    await add(db, "before")
    postgres.kill9()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await add(db, "lost")
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await names(db)
    postgres.start()
    await add(db, "after")
    assert await names(db) == ["before", "after"]
    monkeypatch.setattr("headway.store.database._LOCK_WAIT_S", 0.0)
    with pytest.raises(StoreUnavailable, match="in use by another process"):
        await Database.open(url, room="job_manager", metadata=metadata)
    await db.close()


def end_sessions(url: str) -> int:
    """As a server that restarts, or a firewall that forgets idle connections; how many there were."""
    with psycopg.connect(url, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    assert ended is not None
    return int(ended[0])


@pytest.mark.postgres
async def test_sessions_that_end_while_nothing_is_done_are_made_anew_with_the_lock(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool found the dead connection by itself, so nobody thought of the lock, and two processes could write."""
    url = postgres.tcp_url(postgres.new_database())
    db = await Database.open(url, room="job_manager", metadata=metadata)
    await add(db, "before")
    assert await names(db) == ["before"]
    assert end_sessions(url) >= 2
    await add(db, "after")
    assert await names(db) == ["before", "after"]
    monkeypatch.setattr("headway.store.database._LOCK_WAIT_S", 0.0)
    with pytest.raises(StoreUnavailable, match="in use by another process"):
        await Database.open(url, room="job_manager", metadata=metadata)
    # And where the other one comes first, this one writes no more.
    end_sessions(url)
    other = await Database.open(url, room="job_manager", metadata=metadata)
    await add(other, "of the other")
    with pytest.raises(StoreUnavailable, match="in use by another process"):
        await add(db, "of both")
    assert await names(db) == ["before", "after", "of the other"]
    await other.close()
    await add(db, "alone again")
    await db.close()


@pytest.mark.postgres
async def test_a_session_that_ends_in_the_middle_of_a_transaction_leaves_nothing_of_it(postgres: Postgres) -> None:
    url = postgres.tcp_url(postgres.new_database())
    db = await Database.open(url, room="job_manager", metadata=metadata)

    def cut_off(conn: Connection) -> None:
        conn.execute(insert(things).values(name="first half"))
        end_sessions(url)
        conn.execute(insert(things).values(name="second half"))

    with pytest.raises(StoreUnavailable, match="does not answer"):
        await db.write(cut_off)
    assert await names(db) == []
    await add(db, "next")
    assert await names(db) == ["next"]
    await db.close()


@pytest.mark.postgres
async def test_rooms_share_a_database_without_meeting(postgres: Postgres) -> None:
    url = postgres.tcp_url(postgres.new_database())
    one = await Database.open(url, room="job_manager", metadata=metadata)
    two = await Database.open(url, room="task_manager", metadata=metadata)
    await add(one, "mine")
    assert (await names(one), await names(two)) == (["mine"], [])
    await one.close()
    await two.close()


@pytest.mark.postgres
async def test_a_server_that_is_not_there_is_waited_for_with_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"postgresql://u:geheim@127.0.0.1:{free_port()}/d"
    logs.setup(service="test", fmt="text")
    opening = asyncio.create_task(Database.open(url, room="job_manager", metadata=metadata))
    await asyncio.sleep(2)
    assert not opening.done()
    opening.cancel()
    await asyncio.wait([opening], timeout=2)
    assert opening.cancelled(), "a stop is not delayed"
    told = capsys.readouterr().err
    assert told.count("does not answer") == 1
    assert "geheim" not in told


@pytest.mark.postgres
async def test_a_server_that_comes_later_is_used(postgres: Postgres) -> None:
    url = postgres.tcp_url(postgres.new_database())
    postgres.kill9()
    opening = asyncio.create_task(Database.open(url, room="job_manager", metadata=metadata))
    await asyncio.sleep(1)
    assert not opening.done()
    # After a kill it recovers for a while, and says so.
    await asyncio.to_thread(postgres.start)
    db = await asyncio.wait_for(opening, 20)
    await add(db, "later")
    assert await names(db) == ["later"]
    await db.close()


@pytest.mark.postgres
@pytest.mark.parametrize(
    "change", [lambda url: f"{url}x", lambda url: url.replace("headway@", "nobody:geheim@")], ids=["database", "user"]
)
async def test_what_waiting_can_not_mend_is_said_at_once(postgres: Postgres, change: Callable[[str], str]) -> None:
    with pytest.raises(StoreRefused, match="does not exist") as caught:
        await Database.open(change(postgres.tcp_url("postgres")), room="job_manager", metadata=metadata)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "final"),
    [
        ('connection failed: FATAL:  password authentication failed for user "headway"', True),
        ("connection failed: fe_sendauth: no password supplied", True),
        ('connection failed: FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "u", database "d"', True),
        ('connection failed: FATAL:  database "d" does not exist', True),
        ('connection failed: FATAL:  role "u" is not permitted to log in', True),
        ("connection failed: FATAL:  the database system is starting up", False),
        ("connection failed: FATAL:  the database system is not yet accepting connections", False),
        ("connection failed: FATAL:  sorry, too many clients already", False),
        ("connection failed: Connection refused", False),
        ("failed to resolve host 'db': [Errno -3] Temporary failure in name resolution", False),
    ],
)
def test_what_is_worth_waiting_for(said: str, final: bool) -> None:
    with pytest.raises(StoreUnavailable) as caught, translated("the database", None):
        raise OperationalError("", {}, psycopg.OperationalError(said))
    assert isinstance(caught.value, StoreRefused) is final


def test_a_server_that_hangs_is_worth_waiting_for() -> None:
    """The driver has an error of its own kind for it. It ended services at their start, with a traceback."""
    with pytest.raises(StoreUnavailable, match="connection timeout expired"), translated("the database", None):
        raise OperationalError("", {}, psycopg.errors.ConnectionTimeout("connection timeout expired"))


# -- SQLite alone ------------------------------------------------------------------------------------


async def test_sqlite_is_durable_and_private(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "things.db"
    db = await Database.open(str(path), room="job_manager", metadata=metadata)
    pragmas = await db.write(
        lambda conn: [
            conn.execute(text(f"PRAGMA {name}")).scalar() for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    )
    assert pragmas == ["wal", 2, 1]
    for file in path.parent.iterdir():
        assert file.stat().st_mode & 0o077 == 0, file
    await db.close()
    left = {file.name for file in path.parent.iterdir()}
    assert left == {"things.db", "things.db.lock"}, "the WAL is folded back at close"


async def test_a_full_disk_is_told_and_nothing_is_half_stored(tmp_path: Path) -> None:
    db = await Database.open(str(tmp_path / "t.db"), room="job_manager", metadata=metadata)

    def limit(conn):  # type: ignore[no-untyped-def]
        pages = conn.execute(text("PRAGMA page_count")).scalar()
        conn.execute(text(f"PRAGMA max_page_count={pages + 3}"))

    await add(db, "small")
    await db.write(limit)

    def big(conn):  # type: ignore[no-untyped-def]
        conn.execute(insert(things).values(name="first"))
        conn.execute(insert(things).values(name="x" * 100_000))

    with pytest.raises(StoreFull, match="is full; nothing was stored"):
        await db.write(big)
    assert await names(db) == ["small"]

    await db.write(lambda conn: conn.execute(text("PRAGMA max_page_count=1000000")))
    await db.write(big)
    assert len(await names(db)) == 3, "recovers by itself once there is room"
    await db.close()


async def test_a_locked_file_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.store.database._BUSY_TIMEOUT_S", 0.05)
    path = tmp_path / "t.db"
    db = await Database.open(str(path), room="job_manager", metadata=metadata)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked by another process"):
        await add(db, "x")
    other.execute("ROLLBACK")
    other.close()
    await add(db, "y")
    assert await names(db) == ["y"]
    await db.close()


async def test_a_damaged_file_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    path.write_bytes(b"this was never a database, not even close to one" * 100)
    with pytest.raises(StoreDamaged, match="restore it from a backup"):
        await Database.open(str(path), room="job_manager", metadata=metadata)


async def test_a_folder_that_can_not_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailable, match=r"can't be opened: (Not a directory|File exists)"):
        await Database.open(str(tmp_path / "file" / "t.db"), room="job_manager", metadata=metadata)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("/tmp/x.db", "sqlite:////tmp/x.db"),
        ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
        ("postgresql://u@h/d", "postgresql+psycopg://u@h/d"),
    ],
)
def test_urls_are_understood(given: str, want: str) -> None:
    assert str(parse_url(given)) == want


@pytest.mark.parametrize("given", ["mysql://u:geheim@h/d", "sqlite://", "postgresql://u:geheim@h:port/d"])
def test_other_urls_are_refused_without_showing_a_password(given: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        parse_url(given)
    assert "geheim" not in str(caught.value)


_FILLER = """
import asyncio, os, sys
from headway.errors import StoreFull
from headway.store import Database
from tests.unit.kernel.test_store import add, metadata, names

async def main(folder):
    with open(folder + "/ballast", "wb") as ballast:
        ballast.write(bytes(400_000))
    db = await Database.open(folder + "/t.db", room="job_manager", metadata=metadata)
    stored, refused = [], 0
    for i in range(2_000):
        name = f"{i:04}" + "x" * 4_000
        try:
            await add(db, name)
            stored.append(name)
        except StoreFull:
            refused += 1
            if refused == 5:
                break
    assert refused == 5, refused
    assert await names(db) == stored
    os.unlink(folder + "/ballast")
    await add(db, "room again")
    assert await names(db) == [*stored, "room again"]
    await db.close()
    print(len(stored) > 20)

asyncio.run(main(sys.argv[1]))
"""


_LOG_ON_A_FULL_DISK = """
import asyncio, sys
from sqlalchemy import update
from headway.errors import StoreFull
from headway.store import Database
from tests.unit.kernel.test_store import add, metadata, names, things

async def main(path):
    db = await Database.open(path, room="job_manager", metadata=metadata)
    for _ in range(15):
        await add(db, "x" * 20_000)
    await db.close()  # all is in the file now, which has to grow no more
    db = await Database.open(path, room="job_manager", metadata=metadata)
    refused = 0
    for number in range(200):
        change = update(things).where(things.c.id == number % 15 + 1).values(name=chr(97 + number % 26) * 20_000)
        try:
            await db.write(lambda conn: conn.execute(change))
        except StoreFull:
            refused += 1
            await db.write(lambda conn: conn.execute(change))
    print(refused > 0, len(await names(db)))
    await db.close()

asyncio.run(main(sys.argv[1] + "/t.db"))
"""


def _on_a_small_disk(program: str, folder: Path, repository: Path) -> subprocess.CompletedProcess[str]:
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    script = 'mount -t tmpfs -o size=1500k none "$1" && exec "$2" -c "$3" "$1"'
    return subprocess.run(
        [*unshare, "sh", "-c", script, "sh", str(folder), sys.executable, program],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_a_really_full_disk_loses_nothing_and_recovers(tmp_path: Path, repository: Path) -> None:
    done = _on_a_small_disk(_FILLER, tmp_path, repository)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


@pytest.mark.slow
def test_on_a_full_disk_the_log_gives_its_room_back(tmp_path: Path, repository: Path) -> None:
    """With half of the disk in the log even deletions were refused, for ever."""
    done = _on_a_small_disk(_LOG_ON_A_FULL_DISK, tmp_path, repository)
    assert (done.stdout, done.returncode) == ("True 15\n", 0), done.stderr


_WRITER = """
import asyncio, sys
from sqlalchemy import insert
from headway.store import Batcher, Database
from tests.unit.kernel.test_store import metadata, things

async def main():
    db = await Database.open(sys.argv[1], room="job_manager", metadata=metadata)
    async def store(ids):
        await db.write(lambda conn: conn.execute(insert(things), [{"id": i, "name": "x" * 200} for i in ids]))
        return ids
    batcher = Batcher(store, name="burst")
    async def one(i):
        await batcher.submit(i)
        sys.stdout.write(f"{i}\\n"); sys.stdout.flush()
    n = 0
    while True:
        await asyncio.gather(*(one(n + k) for k in range(50)))
        n += 50

asyncio.run(main())
"""


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, repository: Path) -> None:
    path = tmp_path / "burst.db"
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)], cwd=repository, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    acked = []
    for line in process.stdout:
        acked.append(int(line))
        if len(acked) == 730:
            process.send_signal(signal.SIGKILL)
    process.wait(10)
    # A last line may have been cut by the kill; a shortened number was acknowledged before anyway.
    with sqlite3.connect(path) as check:
        stored = {row[0] for row in check.execute("SELECT id FROM things")}
        assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert len(acked) >= 730
    assert set(acked) <= stored
    assert stored == set(range(len(stored))), "batches are stored whole and in order"


async def test_room_of_deleted_rows_goes_back_to_the_disk_in_small_steps(tmp_path: Path) -> None:
    path = tmp_path / "big.db"
    database = await Database.open(str(path), room="x", metadata=metadata)
    many = 40_000
    await database.write(lambda conn: conn.execute(insert(things), [{"name": "x" * 300} for _ in range(many)]))
    assert not await database.give_back(), "there is no room to give back"
    await database.write(lambda conn: conn.execute(delete(things)))
    steps = 1
    while await database.give_back():
        steps += 1
    await database.close()
    assert steps > 5
    assert path.stat().st_size < many * 300 / 4
