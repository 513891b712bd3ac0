"""Job events: each change's own, stored with it, in order, few rows for many, and a counted gap where there were too
many."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, func, insert, select

from headway.errors import Conflict, Unavailable
from headway.lifecycle import Service
from headway.model.retention import EndedJob
from headway.rpc.v1 import http_server_pb2 as hs
from headway.states import TaskEventKind
from headway.store import Database, OutboxRow
from headway.store.migrations import differences
from job_manager import forgetting
from job_manager.event_delivery import EventDelivery
from job_manager.outgoing_events import OutgoingEvents
from job_manager.tables import HTTP_SERVER, action, event_outbox, metadata
from tests.support.clock import FakeClock
from tests.support.postgres import Postgres
from tests.support.running import running
from tests.support.waiting import eventually

from .rig import JobManagerRig, a_rig


async def batches(rig: JobManagerRig) -> list[hs.JobEventBatch]:
    """What waits for HttpServer, row by row."""
    table = event_outbox.table
    rows = await rig.db.read(lambda conn: conn.execute(select(table).order_by(table.c.seq)).all())
    found = []
    for row in rows:
        batch = hs.JobEventBatch.FromString(row.payload)
        assert row.target == HTTP_SERVER
        batch.seq = row.seq
        found.append(batch)
    return found


async def told(rig: JobManagerRig) -> list[str]:
    return [
        " ".join(filter(None, (one.word, one.task, one.state, one.by and f"by {one.by}")))
        for batch in await batches(rig)
        for one in batch.events
    ]


@dataclass
class Receiver:
    """Stands for HttpServer."""

    got: list[hs.JobEventBatch] = field(default_factory=list)
    told: list[hs.JobEventBatch] = field(default_factory=list)
    away: bool = False

    async def apply_events(self, batches: Sequence[hs.JobEventBatch], told: hs.JobEventBatch) -> None:
        if self.away:
            raise Unavailable("gone fishing")
        self.got += batches
        self.told.append(told)


async def test_what_a_running_task_is_warned_of_is_told_once(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock, events=OutgoingEvents()) as rig:
        job = (await rig.submit({"a": ""})).job_id
        await rig.jobs.report([rig.event(job, "a", TaskEventKind.ATTEMPT_STARTED)])
        job_id, event = rig.event(job, "a", TaskEventKind.ATTEMPT_STARTED)
        warning = job_id, replace(event, notice="Its GPU is idle.")
        for _ in range(2):
            await rig.jobs.report([warning])
        warnings = [one for batch in await batches(rig) for one in batch.events if one.word == "task_warned"]
        assert [(one.task, one.state, one.attempt, one.sentence) for one in warnings] == [
            ("a", "RUNNING", 1, "Its GPU is idle.")
        ]
        await rig.jobs.report([rig.event(job, "a", TaskEventKind.SUCCEEDED)])
        assert (await told(rig))[-1] == "ended SUCCEEDED"


async def test_a_job_tells_its_life(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock, events=OutgoingEvents()) as rig:
        job = (await rig.submit({"a": "", "b": "a"})).job_id
        await rig.jobs.report([rig.event(job, "a", TaskEventKind.ATTEMPT_STARTED)])
        await rig.jobs.act(job, "b", "hold", by="ann")
        await rig.jobs.act(job, "", "release", by="ann")
        await rig.jobs.report([rig.event(job, "a", TaskEventKind.FAILED)])
        await rig.jobs.act(job, "", "retry", by="boss")
        await rig.jobs.act(job, "", "cancel", by="ann")
        await rig.jobs.report([rig.event(job, "a", TaskEventKind.CANCELLED, generation=2)])
        await rig.jobs.act(job, "", "delete", by="ann")
        assert await told(rig) == [
            "submitted PENDING by ann",
            "started RUNNING",
            "held b BLOCKED by ann",
            "released RUNNING by ann",
            "task_ended a FAILED",
            "task_ended b SKIPPED",
            "ended FAILED",
            "retried PENDING by boss",
            "cancel_asked STOPPING by ann",
            "task_ended b CANCELLED",
            "task_ended a CANCELLED",
            "ended CANCELLED",
            "removed CANCELLED by ann",
        ]
        events = [one for batch in await batches(rig) for one in batch.events]
        assert {(one.job_id, one.owner) for one in events} == {(job, "ann")}
        failed, skipped, ended = events[4:7]
        assert (failed.generation, failed.attempt, failed.at) == (1, 1, clock.now())
        assert failed.reason.word
        assert skipped.reason.word == "skipped"
        assert ended.reason.word == failed.reason.word
        assert (ended.job_name, failed.job_name) == ("j", "")
        assert events[0].tasks == 2


async def test_what_changes_nothing_tells_nothing(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock, events=OutgoingEvents()) as rig:
        job = (await rig.submit({"a": ""}, "once")).job_id
        before = await told(rig)
        await rig.submit({"a": ""}, "once")
        await rig.submit({"a": ""}, dry_run=True)
        await rig.jobs.act(job, "", "release", by="ann")
        await rig.jobs.act(job, "", "pin", by="ann")
        with pytest.raises(Conflict):
            await rig.jobs.act(job, "", "delete", by="ann")
        assert await told(rig) == before
        for _ in range(2):
            await rig.jobs.report([rig.event(job, "a", TaskEventKind.REQUEUED)])
        assert await told(rig) == [*before, "started RUNNING"]
        again = rig.event(job, "a", TaskEventKind.SUCCEEDED)
        await rig.jobs.act(job, "", "unpin", by="ann")
        await rig.jobs.report([again])
        after = await told(rig)
        await rig.jobs.report([again])
        assert await told(rig) == after
        assert after[-2:] == ["task_ended a SUCCEEDED", "ended SUCCEEDED"]


async def test_jobs_of_a_disabled_account_and_jobs_that_a_rule_removes_are_told(
    tmp_path: Path, clock: FakeClock
) -> None:
    async with a_rig(tmp_path, clock, events=OutgoingEvents()) as rig:
        job = (await rig.submit({"a": ""})).job_id
        await rig.jobs.hold_accounts({"ann"})
        await rig.jobs.hold_accounts(set())
        await rig.jobs.act(job, "", "cancel", by="ann")
        await rig.jobs.report([rig.event(job, "a", TaskEventKind.CANCELLED)])
        assert await rig.jobs.remove([EndedJob(job, "ann", clock.now())], "old") == [job]
        found = await told(rig)
        assert [word.partition(" ")[0] for word in found] == [
            "submitted", "held", "released", "cancel_asked", "task_ended", "ended", "removed",
        ]  # fmt: skip


async def test_an_event_is_stored_with_its_change_or_not_at_all(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_rig(tmp_path, clock, events=OutgoingEvents()) as rig:
        job = (await rig.submit({"a": ""})).job_id
        before = await told(rig)
        transaction = Database._transaction

        def full(self: Database, work: Any) -> Any:
            def failing(conn: Connection) -> None:
                work(conn)
                raise Unavailable("the disk went away before the commit")

            return transaction(self, failing)

        end = rig.event(job, "a", TaskEventKind.SUCCEEDED)
        monkeypatch.setattr(Database, "_transaction", full)
        with pytest.raises(Unavailable):
            await rig.jobs.report([end])
        monkeypatch.setattr(Database, "_transaction", transaction)
        assert await told(rig) == before
        await rig.jobs.report([end])
        assert await told(rig) == [*before, "started RUNNING", "task_ended a SUCCEEDED", "ended SUCCEEDED"]


async def test_many_ends_cost_one_row_and_one_statement(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock, events=OutgoingEvents()) as rig:
        names = [f"t{number:03}" for number in range(150)]
        job = (await rig.submit(dict.fromkeys(names, ""))).job_id
        statements: list[str] = []

        def count(conn: Any, cursor: Any, statement: str, *more: Any) -> None:
            if "event_outbox" in statement:
                statements.append(statement)

        event.listen(rig.db._write_engine, "before_cursor_execute", count)
        await rig.jobs.report([rig.event(job, name, TaskEventKind.SUCCEEDED) for name in names])
        assert len(statements) == 1, statements
        last = (await batches(rig))[-1]
        assert [one.task for one in last.events] == ["", *names, ""]
        assert len(last.SerializeToString()) < 120 * len(names)


async def test_nothing_is_stored_where_nobody_is_told(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock) as rig:
        await rig.submit({"a": ""})
        assert await batches(rig) == []


async def test_too_many_events_become_a_gap_that_counts_them(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock, events=OutgoingEvents(most_bytes=20_000)) as rig:
        jobs = 400
        for _ in range(jobs):
            await rig.submit({"a": ""})
        found = await batches(rig)
        gaps = [one for batch in found for one in batch.events if one.word == "gap"]
        assert [one.word for one in found[0].events] == ["gap"], "in the place of what is missing"
        kept = sum(len(batch.events) for batch in found) - len(gaps)
        assert 0 < kept < jobs
        assert sum(one.tasks for one in gaps) + kept == jobs
        table = event_outbox.table
        taken = await rig.db.read(lambda conn: conn.execute(select(func.sum(func.length(table.c.payload)))).scalar())
        assert 0 < taken <= 20_000 + 500
        first = found[0]
    # It is counted anew at a start.
    events = OutgoingEvents(most_bytes=20_000)
    async with a_rig(tmp_path, clock, events=events) as rig:
        await events.open(rig.db)
        for _ in range(100):
            await rig.submit({"a": ""})
        taken = await rig.db.read(lambda conn: conn.execute(select(func.sum(func.length(table.c.payload)))).scalar())
        assert 0 < taken <= 20_000 + 500
        found = await batches(rig)
        gaps = [one for batch in found for one in batch.events if one.word == "gap"]
        assert sum(one.tasks for one in gaps) + sum(len(batch.events) for batch in found) - len(gaps) == jobs + 100
        assert found[0].seq > first.seq


async def test_a_restored_database_numbers_its_new_events_under_another_incarnation(
    tmp_path: Path, clock: FakeClock
) -> None:
    """Its numbers come again. HttpServer would take new events for old ones, and drop them."""
    (tmp_path / "copy").mkdir()
    async with a_rig(tmp_path, clock, events=OutgoingEvents()) as rig:
        await rig.submit({"a": ""})
    shutil.copy(tmp_path / "jobs.db", tmp_path / "copy" / "jobs.db")
    async with a_rig(tmp_path, clock, events=OutgoingEvents()) as rig:
        await rig.submit({"b": ""})
        lost = (await batches(rig))[-1]
    async with a_rig(tmp_path / "copy", clock, events=OutgoingEvents()) as rig:
        await rig.submit({"c": ""})
        new = (await batches(rig))[-1]
    assert new.seq == lost.seq
    assert new.incarnation != lost.incarnation


async def test_delivery_numbers_the_batches_and_says_what_it_was_told(tmp_path: Path, clock: FakeClock) -> None:
    receiver = Receiver(away=True)
    events = OutgoingEvents()
    async with a_rig(tmp_path, clock, events=events) as rig:
        delivery = EventDelivery(events, receiver, rig.db)
        pump = event_outbox.pump(rig.db, HTTP_SERVER, delivery.send, clock)
        service = Service("events")
        service.side_task("events", pump.run)
        async with running(service):
            first = (await rig.submit({"a": ""})).job_id
            await rig.jobs.act(first, "", "cancel", by="ann")
            await eventually(lambda: clock.sleeping)
            assert len(await batches(rig)) == 2, "what nobody took waits"
            receiver.away = False
            await clock.advance(0.1)
            await eventually(lambda: len(receiver.got) == 2)
            await rig.submit({"b": ""})
            await eventually(lambda: len(receiver.got) == 3)
            assert [batch.seq for batch in receiver.got] == [1, 2, 3]
            assert receiver.told[0] == hs.JobEventBatch()
            assert receiver.told[1] == hs.JobEventBatch(seq=2, incarnation=receiver.got[0].incarnation)
            assert len({batch.incarnation for batch in receiver.got}) == 1
    # HttpServer may have been restored from a copy while this service was away too.
    receiver.told.clear()
    events = OutgoingEvents()
    async with a_rig(tmp_path, clock, events=events) as rig:
        delivery = EventDelivery(events, receiver, rig.db)
        await delivery.open()
        await rig.submit({"c": ""})
        await delivery.send([OutboxRow(row.seq, "", "", row.SerializeToString(), 0.0) for row in await batches(rig)])
        assert receiver.told == [hs.JobEventBatch(seq=3, incarnation=receiver.got[0].incarnation)]


async def test_events_that_are_under_way_are_not_counted_as_missing(tmp_path: Path, clock: FakeClock) -> None:
    events = OutgoingEvents(most_bytes=20_000)
    async with a_rig(tmp_path, clock, events=events) as rig:
        for _ in range(50):
            await rig.submit({"a": ""})
        sent = await batches(rig)
        events.under_way = sent[-1].seq
        for _ in range(400):
            await rig.submit({"a": ""})
        found = await batches(rig)
        assert found[:50] == sent
        assert [one.word for one in found[50].events] == ["gap"]
        rest = sum(len(batch.events) for batch in found[51:])
        assert found[50].events[0].tasks + rest == 400


async def test_old_requests_are_forgotten_though_the_service_is_started_anew_all_the_time(
    tmp_path: Path, clock: FakeClock
) -> None:
    """Once it slept six hours after each start: a service that was started anew more often never forgot any."""

    async def requests(db: Database) -> int:
        return int(await db.read(lambda conn: conn.execute(select(func.count()).select_from(action)).scalar_one()))

    async def start_for(hours: float) -> int:
        db = await Database.open(str(tmp_path / "jobs.db"), room="job_manager")
        service = Service("jobs")
        service.on_stop(db.close)
        forgetting.start(service, db, clock)
        async with running(service):
            await eventually(lambda: clock.sleeping)
            for _ in range(10):
                await clock.advance(hours * 360)
                await eventually(lambda: clock.sleeping)
            await db.write(lambda conn: None)
            return await requests(db)

    async with a_rig(tmp_path, clock) as rig:
        at = clock.now() - forgetting.ACTIONS_KEPT_S - 1
        row = {"job_id": "j", "asked": "cancel", "tasks_changed": 0}
        rows = [{**row, "request_id": "old", "at": at}, {**row, "request_id": "new", "at": clock.now()}]
        await rig.db.write(lambda conn: conn.execute(insert(action), rows))
    assert await start_for(2) == 2
    assert await start_for(2) == 2
    clock.step_wall(-1)  # whoever sets the clock back puts nothing off
    assert await start_for(2.01) == 1
    await clock.advance(forgetting.EVERY_S * 30)  # it was off: that is overdue at its start
    assert await start_for(0.01) == 0


@pytest.mark.postgres
async def test_all_of_it_on_postgresql(clock: FakeClock, postgres: Postgres) -> None:
    url = postgres.tcp_url(postgres.new_database())
    receiver = Receiver()
    for most_bytes in (5_000, 5_000_000):
        db = await Database.open(url, room="job_manager")
        assert differences(db._write_engine, "job_manager", metadata) == []
        events = OutgoingEvents(most_bytes=most_bytes)
        await events.open(db)
        rig = JobManagerRig(db, clock, events=events)
        for _ in range(100):
            job = (await rig.submit({"a": ""})).job_id
        await rig.jobs.act(job, "", "cancel", by="ann")
        await rig.jobs.close()
        pump = event_outbox.pump(db, HTTP_SERVER, EventDelivery(events, receiver, db).send, clock)
        service = Service("jobs")
        service.on_stop(db.close)
        service.side_task("events", pump.run)
        async with running(service):
            await eventually(lambda job=job: receiver.got and receiver.got[-1].events[-1].job_id == job)  # type: ignore[misc]
            await eventually(lambda: receiver.got[-1].events[-1].word == "cancel_asked")
    told = [one for batch in receiver.got for one in batch.events]
    assert sum(one.tasks if one.word == "gap" else 1 for one in told) == 202
    assert len({batch.incarnation for batch in receiver.got}) == 2
