"""The age of tasks while somebody sets the wall clock."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from headway.rpc.v1 import task_manager_pb2
from headway.states import TaskEventKind
from job_manager.tables import outbox
from tests.support.clock import FakeClock

from .rig import JobManagerRig, a_rig

pytestmark = pytest.mark.usefixtures("both_databases")

HOUR_S = 3_600.0


async def ages(rig: JobManagerRig) -> list[float]:
    """Since when each task ages, as TaskManager is told it, in the order of the commands."""
    rows = await rig.db.read(
        lambda conn: conn.execute(select(outbox.table.c.payload).order_by(outbox.table.c.seq)).scalars().all()
    )
    found = []
    for row in rows:
        command = task_manager_pb2.TaskCommand.FromString(row)
        kind = command.WhichOneof("command")
        if kind in ("enqueue", "release"):
            found.append(getattr(command, kind).submitted_at)
    return found


@pytest.mark.parametrize("step_s", [2 * HOUR_S, -2 * HOUR_S])
async def test_who_came_first_is_older_whatever_the_wall_clock_says(
    tmp_path: Path, clock: FakeClock, step_s: float
) -> None:
    began = clock.now()
    ids = []
    async with a_rig(tmp_path, clock) as rig:
        ids.append((await rig.submit({"a": ""}, "r1")).job_id)
        clock.tick(10)
        clock.step_wall(step_s)
        ids.append((await rig.submit({"b": ""}, "r2")).job_id)
    clock.tick(10)
    clock.step_wall(-2 * step_s)
    async with a_rig(tmp_path, clock) as rig:  # started again in the same life of the machine
        ids.append((await rig.submit({"c": ""}, "r3")).job_id)
        assert await ages(rig) == [began, began + 10, began + 20]
        assert ids == sorted(ids), "they are listed as they came"


async def test_after_a_boot_with_a_wrong_clock_nobody_is_older_than_those_who_wait(
    tmp_path: Path, clock: FakeClock
) -> None:
    async with a_rig(tmp_path, clock) as rig:
        await rig.submit({"a": ""}, "r1")
    clock.reboot()
    clock.step_wall(-20 * 365 * 24 * HOUR_S)
    clock.tick(5)
    async with a_rig(tmp_path, clock) as rig:
        await rig.submit({"b": ""}, "r2")
        clock.tick(5)
        await rig.submit({"c": ""}, "r3")
        first, second, third = await ages(rig)
        assert second == first
        assert third == second + 5


@pytest.mark.parametrize("step_s", [2 * HOUR_S, -2 * HOUR_S])
async def test_what_is_on_hold_does_not_age_nor_lose_its_age(tmp_path: Path, clock: FakeClock, step_s: float) -> None:
    began = clock.now()
    async with a_rig(tmp_path, clock) as rig:
        job_id = (await rig.submit({"a": ""}, "r1")).job_id
        clock.tick(100)
        await rig.jobs.act(job_id, "a", "hold")
        clock.step_wall(step_s)
        clock.tick(30)
        await rig.jobs.act(job_id, "a", "release")
        assert await ages(rig) == [began, began + 30]


async def test_what_is_run_again_by_hand_ages_from_that_moment(tmp_path: Path, clock: FakeClock) -> None:
    began = clock.now()
    async with a_rig(tmp_path, clock) as rig:
        job_id = (await rig.submit({"a": ""}, "r1")).job_id
        await rig.jobs.report([rig.event(job_id, "a", TaskEventKind.FAILED)])
        clock.step_wall(-2 * HOUR_S)
        clock.tick(50)
        await rig.jobs.act(job_id, "a", "retry")
        assert await ages(rig) == [began, began + 50]
