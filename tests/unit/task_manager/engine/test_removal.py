"""What TaskManager has of jobs that are removed goes in small steps, and their usage stays by day."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from headway.errors import InvalidInput
from headway.ids import AttemptId
from headway.model.reasons import EndReason, EndWord
from headway.rpc.v1 import task_manager_pb2 as pb
from headway.states import AttemptState
from task_manager.answers.advice_queries import TimeoutAdvisor
from task_manager.answers.timeout_advice import GONE
from task_manager.engine.removal import MOST_JOBS, JobRemoval
from task_manager.engine.usage import DAY_S, TimeSpan, UsageGrouping, UsageSummary
from task_manager.store import removal_store, usage_store
from task_manager.store.tables import attempts, task_specs, tasks
from tests.support.attempts import an_attempt, keep
from tests.support.clock import FakeClock
from tests.support.postgres import Postgres
from tests.unit.task_manager.rig import TaskManagerRig, a_node, a_task, a_task_manager

DAY_0 = 20_000 * DAY_S
HOUR_S = 3_600.0


on_both = pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])


@pytest.fixture
def database() -> str:
    """The kind that those tests run on which are about more than SQL."""
    return "sqlite"


@pytest.fixture
def url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if database == "sqlite":
        return str(tmp_path / "tm.db")
    server: Postgres = request.getfixturevalue("postgres")
    return server.url(server.new_database())


@pytest.fixture
async def rig(url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock, url=url) as made:
        yield made


async def remove(rig: TaskManagerRig, *job_ids: str) -> pb.RemoveJobsReply:
    """As JobManager does: again and again, until nothing is left of the jobs that need not wait."""
    removal = JobRemoval(rig.engine, rig.db, rig.clock)
    while True:
        asked = asyncio.ensure_future(removal.remove(job_ids))
        while not asked.done():
            await asyncio.sleep(0.002)
            await rig.clock.advance(0.01)
        reply = await asked
        if len(reply.gone) + len(reply.waits) == len(job_ids):
            return reply


async def left(rig: TaskManagerRig, job_id: str) -> list[int]:
    """How many specs, attempts and tasks there are of a job."""
    return [
        int(await rig.db.read(lambda conn, query=query: conn.execute(query).scalar()) or 0)
        for table in (task_specs, attempts, tasks)
        for query in [select(func.count()).select_from(table).where(table.c.job_id == job_id)]
    ]


async def usage(rig: TaskManagerRig, by: UsageGrouping, *, days: float = 10, owner: str = "") -> UsageSummary:
    span = TimeSpan(DAY_0 - DAY_S, DAY_0 + days * DAY_S)
    return await rig.db.read(
        lambda conn: usage_store.load_usage(conn, by, span, owner=owner, now=DAY_0 + 20 * DAY_S, limit=100, offset=0)
    )


@on_both
async def test_a_job_goes_with_all_that_is_known_of_it_and_no_other_does(rig: TaskManagerRig) -> None:
    mine = [a_task(f"t{number}", job="j1") for number in range(250)]
    other = a_task("t", job="j2")
    runs = [an_attempt(task, number, at=DAY_0, to=DAY_0 + 60) for task in mine for number in (1, 2)]
    await keep(rig.db, [*mine, other], [*runs, an_attempt(other, at=DAY_0, to=DAY_0 + 60)])
    reply = await remove(rig, "j1", "never")
    assert set(reply.gone) == {"j1", "never"}
    assert await left(rig, "j1") == [0, 0, 0]
    assert await left(rig, "j2") == [1, 1, 1]
    assert list((await remove(rig, "j1")).gone) == ["j1"], "safe to repeat"


@on_both
async def test_a_step_is_small_and_what_was_cut_off_goes_on(rig: TaskManagerRig) -> None:
    mine = [a_task(f"t{number}", job="j1") for number in range(400)]
    await keep(rig.db, mine, [an_attempt(task, at=DAY_0, to=DAY_0 + 60) for task in mine])
    assert await rig.db.write(lambda conn: removal_store.remove_some(conn, ["j1"]))
    assert await left(rig, "j1") == [150, 150, 150]
    before = (await usage(rig, UsageGrouping.USER)).total
    await rig.restart()
    assert list((await remove(rig, "j1")).gone) == ["j1"]
    assert (await usage(rig, UsageGrouping.USER)).total == before


@on_both
async def test_a_removal_beside_turns_takes_nothing_of_what_runs(rig: TaskManagerRig) -> None:
    """Steps and turns share tables, rows of sums too, and neither fails by the other."""
    await rig.nodes(a_node("n1", gpus=1, cpu=6400))
    old = [a_task(f"t{number}", job="j1") for number in range(250)]
    await keep(rig.db, old, [an_attempt(task, at=DAY_0, to=DAY_0 + 60) for task in old])
    new = [a_task(f"t{number}", job="j2") for number in range(20)]

    async def work() -> None:
        for task in new:
            await rig.enqueue(task)
            await asyncio.sleep(0.002)

    reply, _ = await asyncio.gather(remove(rig, "j1"), work())
    assert list(reply.gone) == ["j1"]
    assert await left(rig, "j1") == [0, 0, 0]
    assert (await left(rig, "j2"))[2] == len(new)
    assert all(rig.state(task.id) != "gone" for task in new)


@on_both
@pytest.mark.parametrize("by", [UsageGrouping.USER, UsageGrouping.NODE, UsageGrouping.DAY])
async def test_usage_by_day_is_the_same_after_the_removal(rig: TaskManagerRig, by: UsageGrouping) -> None:
    long, short = a_task("long", job="j1", gpus=2, timeout=90 * HOUR_S), a_task("short", job="j1", gpus=1)
    stays, bobs = a_task("stays", job="j2", gpus=1), a_task("bobs", job="j3", owner="bob")
    await keep(
        rig.db,
        [long, short, stays, bobs],
        [
            an_attempt(long, at=DAY_0 + 23 * HOUR_S, to=DAY_0 + 50 * HOUR_S, state=AttemptState.TIMED_OUT),
            an_attempt(short, at=DAY_0 + HOUR_S, to=DAY_0 + 2 * HOUR_S, state=AttemptState.FAILED, node="n2"),
            an_attempt(short, 2, at=DAY_0 + 25 * HOUR_S, to=DAY_0 + 26 * HOUR_S, node="n2"),
            an_attempt(stays, at=DAY_0 + HOUR_S, to=DAY_0 + 30 * HOUR_S),
            an_attempt(bobs, at=DAY_0 + HOUR_S, to=DAY_0 + 3 * HOUR_S),
        ],
    )
    before, before_ann = await usage(rig, by), await usage(rig, by, owner="ann")
    await remove(rig, "j1")
    await remove(rig, "j3")
    assert await usage(rig, by) == before
    assert await usage(rig, by, owner="ann") == before_ann


@on_both
async def test_what_was_removed_today_counts_before_noon_too(rig: TaskManagerRig) -> None:
    task, now = a_task("a", job="j1", gpus=1), DAY_0 + 9 * HOUR_S
    await keep(rig.db, [task], [an_attempt(task, at=DAY_0 + HOUR_S, to=DAY_0 + 2 * HOUR_S)])
    await remove(rig, "j1")

    async def gpu_s(begin: float, end: float) -> float:
        by, span = UsageGrouping.USER, TimeSpan(begin, end)
        found = await rig.db.read(
            lambda conn: usage_store.load_usage(conn, by, span, owner="", now=now, limit=9, offset=0)
        )
        return found.total.gpu_s

    assert await gpu_s(now - 30 * DAY_S, now - 0.1) == HOUR_S
    assert await gpu_s(now - 30 * DAY_S, DAY_0 + 3 * HOUR_S) == 0.0, "its noon is not in this span"


@on_both
async def test_jobs_that_are_gone_are_one_row(rig: TaskManagerRig) -> None:
    gone, stays = a_task("a", job="j1", gpus=1), a_task("a", job="j2", gpus=1)
    await keep(rig.db, [gone, stays], [an_attempt(task, at=DAY_0, to=DAY_0 + HOUR_S) for task in (gone, stays)])
    total = (await usage(rig, UsageGrouping.JOB)).total
    await remove(rig, "j1")
    found = await usage(rig, UsageGrouping.JOB)
    assert [(row.key, row.job_name, row.sums.gpu_s) for row in found.rows] == [
        ("j2", stays.job_name, HOUR_S),
        ("", usage_store.GONE_JOBS, HOUR_S),
    ]
    assert found.total == total


async def test_a_task_that_lives_keeps_its_job(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1", gpus=1))
    await rig.enqueue(a_task("t", job="j1"))
    reply = await remove(rig, "j1")
    assert dict(reply.waits) == {"j1": "The scheduler has not noted the end of its task t yet."}
    assert (await left(rig, "j1"))[2] == 1


@on_both
async def test_an_attempt_that_may_still_run_keeps_its_job(rig: TaskManagerRig) -> None:
    """Its row is what remembers, over a restart, that its node has not told of its end."""
    await rig.nodes(a_node("n1", gpus=1))
    task = a_task("t", job="j1")
    lost = an_attempt(
        task, at=DAY_0, to=DAY_0 + 60, state=AttemptState.LOST, reason=EndReason(EndWord.NODE_LOST), run_s=None
    )
    await keep(rig.db, [task], [lost])
    rig.engine.state.unconfirmed[a_node("n1").id] = "not heard"
    reply = await remove(rig, "j1")
    assert list(reply.gone) == []
    assert "declared lost on n1" in reply.waits["j1"]
    del rig.engine.state.unconfirmed[a_node("n1").id]
    assert list((await remove(rig, "j1")).gone) == ["j1"]


@on_both
async def test_what_logs_take_is_summed(rig: TaskManagerRig) -> None:
    task = a_task("t", job="j1")
    runs = [
        an_attempt(task, 1, at=DAY_0, to=DAY_0 + 60, stdout_bytes=10, stderr_bytes=5),
        an_attempt(task, 2, at=DAY_0 + 99, to=DAY_0 + 100, stdout_bytes=7),
    ]
    await keep(rig.db, [task], runs)
    assert AttemptId(task.id, 2) == runs[1].id
    found = await JobRemoval(rig.engine, rig.db, rig.clock).measure(["none", "j1"])
    assert list(found.log_bytes) == [0, 22]


async def test_too_many_jobs_at_once_are_refused(rig: TaskManagerRig) -> None:
    with pytest.raises(InvalidInput, match="At most"):
        await JobRemoval(rig.engine, rig.db, rig.clock).remove(["j"] * (MOST_JOBS + 1))


@on_both
async def test_advice_says_that_it_does_not_know_all_runs(rig: TaskManagerRig) -> None:
    runs = {name: a_task(name, job=name, prints=(5, 0)) for name in ("j1", "j2", "j3", "j4")}
    await keep(
        rig.db, list(runs.values()), [an_attempt(t, at=DAY_0, to=DAY_0 + 60, prints=(5, 0)) for t in runs.values()]
    )
    asked = pb.SuggestTimeoutsRequest()
    asked.asked.add(command_print=5, timeout_s=600.0)
    advisor = TimeoutAdvisor(rig.engine, rig.db)
    (before,) = (await advisor.advise(asked)).advice
    assert (before.succeeded, GONE in before.sentence) == (4, False)
    await remove(rig, "j1")
    (after,) = (await advisor.advise(asked)).advice
    assert after.succeeded == 3
    assert after.sentence.endswith(GONE)
