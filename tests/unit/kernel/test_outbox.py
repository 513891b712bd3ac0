"""Outbox: nothing before its commit, everything after it, in order, at least once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import MetaData, func, select

from headway.errors import HeadwayError, InvalidInput, Unavailable
from headway.store import Database, Outbox, OutboxRow
from tests.support.clock import FakeClock
from tests.support.waiting import eventually

NOW = 1_000.0


class Peer:
    """Receives rows; can be away, and can receive without the sender hearing of it."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.calls = 0
        self.fails_with: list[Exception] = []
        self.answer_lost = 0

    async def __call__(self, rows: list[OutboxRow]) -> None:
        self.calls += 1
        if self.fails_with:
            raise self.fails_with.pop(0)
        self.got += [row.payload for row in rows]
        if self.answer_lost:
            self.answer_lost -= 1
            raise Unavailable("answer lost")


class Rig:
    """A database with an outbox; `pump` starts delivery to a peer."""

    def __init__(self, url: str, clock: FakeClock) -> None:
        self.url, self.clock = url, clock
        self.peer = Peer()
        self.tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        metadata = MetaData()
        self.outbox = Outbox(metadata)
        self.db = await Database.open(self.url, room="job_manager", metadata=metadata)

    def pump(self, target: str = "tm", **options: object) -> None:
        pump = self.outbox.pump(self.db, target, self.peer, self.clock, **options)  # type: ignore[arg-type]
        self.tasks.append(asyncio.create_task(pump.run()))

    async def add(self, *payloads: bytes, target: str = "tm") -> None:
        await self.db.write(lambda conn: self.outbox.add_many(conn, target, [("event", p) for p in payloads], NOW))

    async def left(self) -> int:
        await self.db.write(lambda conn: None)  # deferred deletes join it
        return int(await self.db.read(lambda conn: conn.execute(select(func.count(self.outbox.table.c.seq))).scalar()))

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.db.close()

    async def received(self, *payloads: bytes) -> None:
        await eventually(lambda: self.peer.got == list(payloads), what=f"{payloads}, got {self.peer.got}")


@pytest.fixture
async def rig(url: str, clock: FakeClock) -> AsyncIterator[Rig]:
    rig = Rig(url, clock)
    await rig.open()
    yield rig
    await rig.close()


async def test_a_commit_wakes_the_pump_and_the_row_goes(rig: Rig) -> None:
    rig.pump()
    await rig.add(b"1")
    await rig.received(b"1")
    await rig.add(b"2", b"3")
    await rig.received(b"1", b"2", b"3")
    assert await rig.left() == 0


async def test_nothing_goes_when_the_transaction_fails(rig: Rig) -> None:
    rig.pump()

    def fails(conn):  # type: ignore[no-untyped-def]
        rig.outbox.add(conn, "tm", "event", b"never", NOW)
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        await rig.db.write(fails)
    await rig.add(b"real")
    await rig.received(b"real")


async def test_rows_of_before_a_restart_go_first(rig: Rig) -> None:
    await rig.add(b"1", b"2")
    await rig.close()
    await rig.open()
    rig.pump()
    await rig.add(b"3")
    await rig.received(b"1", b"2", b"3")


async def test_a_peer_that_is_away_gets_everything_in_order_later(rig: Rig) -> None:
    rig.peer.fails_with = [Unavailable("away")] * 3
    rig.pump()
    await rig.add(b"1")
    for _ in range(3):
        await eventually(lambda: rig.clock.sleeping == 1)
        await rig.add(b"more")
        calls = rig.peer.calls
        await rig.clock.settle()
        assert rig.peer.calls == calls, "a commit does not hammer a peer that is away"
        await rig.clock.advance(rig.clock._sleepers[0].wake_at - rig.clock.monotonic())
    await rig.received(b"1", b"more", b"more", b"more")


async def test_pauses_grow_to_a_bound(rig: Rig) -> None:
    rig.peer.fails_with = [Unavailable("away")] * 12
    rig.pump()
    await rig.add(b"1")
    pauses = []
    for _ in range(12):
        await eventually(lambda: rig.clock.sleeping == 1)
        pause = rig.clock._sleepers[0].wake_at - rig.clock.monotonic()
        pauses.append(round(pause, 3))
        await rig.clock.advance(pause)
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses[-1] == 5.0
    await rig.received(b"1")


async def test_a_lost_answer_means_delivery_twice_never_none(rig: Rig) -> None:
    rig.peer.answer_lost = 1
    rig.pump()
    await rig.add(b"1")
    await eventually(lambda: rig.clock.sleeping == 1)
    await rig.clock.advance(1)
    await rig.received(b"1", b"1")


async def test_a_fault_in_the_sender_itself_keeps_the_row(rig: Rig) -> None:
    rig.peer.fails_with = [KeyError("bug")]
    rig.pump()
    await rig.add(b"1")
    await eventually(lambda: rig.clock.sleeping == 1)
    await rig.clock.advance(1)
    await rig.received(b"1")


async def test_targets_do_not_wait_for_each_other(rig: Rig) -> None:
    rig.pump("tm")
    await rig.add(b"other", target="elsewhere")
    await rig.add(b"mine")
    await rig.received(b"mine")
    assert await rig.left() == 1


async def test_batches_are_bounded_by_rows_and_bytes(rig: Rig) -> None:
    await rig.add(*[b"x" * 100] * 10)
    rig.pump(max_rows=4, max_bytes=250)
    await rig.received(*[b"x" * 100] * 10)
    assert rig.peer.calls == 5
    await rig.add(b"y" * 1000)
    await eventually(lambda: rig.peer.got[-1:] == [b"y" * 1000], what="a row above the bound goes alone")


async def test_a_refused_row_blocks_until_someone_gives_it_up(rig: Rig) -> None:
    given_up: list[bytes] = []

    async def give_up(row: OutboxRow, error: HeadwayError) -> bool:
        given_up.append(row.payload)
        return True

    async def picky(rows: list[OutboxRow]) -> None:
        if any(row.payload == b"bad" for row in rows):
            raise InvalidInput("never")
        rig.peer.got += [row.payload for row in rows]

    pump = rig.outbox.pump(rig.db, "tm", picky, rig.clock, give_up=give_up)
    rig.tasks.append(asyncio.create_task(pump.run()))
    await rig.add(b"1", b"bad", b"2")
    await rig.received(b"1", b"2")
    assert given_up == [b"bad"]
    assert await rig.left() == 0


async def test_numbers_go_on_above_one_that_was_heard_of_elsewhere(rig: Rig) -> None:
    """A restored table would use numbers again that its receiver has seen."""
    assert await rig.db.read(rig.outbox.last_seq) == 0
    await rig.db.write(lambda conn: rig.outbox.go_on_after(conn, 40))
    assert await rig.db.read(rig.outbox.last_seq) == 40
    await rig.db.write(lambda conn: rig.outbox.add(conn, "them", "k", b"x", NOW))
    assert await rig.db.read(rig.outbox.last_seq) == 41
    await rig.db.write(lambda conn: rig.outbox.go_on_after(conn, 7))
    await rig.db.write(lambda conn: rig.outbox.add(conn, "them", "k", b"y", NOW))
    assert await rig.db.read(rig.outbox.last_seq) == 42


async def test_a_stream_of_single_events_costs_few_calls(rig: Rig, clock: FakeClock) -> None:
    rig.pump(gather_s=0.2)
    await eventually(lambda: clock.sleeping)
    for number in range(10):
        await rig.add(b"%d" % number)
    await clock.advance(0.2)
    await rig.received(*(b"%d" % number for number in range(10)))
    assert rig.peer.calls == 1
