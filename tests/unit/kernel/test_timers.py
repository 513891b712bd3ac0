"""Durable timers: in order, once in the database, over restarts and clocks that were set."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from sqlalchemy import Column, Connection, MetaData, Table, Text, event, func, insert, select

from headway.errors import Unavailable
from headway.store import Database, Handler, Timer, Timers, TimerTable
from tests.support.clock import FakeClock
from tests.support.waiting import eventually

HOUR = 3_600.0
DAY = 86_400.0


class Rig:
    """A database with timers; each `start` is a start of the service."""

    def __init__(self, url: str, clock: FakeClock) -> None:
        self.url, self.clock = url, clock
        self.metadata = MetaData()
        self.tables = TimerTable(self.metadata)
        self.done = Table("done", self.metadata, Column("key", Text, nullable=False))
        self.told: list[str] = []  # outside
        self.before_effect: Callable[[Timer], None] = lambda timer: None
        self.after_effect: Callable[[Timer], None] = lambda timer: None
        self.before_outside: Callable[[Timer], None] = lambda timer: None
        self.running: asyncio.Task[None] | None = None

    async def start(self, *, run: bool = True) -> None:
        self.db = await Database.open(self.url, room="job_manager", metadata=self.metadata)
        self.timers = Timers(self.tables, self.db, self.clock)
        self.timers.handle("note", Handler(self._effect))
        self.timers.handle("tell", Handler(self._effect, self._outside))
        await self.timers.open()
        self.running = asyncio.create_task(self.timers.run()) if run else None

    async def stop(self) -> None:
        if self.running is not None:
            self.running.cancel()
            await asyncio.gather(self.running, return_exceptions=True)
        await self.db.close()

    async def set(self, key: str, after_s: float, kind: str = "note", payload: bytes = b"") -> None:
        await self.db.write(lambda conn: self.timers.set(conn, kind, key, after_s=after_s, payload=payload))

    async def fired(self, *keys: str) -> None:
        async def there() -> bool:
            return await self.noted() == list(keys)

        await eventually(there, what=f"{keys} fired")

    async def noted(self) -> list[str]:
        return await self.db.read(lambda conn: list(conn.execute(select(self.done.c.key)).scalars()))

    async def left(self) -> int:
        count = select(func.count()).select_from(self.tables.table)
        return int(await self.db.read(lambda conn: conn.execute(count).scalar_one()))

    def _effect(self, conn: Connection, timer: Timer) -> None:
        self.before_effect(timer)
        conn.execute(insert(self.done), {"key": timer.key})
        self.after_effect(timer)

    async def _outside(self, timer: Timer) -> None:
        self.before_outside(timer)
        self.told.append(timer.key)


@pytest.fixture
async def rig(url: str, clock: FakeClock) -> AsyncIterator[Rig]:
    rig = Rig(url, clock)
    await rig.start()
    yield rig
    await rig.stop()


async def asleep(rig: Rig) -> None:
    """The loop sleeps: whatever is set now has to wake it."""
    await eventually(lambda: rig.clock.sleeping > 0)


async def test_timers_fire_in_the_order_of_their_moments_and_are_gone(rig: Rig) -> None:
    for key, after_s in (("c", 30.0), ("a", 10.0), ("b", 20.0)):
        await rig.set(key, after_s)
    await asleep(rig)
    await rig.clock.advance(9.0)
    assert await rig.noted() == []
    await rig.clock.advance(1.0)
    await rig.fired("a")
    await asleep(rig)
    await rig.clock.advance(100.0)
    await rig.fired("a", "b", "c")
    assert await rig.left() == 0


async def test_a_timer_that_is_set_sooner_than_the_present_sleep_wakes_it(rig: Rig) -> None:
    await rig.set("late", 500.0)
    await asleep(rig)
    await rig.set("soon", 5.0)
    await rig.set("at once", 0.0)
    await rig.fired("at once")
    await asleep(rig)
    await rig.clock.advance(5.0)
    await rig.fired("at once", "soon")


async def test_nothing_is_read_while_nothing_is_due(rig: Rig) -> None:
    await rig.set("late", 100 * HOUR)
    await eventually(lambda: rig.timers._sleeps_until == rig.timers.now() + 100 * HOUR)
    reads: list[Any] = []

    def count(*args: Any) -> None:
        reads.append(args)

    event.listen(rig.db._read_engine, "before_cursor_execute", count)
    await rig.clock.advance(HOUR)
    await rig.set("later", 200 * HOUR)
    assert reads == []


async def test_a_timer_is_replaced_and_cancelled_with_its_transaction(rig: Rig) -> None:
    await rig.set("a", 10.0)
    await rig.set("a", 50.0, payload=b"second")
    await rig.set("b", 10.0)
    assert await rig.left() == 2

    def cancel_and_fail(conn: Connection) -> None:
        rig.timers.cancel(conn, "note", "a")
        raise RuntimeError("the caller fails")

    with pytest.raises(RuntimeError):
        await rig.db.write(cancel_and_fail)
    assert await rig.db.write(lambda conn: rig.timers.cancel(conn, "note", "b"))
    assert not await rig.db.write(lambda conn: rig.timers.cancel(conn, "note", "b"))
    await asleep(rig)
    await rig.clock.advance(49.0)
    assert await rig.noted() == []
    await asleep(rig)  # again: it woke for the first moment of "a"
    await rig.clock.advance(1.0)
    await rig.fired("a")


async def test_a_timer_outlives_the_service_and_fires_at_its_start_if_it_is_overdue(rig: Rig) -> None:
    await rig.set("overdue", 60.0)
    await rig.set("later", 2 * HOUR)
    await rig.stop()
    await rig.clock.advance(HOUR)
    await rig.start()
    await rig.fired("overdue")
    await asleep(rig)
    await rig.clock.advance(HOUR)
    await rig.fired("overdue", "later")


async def test_a_kill_between_effect_and_commit_repeats_the_timer_and_stores_its_effect_once(rig: Rig) -> None:
    killed: list[Timer] = []

    def kill(timer: Timer) -> None:
        if not killed:
            killed.append(timer)
            assert rig.running is not None
            rig.running.get_loop().call_soon_threadsafe(rig.running.cancel)
            raise RuntimeError("killed before its commit")

    rig.after_effect = kill
    await rig.set("a", 0.0, kind="tell")
    await eventually(lambda: rig.running is not None and rig.running.done())
    assert await rig.noted() == []
    assert await rig.left() == 1
    await rig.stop()
    await rig.clock.advance(HOUR)
    await rig.start()
    await rig.fired("a")
    assert rig.told == ["a", "a"], "outside it happens at least once"
    assert await rig.left() == 0


async def test_a_timer_that_fails_waits_alone_and_longer_each_time(rig: Rig) -> None:
    tries: list[float] = []

    def fail(timer: Timer) -> None:
        if timer.key == "bad":
            tries.append(rig.clock.now())
            raise RuntimeError("it can't")

    rig.before_effect = fail
    await rig.db.write(lambda conn: rig.timers.set_many(conn, "note", ["a", "bad", "z"], after_s=0.0))
    await rig.fired("a", "z")
    for after_s in (1.0, 2.0, 4.0):
        before = len(tries)
        await asleep(rig)
        await rig.clock.advance(after_s)
        await eventually(lambda before=before: len(tries) > before)  # type: ignore[misc]
    rig.before_effect = lambda timer: None
    await asleep(rig)
    await rig.clock.advance(8.0)
    await rig.fired("a", "z", "bad")


async def test_what_fails_outside_is_tried_again_and_holds_up_no_other(rig: Rig) -> None:
    def away(timer: Timer) -> None:
        if timer.key == "a":
            raise Unavailable("nobody there")

    rig.before_outside = away
    await rig.db.write(lambda conn: rig.timers.set_many(conn, "tell", ["a", "b"], after_s=0.0))
    await rig.fired("b")
    rig.before_outside = lambda timer: None
    await asleep(rig)
    await rig.clock.advance(1.0)
    await rig.fired("b", "a")
    assert rig.told == ["b", "a"]


async def test_a_timer_that_was_cancelled_or_set_anew_during_its_outside_effect_does_not_fire(rig: Rig) -> None:
    went = asyncio.Event()
    goes_on = asyncio.Event()

    async def outside(timer: Timer) -> None:
        went.set()
        await goes_on.wait()

    rig.timers.handle("slow", Handler(rig._effect, outside))
    await rig.set("cancelled", 0.0, kind="slow")
    await went.wait()
    await rig.db.write(lambda conn: rig.timers.cancel(conn, "slow", "cancelled"))
    goes_on.set()
    await asleep(rig)
    went.clear()
    goes_on.clear()
    await rig.set("anew", 0.0, kind="slow")
    await went.wait()
    await rig.set("anew", HOUR, kind="slow")
    goes_on.set()
    await asleep(rig)
    assert await rig.noted() == []
    await rig.clock.advance(HOUR)
    await rig.fired("anew")


async def test_a_kind_that_this_version_does_not_know_is_kept(rig: Rig) -> None:
    await rig.set("a", 0.0, kind="of a newer Headway")
    await rig.set("b", 0.0)
    await rig.fired("b")
    assert await rig.left() == 1


@pytest.mark.parametrize("step_s", [-365 * 24 * HOUR, 365 * 24 * HOUR])
async def test_whoever_sets_the_clock_makes_no_timer_later_or_earlier(rig: Rig, step_s: float) -> None:
    await rig.set("before", HOUR)
    await asleep(rig)
    rig.clock.step_wall(step_s)
    await rig.set("after", 2 * HOUR)
    await rig.clock.advance(HOUR - 1)
    assert await rig.noted() == []
    await rig.clock.advance(1)
    await rig.fired("before")
    await rig.stop()
    await rig.start()  # of the service, not of the machine
    await asleep(rig)
    await rig.clock.advance(HOUR - 1)
    assert await rig.noted() == ["before"]
    await rig.clock.advance(1)
    await rig.fired("before", "after")


async def test_a_clock_that_is_behind_after_a_boot_delays_no_timer_beyond_what_was_asked(rig: Rig) -> None:
    await rig.set("a", HOUR)
    await rig.set("b", 2 * HOUR)
    await rig.stop()
    rig.clock.step_wall(-50 * 365 * 24 * HOUR)  # its battery is empty
    rig.clock.reboot()
    await rig.start()
    await asleep(rig)
    await rig.clock.advance(HOUR)
    await rig.fired("a")
    await asleep(rig)
    await rig.clock.advance(HOUR)
    await rig.fired("a", "b")


async def test_the_time_that_a_machine_was_off_counts(rig: Rig) -> None:
    await rig.set("a", HOUR)
    await rig.stop()
    rig.clock.step_wall(HOUR)
    rig.clock.reboot()
    await rig.start()
    await rig.fired("a")


@pytest.mark.parametrize("set_by_s", [10 * DAY, -10 * DAY])
async def test_a_clock_that_is_set_right_before_a_boot_delays_no_timer_and_hurries_none(
    rig: Rig, set_by_s: float
) -> None:
    await rig.stop()
    rig.clock.step_wall(set_by_s)
    await rig.start()
    await rig.set("a", 30 * DAY)
    await asleep(rig)
    await rig.clock.advance(HOUR)
    rig.clock.step_wall(-set_by_s)
    for _ in range(20):
        await asleep(rig)
        await rig.clock.advance(DAY)
    await asleep(rig)
    await rig.stop()
    rig.clock.reboot()
    await rig.start()
    due_at = await rig.db.read(lambda conn: rig.timers.due_at(conn, "note", "a"))
    assert due_at is not None
    assert due_at - rig.timers.now() == pytest.approx(10 * DAY - HOUR, abs=2 * HOUR)


async def test_a_clock_that_has_lost_its_time_for_days_makes_nothing_older_at_the_next_boot(rig: Rig) -> None:
    await rig.set("a", 30 * DAY)
    await rig.stop()
    rig.clock.step_wall(-20_000 * DAY)
    rig.clock.reboot()
    await rig.start()
    for _ in range(3):
        await asleep(rig)
        await rig.clock.advance(DAY)
    await asleep(rig)
    await rig.stop()
    rig.clock.step_wall(20_000 * DAY)
    rig.clock.reboot()
    await rig.start()
    due_at = await rig.db.read(lambda conn: rig.timers.due_at(conn, "note", "a"))
    assert due_at is not None
    assert due_at - rig.timers.now() == pytest.approx(27 * DAY, abs=2 * HOUR)


async def test_a_database_that_is_away_is_waited_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await asleep(rig)
    write = rig.db.write
    away: list[int] = []

    async def broken(work: Any) -> Any:
        away.append(1)
        raise Unavailable("no database")

    await rig.set("a", 1.0)
    await asleep(rig)
    monkeypatch.setattr(rig.db, "write", broken)
    await rig.clock.advance(1.0)
    await eventually(lambda: away)
    await asleep(rig)
    monkeypatch.setattr(rig.db, "write", write)
    await rig.clock.advance(1.0)
    await rig.fired("a")


@pytest.mark.slow
async def test_among_many_timers_the_next_one_is_found_by_an_index(rig: Rig) -> None:
    await rig.stop()
    await rig.start(run=False)
    keys = [f"{number:06}" for number in range(100_000)]
    await rig.db.write(lambda conn: rig.timers.set_many(conn, "note", keys, after_s=HOUR))
    if rig.db.path is not None:
        due = "EXPLAIN QUERY PLAN SELECT * FROM timer WHERE try_at <= 1 ORDER BY try_at, kind, key LIMIT 100"
        for query in (due, "EXPLAIN QUERY PLAN SELECT min(try_at) FROM timer"):
            plan = await rig.db.read(lambda conn, q=query: str(conn.exec_driver_sql(q).all()))  # type: ignore[misc]
            assert "ix_timer_try" in plan, plan
            assert "USE TEMP B-TREE FOR ORDER BY" not in plan, plan
    await rig.set("first", 1.0)
    rig.running = asyncio.create_task(rig.timers.run())
    await asleep(rig)
    await rig.clock.advance(1.0)
    await rig.fired("first")
    assert await rig.left() == 100_000
