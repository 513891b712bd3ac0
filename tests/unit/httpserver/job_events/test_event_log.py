"""Job events as HttpServer keeps them: each once, in order, none swallowed, and consumers that miss none."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import BigInteger, Column, Connection, MetaData, Table, func, insert, select

from headway.errors import InvalidInput, NotAllowed, Unavailable
from headway.ids import new_job_id
from headway.model.job_events import JobEventWord
from headway.model.retention import DAY_S
from headway.rpc.v1 import common_pb2
from headway.rpc.v1 import http_server_pb2 as hs
from headway.store import Database, Timers
from headway.store.migrations import differences
from httpserver.auth.model import Account
from httpserver.job_events import store
from httpserver.job_events.consumer import EventConsumer
from httpserver.job_events.event_log import JobEventLog
from httpserver.job_events.reading import EventReading
from httpserver.job_events.store import EventFilter, StoredJobEvent
from httpserver.job_events.tables import job_events
from httpserver.tables import metadata, timer_table
from tests.support.clock import FakeClock
from tests.support.postgres import Postgres
from tests.support.waiting import eventually

ALL = EventFilter()
BOBS, NOBODYS = new_job_id(1.8e9), new_job_id(1.9e9)
effects = Table("effects", MetaData(), Column("number", BigInteger))


def account(name: str, *, admin: bool = False) -> Account:
    return Account(
        name=name, uid=20_000, gid=20_000, admin=admin, enabled=True, may_use_image_user=False,
        may_use_high_priority=False, created_at=0.0,
    )  # fmt: skip


def an_event(job: str = "j1", word: str = "submitted", owner: str = "ann", **fields: Any) -> hs.JobEvent:
    return hs.JobEvent(word=word, job_id=job, owner=owner, at=5.0, **fields)


class Rig:
    def __init__(self, folder: Path, clock: FakeClock, url: str = "") -> None:
        self.path, self.clock = folder / "http.db", clock
        self.url = url or str(self.path)
        self.running: asyncio.Task[None] | None = None

    async def start(self, *, days: int = 30, run: bool = True) -> None:
        self.db = await Database.open(self.url, room="httpserver")
        self.timers = Timers(timer_table, self.db, self.clock)
        self.log = JobEventLog(self.db, self.clock, self.timers, days=days)
        await self.timers.open()
        await self.log.open()
        self.reading = EventReading(self.log, self.clock)
        self.running = asyncio.create_task(self.timers.run()) if run else None

    async def stop(self) -> None:
        if self.running is not None:
            self.running.cancel()
            await asyncio.gather(self.running, return_exceptions=True)
        await self.db.close()

    async def apply(
        self, seq: int, *events: hs.JobEvent, incarnation: str = "one", told: hs.JobEventBatch | None = None
    ) -> int:
        batch = hs.JobEventBatch(seq=seq, incarnation=incarnation, events=events)
        return await self.log.apply(hs.ApplyJobEventsRequest(batches=[batch], told=told))

    async def words(self, after: int | None = None, wanted: EventFilter = ALL) -> list[str]:
        found = await self.log.page(after, wanted, 1_000)
        return [f"{one.event.job_id} {one.event.word}".strip() for one in found.events]

    async def count(self) -> int:
        query = select(func.count()).select_from(job_events)
        return int(await self.db.read(lambda conn: conn.execute(query).scalar_one()))


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path, clock)
    await rig.start()
    yield rig
    await rig.stop()


# -- in -------------------------------------------------------------------------------------------


async def test_what_is_delivered_twice_is_stored_once(rig: Rig) -> None:
    assert await rig.apply(1, an_event()) == 1
    assert await rig.apply(1, an_event()) == 1
    assert await rig.apply(3, an_event(word="ended")) == 3
    assert await rig.apply(2, an_event(word="started")) == 3, "older than what is stored: it has come already"
    assert await rig.words() == ["j1 submitted", "j1 ended"]


async def test_no_character_of_a_sentence_is_taken_for_the_end_of_a_line(rig: Rig) -> None:
    detail = "There is no /a\u2028b\u2029c\x85d."
    await rig.apply(1, an_event(word="ended", reason=common_pb2.EndReason(word="image_bad", detail=detail)))
    boss = account("boss", admin=True)
    stream = await rig.reading.stream(boss, after="1", owner="", job="", kinds=(), still_allowed=lambda: True)
    await anext(stream)
    event, number, data, *rest = (await anext(stream)).splitlines()
    assert (event, number[:4], rest) == ("event: ended", "id: ", [""])
    assert detail in json.loads(data.removeprefix("data: "))["reason"]["sentence"]
    await stream.aclose()  # type: ignore[attr-defined]


async def test_a_cursor_that_nobody_gave_gets_a_gap_and_the_present(rig: Rig) -> None:
    await rig.apply(1, an_event())
    last = rig.log.last_number
    found = await rig.log.page(last + 1, EventFilter(owner="ann"), 10)
    assert [one.event.word for one in found.events] == ["gap"]
    assert (found.cursor, found.more) == (last, False)
    await rig.apply(2, an_event(word="ended"))
    assert await rig.words(found.cursor) == ["j1 ended"]


async def test_a_commit_whose_answer_got_lost_is_told_when_it_is_delivered_again(rig: Rig) -> None:
    before = rig.log.last_number
    add, told = rig.log._told, []
    rig.log._told = lambda *args: told.append(args)  # type: ignore[assignment, method-assign]
    await rig.apply(1, an_event())
    rig.log._told = add  # type: ignore[method-assign]
    assert not await rig.log.wait(before, "ann", 0)
    await rig.apply(1, an_event())
    assert await rig.log.wait(before, "ann", 0)
    assert rig.log.last_number == told[0][0]


async def test_what_no_job_manager_writes_is_refused(rig: Rig) -> None:
    for batch in (
        hs.JobEventBatch(seq=2**63, incarnation="one"),
        hs.JobEventBatch(seq=1, incarnation="\0"),
        hs.JobEventBatch(seq=1, incarnation="one", events=[an_event("\0")]),
    ):
        for request in (hs.ApplyJobEventsRequest(batches=[batch]), hs.ApplyJobEventsRequest(told=batch)):
            with pytest.raises(InvalidInput):
                await rig.log.apply(request)
    assert await rig.log.apply(hs.ApplyJobEventsRequest()) == 0
    assert await rig.words() == []


async def test_a_restored_job_manager_uses_its_numbers_again_and_nothing_new_is_swallowed(rig: Rig) -> None:
    await rig.apply(1, an_event("old"), incarnation="before")
    await rig.apply(2, an_event("lost"), incarnation="before")
    # Its database is a copy from between the two; batch 1 waits there still, and 2 is given to another one.
    await rig.apply(1, an_event("old"), incarnation="before")
    await rig.apply(2, an_event("new"), incarnation="after the restore")
    await rig.apply(2, an_event("new"), incarnation="after the restore")
    assert await rig.words() == ["old submitted", "lost submitted", "new submitted"]


async def test_an_answer_means_that_it_is_on_disk(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    transaction = Database._transaction

    def failing(self: Database, work: Any) -> Any:
        def fails(conn: Connection) -> None:
            work(conn)
            raise Unavailable("the disk went away before the commit")

        return transaction(self, fails)

    monkeypatch.setattr(Database, "_transaction", failing)
    with pytest.raises(Unavailable):
        await rig.apply(1, an_event())
    monkeypatch.setattr(Database, "_transaction", transaction)
    assert not rig.log.has_news(0, ""), "nobody hears of what is not stored"
    assert await rig.apply(1, an_event()) == 1
    assert await rig.words() == ["j1 submitted"]


async def test_commits_that_this_database_has_lost_show_as_a_gap(rig: Rig) -> None:
    told = hs.JobEventBatch(incarnation="one", seq=1)
    await rig.apply(1, an_event("a"))
    await rig.apply(2, an_event("b"), told=told)
    assert await rig.words() == ["a submitted", "b submitted"]
    await rig.apply(9, an_event("c"), told=hs.JobEventBatch(incarnation="one", seq=8))
    assert await rig.words() == ["a submitted", "b submitted", "gap", "c submitted"]


async def test_a_cursor_of_a_life_that_was_lost_misses_no_new_event(rig: Rig, tmp_path: Path) -> None:
    await rig.apply(1, an_event("a"))
    await rig.stop()
    shutil.copy(rig.path, tmp_path / "copy.db")
    await rig.clock.advance(60)
    await rig.start()
    await rig.apply(2, *(an_event(f"lost {number}") for number in range(50)))
    read_to = (await rig.log.page(None, ALL, 1_000)).cursor
    await rig.stop()
    shutil.copy(tmp_path / "copy.db", rig.path)
    await rig.clock.advance(60)
    await rig.start()
    await rig.apply(3, an_event("new"))
    assert await rig.words(read_to) == ["new submitted"]


async def test_numbers_rise_though_the_clock_is_set_back_and_the_machine_boots(rig: Rig) -> None:
    await rig.apply(1, an_event("a"))
    rig.clock.step_wall(-DAY_S)
    rig.clock.reboot()
    await rig.stop()
    await rig.start(run=False)
    await rig.apply(2, an_event("b"))
    assert await rig.words() == ["a submitted", "b submitted"]
    await rig.stop()
    await rig.start()


# -- out ------------------------------------------------------------------------------------------


async def test_pages_hold_each_event_once_in_order_with_gaps_among_them(rig: Rig) -> None:
    for seq in range(1, 41):
        owner = ("ann", "bob")[seq % 2]
        event = hs.JobEvent(word="gap", tasks=7) if seq % 10 == 0 else an_event(f"{seq}", owner=owner)
        await rig.apply(seq, event)
    for wanted, ids in (
        (ALL, [f"{n}" if n % 10 else "" for n in range(1, 41)]),
        (EventFilter(owner="ann"), [f"{n}" if n % 10 else "" for n in range(2, 41, 2)]),
        (EventFilter(owner="bob", words=["ended"]), [""] * 4),
        (EventFilter(job_id="13"), ["", "13", "", "", ""]),
    ):
        found: list[str] = []
        cursor: int | None = None
        while True:
            page = await rig.log.page(cursor, wanted, 3)
            found += [one.event.job_id for one in page.events]
            cursor = page.cursor
            if not page.more:
                break
        assert found == ids, wanted
        assert (await rig.log.page(cursor, wanted, 3)).events == []


async def test_a_rare_kind_is_looked_for_some_events_at_a_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_LOOKED_AT", 10)
    await rig.apply(1, *(an_event(word="task_ended") for _ in range(25)), an_event(word="ended"))
    page = await rig.log.page(None, EventFilter(owner="ann", words=["ended"]), 5)
    assert (len(page.events), page.more) == (0, True)
    page = await rig.log.page(page.cursor, EventFilter(owner="ann", words=["ended"]), 5)
    page = await rig.log.page(page.cursor, EventFilter(owner="ann", words=["ended"]), 5)
    assert ([one.event.word for one in page.events], page.more) == (["ended"], False)


async def test_accounts_see_their_own_and_admins_all(rig: Rig) -> None:
    await rig.apply(1, an_event("a", owner="ann"), an_event(BOBS, owner="bob"))
    asked: dict[str, Any] = {"after": "", "kinds": [], "limit": 10}

    async def seen(name: str, *, admin: bool = False, owner: str = "", job: str = "") -> list[str]:
        page = await rig.reading.page(account(name, admin=admin), owner=owner, job=job, **asked)
        return [one.job_id for one in page.events]

    assert await seen("ann") == await seen("ann", owner="me") == await seen("ann", owner="ann") == ["a"]
    assert await seen("boss", admin=True) == ["a", BOBS]
    assert await seen("boss", admin=True, owner="bob") == [BOBS]
    assert await seen("boss", admin=True, owner="me") == []
    assert await seen("ann", job=NOBODYS) == []
    assert await seen("boss", admin=True, job=BOBS.upper()) == [BOBS], "as each address takes an id"
    for wrong in ({"job": "b"}, {"job": "\0"}, {"owner": "\0"}):
        with pytest.raises(InvalidInput):
            await seen("boss", admin=True, **wrong)
    with pytest.raises(NotAllowed):
        await seen("ann", owner="bob")
    with pytest.raises(NotAllowed):
        await seen("ann", job=BOBS)
    for after in ("x", "-1", "1.5", "9" * 19, "\N{ARABIC-INDIC DIGIT ONE}"):
        with pytest.raises(InvalidInput):
            await rig.reading.page(account("ann"), owner="", job="", **{**asked, "after": after})


async def test_a_stream_goes_on_behind_its_id_and_ends_when_its_reader_is_shut_out(rig: Rig) -> None:
    await rig.apply(1, an_event("a"))
    allowed = [True]
    asked: dict[str, Any] = {"owner": "", "job": "", "kinds": [JobEventWord.ENDED, JobEventWord.SUBMITTED]}

    async def follow(after: str) -> tuple[list[str], asyncio.Task[None]]:
        texts: list[str] = []
        stream = await rig.reading.stream(account("ann"), after=after, still_allowed=lambda: allowed[0], **asked)

        async def read() -> None:
            async for text in stream:
                texts.append(text)  # noqa: PERF401  # as they come

        return texts, asyncio.create_task(read())

    texts, reading = await follow("")
    await eventually(lambda: texts)
    await rig.apply(2, an_event("b"), an_event("c", owner="bob"), an_event("b", word="started"))
    await eventually(lambda: len(texts) == 2)
    assert texts[1].startswith("event: submitted\nid: ")
    assert '"job_id":"b"' in texts[1]
    first = texts[0].rpartition("id: ")[2].strip()
    reading.cancel()
    texts, reading = await follow(first)
    await eventually(lambda: len(texts) == 2)
    await rig.apply(3, an_event("b", word="ended"))
    await eventually(lambda: len(texts) == 3)
    assert texts[2].startswith("event: ended\n")
    await eventually(lambda: rig.clock.sleeping)
    await rig.clock.advance(15)
    await eventually(lambda: any("still here" in text for text in texts))
    allowed[0] = False

    async def ended() -> bool:
        await rig.clock.advance(15)
        return reading.done()

    await eventually(ended)
    assert rig.reading.streams == 0
    texts, reading = await follow(first)
    await eventually(lambda: texts)
    rig.log.close()
    await eventually(reading.done)


# -- removal --------------------------------------------------------------------------------------


async def test_the_events_of_a_removed_job_go_but_for_the_last(rig: Rig) -> None:
    await rig.apply(1, *(an_event("a", word="task_ended") for _ in range(450)), an_event("b"))
    await rig.apply(2, an_event("a", word="removed"))

    async def gone() -> bool:
        return await rig.words() == ["b submitted", "a removed"]

    await eventually(gone)


async def test_a_removal_that_was_cut_off_goes_on_at_the_next_start(rig: Rig) -> None:
    await rig.stop()
    await rig.start(run=False)
    await rig.apply(1, *(an_event("a", word="task_ended") for _ in range(450)), an_event("a", word="removed"))
    await rig.stop()
    assert rig.running is None
    await rig.start()

    async def gone() -> bool:
        return await rig.words() == ["a removed"]

    await eventually(gone)


async def test_old_events_go_in_small_steps_and_a_late_reader_sees_a_gap(rig: Rig) -> None:
    await rig.apply(1, *(an_event(f"{n}") for n in range(500)))
    early = (await rig.log.page(None, ALL, 1)).cursor
    await rig.clock.advance(29 * DAY_S)
    await rig.apply(2, an_event("young"))
    await rig.clock.advance(2 * DAY_S - 1)

    async def gone() -> bool:
        await rig.clock.advance(1_800)  # a busy machine may come to a step so late that the next is a day away
        return await rig.count() == 1

    await eventually(gone)
    assert await rig.words() == ["young submitted"]
    assert await rig.words(early) == ["gap", "young submitted"]
    assert await rig.words(early, EventFilter(owner="ann", words=["ended"])) == ["gap"]
    cursor = (await rig.log.page(early, ALL, 1)).cursor
    assert await rig.words(cursor) == ["young submitted"], "the gap is told once"
    await rig.stop()
    await rig.start(days=3)
    await eventually(lambda: rig.clock.sleeping)
    assert await rig.count() == 1
    await rig.stop()
    await rig.start(days=1)  # a shorter rule counts at once

    async def empty() -> bool:
        await rig.clock.advance(60)
        return await rig.count() == 0

    await eventually(empty)


async def test_whoever_sets_the_clock_forward_removes_no_event(rig: Rig) -> None:
    await rig.apply(1, an_event("a"))
    rig.clock.step_wall(400 * DAY_S)
    await rig.stop()
    await rig.start()
    await eventually(lambda: rig.clock.sleeping)
    await rig.clock.advance(DAY_S)
    assert await rig.words() == ["a submitted"]


# -- consumers ------------------------------------------------------------------------------------


class Reader:
    """A consumer whose effects are rows; it is killed where a test says."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.outside: list[int] = []
        self.kill_in = ""

    async def make(self, **options: Any) -> EventConsumer:
        await self.rig.db.write(lambda conn: effects.create(conn, checkfirst=True))
        consumer = EventConsumer(self.rig.log, "reader", self._effect, self.rig.clock, outside=self._outside, **options)
        await consumer.open()
        return consumer

    async def numbers(self) -> list[int]:
        return await self.rig.db.read(lambda conn: list(conn.execute(select(effects.c.number)).scalars()))

    def _effect(self, conn: Connection, events: Sequence[StoredJobEvent]) -> None:
        conn.execute(insert(effects), [{"number": one.number} for one in events])
        if self.kill_in == "effect":
            raise RuntimeError("killed between the effect and the commit")

    async def _outside(self, events: Sequence[StoredJobEvent]) -> None:
        if self.kill_in == "outside":
            raise Unavailable("nobody there")
        self.outside += [one.number for one in events]


async def test_a_consumer_that_is_killed_between_effect_and_advance_repeats_and_stores_once(rig: Rig) -> None:
    reader = Reader(rig)
    consumer = await reader.make()
    for seq in range(1, 4):
        await rig.apply(seq, an_event(f"{seq}"))
    for where in ("outside", "effect"):
        reader.kill_in = where
        with pytest.raises((Unavailable, RuntimeError)):
            await consumer.step()
        assert await reader.numbers() == []
    reader.kill_in = ""
    await rig.stop()
    await rig.start()
    consumer = await reader.make()  # the next start
    await consumer.step()
    numbers = [one.number for one in (await rig.log.page(None, ALL, 10)).events]
    assert await reader.numbers() == numbers
    assert reader.outside == numbers * 2, "outside at least once"
    await consumer.step()
    assert await reader.numbers() == numbers


async def test_a_new_consumer_begins_now_or_with_the_oldest_event(rig: Rig) -> None:
    await rig.apply(1, an_event("a"))
    reader = Reader(rig)
    await (await reader.make()).step()
    assert await reader.numbers() == []
    other = EventConsumer(rig.log, "other", reader._effect, rig.clock, from_oldest=True)
    await other.open()
    await other.step()
    assert len(await reader.numbers()) == 1


async def test_a_running_consumer_takes_what_comes_waits_after_a_failure_and_sees_gaps(rig: Rig) -> None:
    reader = Reader(rig)
    consumer = await reader.make()
    reader.kill_in = "effect"
    running = asyncio.create_task(consumer.run())
    await rig.apply(1, an_event("a"))
    before = rig.clock.sleeping
    await eventually(lambda: rig.clock.sleeping >= before)
    reader.kill_in = ""

    async def dealt_with(count: int) -> bool:
        await rig.clock.advance(0.5)
        return len(await reader.numbers()) == count

    await eventually(lambda: dealt_with(1))
    await rig.apply(2, *(an_event(f"{n}") for n in range(250)))
    await eventually(lambda: dealt_with(251))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await rig.clock.advance(40 * DAY_S)

    async def gone() -> bool:
        return await rig.count() == 0

    await rig.apply(3, an_event("unseen"))
    await rig.clock.advance(40 * DAY_S)
    await eventually(gone)
    await consumer.step()
    assert len(await reader.numbers()) == 252, "a gap, and not silence"


@pytest.mark.postgres
async def test_all_of_it_on_postgresql(tmp_path: Path, clock: FakeClock, postgres: Postgres) -> None:
    import httpserver.app  # noqa: F401  # so that all rooms' tables are known

    rig = Rig(tmp_path, clock, postgres.tcp_url(postgres.new_database()))
    await rig.start()
    assert differences(rig.db._write_engine, "httpserver", metadata) == []
    reader = Reader(rig)
    consumer = await reader.make()
    await rig.apply(1, *(an_event("a", word="task_ended") for _ in range(300)), hs.JobEvent(word="gap", tasks=2))
    await rig.apply(1, an_event("again"))
    await rig.apply(2, an_event("b", owner="bob"), an_event("a", word="removed"))

    async def gone() -> bool:
        return await rig.words() == ["gap", "b submitted", "a removed"]

    await eventually(gone)
    assert await rig.words(0, EventFilter(owner="bob", words=["submitted"])) == ["gap", "b submitted"]
    reader.kill_in = "effect"
    with pytest.raises(RuntimeError):
        await consumer.step()
    reader.kill_in = ""
    await consumer.step()
    assert len(await reader.numbers()) == 3
    await eventually(lambda: clock.sleeping)
    await clock.advance(31 * DAY_S)

    async def empty() -> bool:
        await clock.advance(DAY_S)
        return await rig.count() == 0

    await eventually(empty)
    await rig.stop()
