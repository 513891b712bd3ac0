"""Who needs what: through crashes, missed news and races with deletion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import select

from headway.errors import Unavailable
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.states import JobState
from headway.store import Database
from httpserver.tables import metadata
from httpserver.uses.jobs import JobSnapshot
from httpserver.uses.service import SUBMITTING, GoneMeanwhile, Ref, Uses
from httpserver.uses.store import good_runs, holds
from tests.support.clock import FakeClock

pytestmark = pytest.mark.usefixtures("both_databases")

DIGEST = "sha256:" + "a" * 64
IMAGE = Ref("image", DIGEST)


class Jobs:
    """JobManager as a test puts it."""

    def __init__(self) -> None:
        self.states: dict[str, JobSnapshot] = {}
        self.of_requests: dict[str, str] = {}
        self.away = False

    def _answer(self) -> None:
        if self.away:
            raise Unavailable("gone fishing")

    async def now(self, job_id: str) -> JobSnapshot | None:
        self._answer()
        return self.states.get(job_id)

    async def live(self) -> set[str]:
        self._answer()
        return {job_id for job_id, now in self.states.items() if not now.ended}

    async def known(self, account: str, request_key: str) -> str | None:
        self._answer()
        return self.of_requests.get(request_key)

    def put(self, job_id: str, state: JobState = JobState.RUNNING) -> None:
        self.states[job_id] = JobSnapshot(state, 5.0 if state is JobState.SUCCEEDED else None)


Make = Callable[[], Any]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@pytest_asyncio.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(str(tmp_path / "http.db"), room="httpserver", metadata=metadata)
    yield database
    await database.close()


@pytest_asyncio.fixture
async def uses(db: Database, clock: FakeClock, jobs: Jobs) -> Uses:
    return await loaded(db, clock, jobs)


async def loaded(db: Database, clock: FakeClock, jobs: Jobs) -> Uses:
    """As after a start."""
    await db.write(lambda conn: None)  # what was deferred
    uses = Uses(db, clock, jobs)
    await uses.load()
    return uses


def news(job_id: str, job_state: JobState, /, **task: Any) -> jm.JobChanges:
    job = jm.Job(id=job_id, owner="ann", state=job_state.value, ended_at=7.0)
    if job_state not in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED):
        job.ClearField("ended_at")
    tasks = [jm.TaskView(name="a", **task)] if task else []
    return jm.JobChanges(changes=[jm.JobChange(job=job, tasks=tasks)])


async def test_a_hold_counts_before_and_after_it_is_a_job(uses: Uses, jobs: Jobs) -> None:
    await uses.hold("k1", "ann", [IMAGE])
    assert await uses.live(IMAGE) == [SUBMITTING]
    jobs.put("j1")
    await uses.confirm("k1", "j1")
    assert await uses.live(IMAGE) == ["j1"]
    uses.on_jobs(news("j1", JobState.SUCCEEDED))
    assert await uses.live(IMAGE) == []
    assert [(use.account, use.jobs) for use in await uses.of(IMAGE)] == [("ann", 1)]


async def test_a_refused_request_holds_nothing(uses: Uses) -> None:
    await uses.hold("k1", "ann", [IMAGE, Ref("code", "ann/x")])
    await uses.drop("k1")
    assert await uses.live(IMAGE) == []
    assert await uses.of(IMAGE) == []


async def test_holds_outlive_a_kill_and_job_manager_says_what_became_of_them(
    uses: Uses, db: Database, clock: FakeClock, jobs: Jobs
) -> None:
    await uses.hold("taken", "ann", [IMAGE])
    await uses.hold("lost", "ann", [IMAGE])
    jobs.put("j1")
    jobs.of_requests["taken"] = "j1"
    after = await loaded(db, clock, jobs)
    assert await after.live(IMAGE) == [SUBMITTING]
    jobs.away = True
    with pytest.raises(Unavailable):
        await clock_forward(clock, 61, after)
    assert await after.live(IMAGE) == [SUBMITTING], "nobody knows: it stays"
    jobs.away = False
    await after.look()
    assert await after.live(IMAGE) == ["j1", SUBMITTING]
    await clock_forward(clock, 700, after)
    assert await after.live(IMAGE) == ["j1"], "the request that JobManager never saw has run out"
    again = await loaded(db, clock, jobs)
    assert again.live_in_memory(IMAGE) == ["j1"]


async def clock_forward(clock: FakeClock, seconds: float, uses: Uses) -> None:
    await clock.advance(seconds)
    await uses.look()


async def test_an_end_that_nobody_told_is_found_by_asking(
    uses: Uses, db: Database, clock: FakeClock, jobs: Jobs
) -> None:
    freed: list[Ref] = []
    uses.when_freed(freed.append)
    for number in (1, 2, 3):
        jobs.put(f"j{number}")
        await uses.hold(f"k{number}", "ann", [IMAGE])
        await uses.confirm(f"k{number}", f"j{number}")
    jobs.put("j1", JobState.SUCCEEDED)
    del jobs.states["j2"]
    assert uses.live_in_memory(IMAGE) == ["j1", "j2", "j3"]
    await uses.look()
    assert uses.live_in_memory(IMAGE) == ["j3"]
    assert freed == []
    jobs.put("j3", JobState.FAILED)
    assert await uses.live(IMAGE) == [], "asking for one ref asks JobManager too"
    assert freed == [IMAGE]
    await db.write(lambda conn: None)
    runs = await db.read(lambda conn: conn.execute(select(good_runs.c.job_id, good_runs.c.at)).all())
    assert [tuple(run) for run in runs] == [("j1", 5.0)], "the job that succeeded is the last good run"


async def test_a_job_that_ended_before_its_answer_came_needs_nothing(uses: Uses, jobs: Jobs) -> None:
    await uses.hold("k1", "ann", [IMAGE])
    uses.on_jobs(news("j1", JobState.SUCCEEDED))
    await uses.confirm("k1", "j1")
    assert uses.live_in_memory(IMAGE) == []


async def test_a_retried_job_needs_its_image_again(uses: Uses, db: Database, clock: FakeClock, jobs: Jobs) -> None:
    await uses.hold("k1", "ann", [IMAGE])
    await uses.confirm("k1", "j1")
    uses.on_jobs(news("j1", JobState.FAILED))
    assert uses.live_in_memory(IMAGE) == []
    uses.on_jobs(news("j1", JobState.PENDING))
    assert uses.live_in_memory(IMAGE) == ["j1"]
    uses.on_jobs(news("j1", JobState.FAILED))
    await clock.advance(2 * 86_400)
    await uses.look()
    pinned = {"image_digest": DIGEST, "image_source": common.IMAGE_SOURCE_MARKET, "state": "QUEUED"}
    uses.on_jobs(news("j1", JobState.PENDING, **pinned))
    assert uses.live_in_memory(IMAGE) == ["j1"], "also long after its row was pruned: its tasks say what they need"
    assert (await loaded(db, clock, jobs)).live_in_memory(IMAGE) == ["j1"]


async def test_a_retry_holds_until_the_job_ends_once_more(uses: Uses, jobs: Jobs) -> None:
    await uses.hold("k1", "ann", [IMAGE])
    await uses.confirm("k1", "j1")
    uses.on_jobs(news("j1", JobState.FAILED))
    await uses.hold("retry", "ann", [IMAGE])
    assert await uses.live(IMAGE) == [SUBMITTING]
    jobs.put("j1", JobState.PENDING)
    await uses.confirm("retry", "j1", again=True)
    assert await uses.live(IMAGE) == ["j1"], "the end before the retry is not the end of the retry"
    uses.on_jobs(news("j1", JobState.PENDING))
    uses.on_jobs(news("j1", JobState.SUCCEEDED))
    assert uses.live_in_memory(IMAGE) == []
    assert [use.jobs for use in await uses.of(IMAGE)] == [1], "it is one job"


async def test_a_good_run_of_a_task_counts_while_its_job_goes_on(uses: Uses, db: Database) -> None:
    pinned = {"image_digest": DIGEST, "image_source": common.IMAGE_SOURCE_MARKET}
    uses.on_jobs(news("j1", JobState.RUNNING, state="SUCCEEDED", ended_at=9.0, **pinned))
    uses.on_jobs(news("j0", JobState.RUNNING, state="SUCCEEDED", ended_at=8.0, **pinned))
    await db.write(lambda conn: None)
    runs = await db.read(lambda conn: conn.execute(select(good_runs.c.job_id, good_runs.c.at)).all())
    assert [tuple(run) for run in runs] == [("j1", 9.0)]


async def test_rows_of_ended_jobs_do_not_pile_up(uses: Uses, db: Database, clock: FakeClock, jobs: Jobs) -> None:
    for number in range(20):
        await uses.hold(f"k{number}", "ann", [IMAGE])
        await uses.confirm(f"k{number}", f"j{number}")
        uses.on_jobs(news(f"j{number}", JobState.SUCCEEDED))
    await clock.advance(2 * 86_400)
    await uses.look()
    await db.write(lambda conn: None)
    assert await db.read(lambda conn: conn.execute(select(holds)).all()) == []
    assert [(use.account, use.jobs) for use in await uses.of(IMAGE)] == [("ann", 20)]


async def test_a_client_that_repeats_its_request_is_counted_once(uses: Uses) -> None:
    for _ in range(3):
        await uses.hold("k1", "ann", [IMAGE])
        await uses.confirm("k1", "j1")
    uses.on_jobs(news("j1", JobState.SUCCEEDED))
    await uses.hold("k1", "ann", [IMAGE])
    await uses.confirm("k1", "j1")
    assert [use.jobs for use in await uses.of(IMAGE)] == [1]
    assert uses.live_in_memory(IMAGE) == []


async def test_no_hold_while_it_is_deleted_and_none_after(uses: Uses) -> None:
    there = True

    async def exists(key: str) -> bool:
        return there

    uses.check_exists("image", exists)
    async with uses.deleting(IMAGE):
        hold = asyncio.create_task(uses.hold("k1", "ann", [IMAGE]))
        await asyncio.sleep(0)
        assert await uses.live(IMAGE) == []
        there = False
    with pytest.raises(GoneMeanwhile, match="deleted while this job"):
        await hold
    assert await uses.live(IMAGE) == []


async def test_a_hold_that_came_first_is_seen_by_who_deletes(uses: Uses, db: Database) -> None:
    hold = asyncio.create_task(uses.hold("k1", "ann", [IMAGE]))
    await asyncio.sleep(0)  # it has begun, and waits for the database
    async with uses.deleting(IMAGE):
        assert await uses.live(IMAGE) == [SUBMITTING]
    await hold


async def test_deletions_of_one_thing_go_one_after_the_other(uses: Uses) -> None:
    inside = 0

    async def delete() -> None:
        nonlocal inside
        async with uses.deleting(IMAGE):
            inside += 1
            await asyncio.sleep(0)
            assert inside == 1
            inside -= 1

    await asyncio.gather(*(delete() for _ in range(5)))
