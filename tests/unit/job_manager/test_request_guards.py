"""Requests that are repeated after a lost answer, and what is stored together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from headway.errors import IdempotencyMismatch, StoreUnavailable
from headway.rpc.v1 import common_pb2, job_manager_pb2, task_manager_pb2
from headway.states import TaskEventKind
from headway.store import OutboxRow
from job_manager import store
from job_manager.delivery import Delivery
from job_manager.ports import ShapeVerdicts, TaskShape
from job_manager.tables import outbox
from tests.support.clock import FakeClock
from tests.unit.job_manager.rig import JobManagerRig, a_rig


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[JobManagerRig]:
    async with a_rig(tmp_path, clock) as one:
        yield one


async def test_one_request_that_comes_twice_at_once_makes_one_job(rig: JobManagerRig) -> None:
    """Both find nothing before either has stored its job."""
    both = await asyncio.gather(*(rig.submit({"a": ""}, "request-1") for _ in range(2)))
    assert both[0].job_id == both[1].job_id
    assert len(await rig.db.read(store.live_job_ids)) == 1


async def test_a_request_id_of_another_job_is_refused(rig: JobManagerRig) -> None:
    await rig.submit({"a": ""}, "request-1")
    header = job_manager_pb2.JobHeader(
        owner=common_pb2.Account(name="ann"), name="j", request_id="request-1", task_count=1, spec_hash="other"
    )
    with pytest.raises(IdempotencyMismatch):
        await rig.jobs.submit(header, [common_pb2.TaskSpec(name="b", timeout_s=60)])


async def test_a_retry_that_is_asked_for_again_runs_once(rig: JobManagerRig) -> None:
    job_id = (await rig.submit({"a": ""})).job_id
    await rig.jobs.report([rig.event(job_id, "a", TaskEventKind.FAILED)])
    first = await rig.jobs.act(job_id, "", "retry", request_id="wish-1")
    await rig.jobs.report([rig.event(job_id, "a", TaskEventKind.FAILED, generation=2)])
    again = await rig.jobs.act(job_id, "", "retry", request_id="wish-1")
    assert (first.tasks_changed, again.tasks_changed) == (1, 1)
    enqueued = [generation for kind, _, generation in await rig.commands(job_id) if kind == "enqueue"]
    assert enqueued == [1, 2]


async def test_a_request_id_of_another_wish_is_refused(rig: JobManagerRig) -> None:
    job_id = (await rig.submit({"a": ""})).job_id
    await rig.jobs.act(job_id, "", "hold", request_id="wish-1")
    with pytest.raises(IdempotencyMismatch):
        await rig.jobs.act(job_id, "", "cancel", request_id="wish-1")


async def test_a_change_that_was_not_stored_is_forgotten(rig: JobManagerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = (await rig.submit({"a": ""})).job_id
    await rig.jobs.act(job_id, "", "hold")  # in memory from now on
    await rig.jobs.act(job_id, "", "release")
    real = store.save

    def breaks(conn: Connection, *rest: Any) -> None:
        raise StoreUnavailable("the connection broke")

    monkeypatch.setattr(store, "save", breaks)
    with pytest.raises(StoreUnavailable):
        await rig.jobs.act(job_id, "", "cancel")
    monkeypatch.setattr(store, "save", real)
    assert (await rig.jobs.act(job_id, "", "cancel")).tasks_changed == 1
    assert ("cancel", "a", 1) in await rig.commands(job_id)


async def test_a_cancel_is_stored_with_its_command(rig: JobManagerRig) -> None:
    job_id = (await rig.submit({"a": ""})).job_id
    await rig.jobs.act(job_id, "", "cancel")
    assert ("cancel", "a", 1) in await rig.commands(job_id)


class Taking:
    """A TaskManager that notes the numbers of the commands."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    async def apply(
        self, commands: Sequence[task_manager_pb2.TaskCommand], steady: tuple[str, float] | None = None
    ) -> None:
        self.numbers += [command.seq for command in commands]

    async def check(self, shapes: Sequence[TaskShape]) -> ShapeVerdicts:
        raise AssertionError("nobody asks")


async def test_each_command_carries_the_number_by_which_it_is_known_again(rig: JobManagerRig) -> None:
    job_id = (await rig.submit({"a": ""})).job_id
    await rig.jobs.act(job_id, "", "cancel")
    taking = Taking()
    found = await rig.db.read(lambda conn: conn.execute(select(outbox.table).order_by(outbox.table.c.seq)).all())
    rows = [OutboxRow(row.seq, row.target, row.kind, row.payload, row.created_at) for row in found]
    await Delivery(rig.db, rig.jobs, taking).send(rows)
    assert taking.numbers == [row.seq for row in rows]
    assert len(set(taking.numbers)) == len(rows) == 2
