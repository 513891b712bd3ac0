"""What becomes of the work of accounts that are disabled, and enabled again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.errors import Conflict
from headway.states import TaskEventKind
from job_manager import store
from tests.support.clock import FakeClock

from .rig import JobManagerRig, a_rig

pytestmark = pytest.mark.usefixtures("both_databases")


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[JobManagerRig]:
    async with a_rig(tmp_path, clock) as rig:
        yield rig


async def held(rig: JobManagerRig, job_id: str) -> dict[str, bool]:
    rows = await rig.db.read(lambda conn: store.load_tasks(conn, job_id))
    return {row.name: row.record.held_at is not None for row in rows}


async def test_all_that_waits_is_held_and_the_next_task_of_a_dag_does_not_start(rig: JobManagerRig) -> None:
    job_id = (await rig.submit({"a": "", "b": "a", "c": ""})).job_id
    await rig.jobs.report([rig.event(job_id, "a", TaskEventKind.ATTEMPT_STARTED)])
    others = (await rig.submit({"a": ""}, owner="bob")).job_id
    assert await rig.jobs.hold_accounts({"ann"}) == 3
    assert await held(rig, job_id) == {"a": True, "b": True, "c": True}
    assert await held(rig, others) == {"a": False}
    await rig.jobs.report([rig.event(job_id, "a", TaskEventKind.SUCCEEDED)])
    assert (await held(rig, job_id))["b"]
    assert ("hold", "c", 1) in await rig.commands(job_id)


async def test_asked_again_nothing_changes_and_what_an_admin_released_stays_so(rig: JobManagerRig) -> None:
    job_id = (await rig.submit({"a": "", "b": ""})).job_id
    await rig.jobs.hold_accounts({"ann"})
    await rig.jobs.act(job_id, "a", "release", by="root")
    assert await rig.jobs.hold_accounts({"ann"}) == 0
    assert await held(rig, job_id) == {"a": False, "b": True}


async def test_a_release_that_was_on_its_way_does_not_end_the_hold(rig: JobManagerRig) -> None:
    job_id = (await rig.submit({"a": "", "b": ""})).job_id
    await rig.jobs.hold_accounts({"ann"})
    for task in ("", "a"):
        with pytest.raises(Conflict, match="Your account is disabled"):
            await rig.jobs.act(job_id, task, "release", by="ann")
    assert await held(rig, job_id) == {"a": True, "b": True}
    await rig.jobs.hold_accounts(set())
    await rig.jobs.act(job_id, "", "hold", by="ann")
    await rig.jobs.act(job_id, "", "release", by="ann")
    assert await held(rig, job_id) == {"a": False, "b": False}


async def test_enabling_ends_the_holds_that_disabling_made_and_no_others(rig: JobManagerRig) -> None:
    job_id = (await rig.submit({"before": "", "meanwhile": "", "free": ""})).job_id
    await rig.jobs.act(job_id, "before", "hold")
    await rig.jobs.hold_accounts({"ann"})
    await rig.jobs.act(job_id, "meanwhile", "hold", by="root")
    assert await rig.jobs.hold_accounts({"bob"}) == 1
    assert await held(rig, job_id) == {"before": True, "meanwhile": True, "free": False}
    assert ("release", "free", 1) in await rig.commands(job_id)


async def test_the_time_does_not_age(rig: JobManagerRig, clock: FakeClock) -> None:
    job_id = (await rig.submit({"a": ""})).job_id
    (before,) = await rig.db.read(lambda conn: store.load_tasks(conn, job_id))
    await rig.jobs.hold_accounts({"ann"})
    clock.tick(50)
    await rig.jobs.hold_accounts(())
    (after,) = await rig.db.read(lambda conn: store.load_tasks(conn, job_id))
    assert after.record.ages_from == before.record.ages_from + 50


async def test_what_is_still_submitted_or_tried_again_is_held_too(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock) as rig:
        failed = (await rig.submit({"a": ""})).job_id
        await rig.jobs.report([rig.event(failed, "a", TaskEventKind.FAILED)])
        await rig.jobs.hold_accounts({"ann"})
    async with a_rig(tmp_path, clock) as rig:  # it is kept
        late = (await rig.submit({"a": "", "b": "a"}, "on its way")).job_id
        await rig.jobs.act(failed, "", "retry", by="root")
        assert await held(rig, late) == {"a": True, "b": True}
        assert await held(rig, failed) == {"a": True}
        await rig.jobs.hold_accounts(())
        assert await held(rig, late) == {"a": False, "b": False}
        assert await held(rig, failed) == {"a": False}


async def test_what_has_ended_is_left_alone(rig: JobManagerRig) -> None:
    job_id = (await rig.submit({"a": "", "b": ""})).job_id
    await rig.jobs.report([rig.event(job_id, "a", TaskEventKind.SUCCEEDED)])
    await rig.jobs.hold_accounts({"ann"})
    assert await held(rig, job_id) == {"a": False, "b": True}
    await rig.jobs.act(job_id, "", "cancel")
    assert await rig.jobs.hold_accounts(()) == 1
    assert not (await held(rig, job_id))["a"]
