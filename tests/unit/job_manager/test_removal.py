"""Ended jobs are removed in steps: nothing stays behind, and nothing of a job that lives goes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, func, select, text

from headway.clock import SystemClock
from headway.errors import Conflict, InvalidInput, NotFound, StoreFull, Unavailable
from headway.model.retention import DAY_S, AccountRule, EndedJob, RetentionRules
from headway.rpc.v1 import job_manager_pb2
from headway.states import TaskEventKind
from headway.store import migrations
from job_manager import removal_store, store, tables
from job_manager.removal import prune
from job_manager.removal.sweeper import Sweeper
from job_manager.tables import TASK_MANAGER, outbox
from tests.support.clock import FakeClock
from tests.support.postgres import Postgres
from tests.unit.job_manager.rig import JobManagerRig, a_rig

RULES = RetentionRules(days=90, accounts={"ann": AccountRule(days=365)})


class Folders:
    """The folders on the mount."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.stuck: set[str] = set()
        self.away = False
        self.asked: list[str] = []

    async def remove(self, job_ids: Sequence[str]) -> Sequence[str]:
        if self.away:
            raise Unavailable("the mount is not there")
        self.asked += job_ids
        self.there -= set(job_ids) - self.stuck
        return [job_id for job_id in job_ids if job_id not in self.stuck]


on_both = pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])


@pytest.fixture
def database() -> str:
    """The kind that those tests run on which are about more than SQL."""
    return "sqlite"


@pytest.fixture
def url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if database == "sqlite":
        return str(tmp_path / "jobs.db")
    server: Postgres = request.getfixturevalue("postgres")
    return server.url(server.new_database())


@pytest.fixture
async def rig(url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[JobManagerRig]:
    async with a_rig(tmp_path, clock, url=url, rules=RULES) as one:
        yield one


@pytest.fixture
def folders() -> Folders:
    return Folders()


@pytest.fixture
def sweeper(rig: JobManagerRig, folders: Folders) -> Sweeper:
    return Sweeper(rig.db, rig.jobs, rig.task_manager, folders, rig.clock)


async def ended(rig: JobManagerRig, *tasks: str, owner: str = "bob", delivered: bool = True) -> str:
    """A job that has just ended, with all of its commands delivered."""
    names = tasks or ("a",)
    job_id = (await rig.submit(dict.fromkeys(names, ""), owner=owner)).job_id
    for name in names:
        await rig.jobs.report(
            [rig.event(job_id, name, TaskEventKind.ATTEMPT_STARTED), rig.event(job_id, name, TaskEventKind.FAILED)]
        )
    if delivered:
        await deliver(rig)
    return job_id


async def deliver(rig: JobManagerRig) -> None:
    await rig.db.write(lambda conn: conn.execute(outbox.table.delete()))


async def finish(rig: JobManagerRig, step: Sweeper) -> None:
    """All that can be done now."""
    while await going(rig, step.remove_some()):
        pass


async def going(rig: JobManagerRig, work: object) -> bool:
    """Lets the work's pauses pass."""
    task = asyncio.ensure_future(work)  # type: ignore[call-overload]
    while not task.done():
        await asyncio.sleep(0.002)
        await rig.clock.advance(0.01)
    return bool(await task)


async def rows(rig: JobManagerRig, job_id: str) -> dict[str, int]:
    """How many rows each table has of the job; those without one are left out."""
    columns = {
        "job": tables.job.c.id, "job_graph": tables.job_graph.c.job_id, "task": tables.task.c.job_id,
        "task_spec": tables.task_spec.c.job_id, "action": tables.action.c.job_id,
    }  # fmt: skip
    counted = {}
    for name, column in columns.items():
        query = select(func.count()).where(column == job_id)
        found = await rig.db.read(lambda conn, query=query: conn.execute(query).scalar())
        if found:
            counted[name] = int(found)
    return counted


async def shown(rig: JobManagerRig) -> list[str]:
    found = await rig.db.read(lambda conn: store.list_jobs(conn, owner="", states=(), query="", limit=100, before=""))
    return [str(record.id) for record in found]


@on_both
async def test_a_deleted_job_goes_from_everywhere_and_from_here_last(
    rig: JobManagerRig, sweeper: Sweeper, folders: Folders
) -> None:
    job_id, other = await ended(rig, "a", "b"), await ended(rig)
    folders.there = {job_id, other}
    await rig.jobs.act(job_id, "", "delete", request_id="r", by="bob")
    assert await shown(rig) == [other], "it does not show from the first moment on"
    rig.task_manager.waits = {job_id}
    await finish(rig, sweeper)
    assert await rows(rig, job_id), "TaskManager still has something of it"
    assert folders.asked == []
    rig.task_manager.waits, folders.stuck = set(), {job_id}
    await rig.clock.advance(61)
    await finish(rig, sweeper)
    assert await rows(rig, job_id), "its folder is still there"
    folders.stuck = set()
    await rig.clock.advance(6)
    await finish(rig, sweeper)
    assert folders.there == {other}
    assert await rows(rig, job_id) == {}
    assert await rows(rig, other)


async def test_a_folder_that_stays_and_commands_that_are_late_are_waited_for_longer_each_time(
    rig: JobManagerRig, sweeper: Sweeper, folders: Folders
) -> None:
    job_id = await ended(rig)
    folders.stuck = {job_id}
    await rig.jobs.act(job_id, "", "delete", by="bob")
    for _ in range(3_600 // 5):
        await finish(rig, sweeper)
        await rig.clock.advance(5)
    assert 8 <= len(folders.asked) <= 14
    late = await ended(rig, delivered=False)
    await rig.jobs.act(late, "", "delete", by="bob")
    steps = 0
    for _ in range(300):
        steps += await going(rig, sweeper.remove_some())
        await rig.clock.advance(0.2)
    assert 6 <= steps <= 16
    await deliver(rig)
    await rig.clock.advance(10)
    await finish(rig, sweeper)
    assert late in folders.asked


async def test_a_job_that_lives_and_a_pinned_one_are_refused(rig: JobManagerRig) -> None:
    lives = (await rig.submit({"a": ""}, owner="bob")).job_id
    with pytest.raises(Conflict, match="is PENDING and can't be deleted: cancel it first"):
        await rig.jobs.act(lives, "", "delete")
    pinned = await ended(rig)
    assert (await rig.jobs.act(pinned, "", "pin")).record.pinned
    with pytest.raises(Conflict, match="is pinned and can't be deleted: unpin it first"):
        await rig.jobs.act(pinned, "", "delete")
    await rig.jobs.act(pinned, "", "unpin")
    await rig.jobs.act(pinned, "", "delete")
    with pytest.raises(InvalidInput, match="Only a whole job can be asked to pin"):
        await rig.jobs.act(lives, "a", "pin")


async def test_a_retry_that_comes_first_wins_and_one_that_comes_later_is_told(rig: JobManagerRig) -> None:
    first, later = await ended(rig), await ended(rig)
    retried, deleted = await asyncio.gather(
        rig.jobs.act(first, "", "retry"), rig.jobs.act(first, "", "delete"), return_exceptions=True
    )
    assert not isinstance(retried, BaseException)
    assert isinstance(deleted, Conflict), "in one transaction with the retry"
    deleted, retried = await asyncio.gather(
        rig.jobs.act(later, "", "delete"), rig.jobs.act(later, "", "retry"), return_exceptions=True
    )
    assert not isinstance(deleted, BaseException)
    assert isinstance(retried, NotFound)
    assert "is being deleted" in str(retried)
    assert await shown(rig) == [first]


async def told(rig: JobManagerRig, job_id: str) -> str:
    """What is said to whoever asks for a job that is gone."""
    with pytest.raises(NotFound) as refused:
        await rig.jobs.act(job_id, "", "retry")
    return str(refused.value)


@on_both
async def test_a_removed_job_says_when_it_went_and_why(rig: JobManagerRig, sweeper: Sweeper) -> None:
    deleted, pruned_job, old = await ended(rig), await ended(rig), await ended(rig)
    day = datetime.fromtimestamp(rig.clock.now(), UTC).date()
    await rig.jobs.act(deleted, "", "delete", by="ann")
    await rig.clock.advance(1)
    (chosen,) = (one for one in await rig.db.read(all_ended) if one.id == pruned_job)
    await rig.jobs.remove([chosen], "by bob")
    assert "is being deleted" in await told(rig, deleted)
    await finish(rig, sweeper)
    assert await told(rig, deleted) == f"The job {deleted} was deleted on {day} (UTC) by ann."
    assert await told(rig, pruned_job) == f"The job {pruned_job} was deleted on {day} (UTC) by bob."
    await rig.clock.advance(91 * DAY_S)
    day = datetime.fromtimestamp(rig.clock.now(), UTC).date()
    await going(rig, sweeper.choose())
    await finish(rig, sweeper)
    want = f"The job {old} was deleted on {day} (UTC) by the rules of retention, 90 days after its end."
    assert await told(rig, old) == want


def all_ended(conn: Connection) -> list[EndedJob]:
    return removal_store.ended_after(conn, removal_store.FIRST, 100)


async def test_the_same_request_may_come_again(rig: JobManagerRig) -> None:
    job_id = await ended(rig)
    await rig.jobs.act(job_id, "", "delete", request_id="r")
    await rig.jobs.act(job_id, "", "delete", request_id="r")
    with pytest.raises(NotFound, match="is being deleted"):
        await rig.jobs.act(job_id, "", "delete", request_id="another")


@on_both
async def test_the_key_of_a_deleted_job_makes_another_one(rig: JobManagerRig) -> None:
    async def submitted_and_cancelled() -> str:
        job_id = (await rig.submit({"a": ""}, "key")).job_id
        await rig.jobs.act(job_id, "", "cancel")
        await rig.jobs.report([rig.event(job_id, "a", TaskEventKind.CANCELLED)])
        return job_id

    first = await submitted_and_cancelled()
    assert (await rig.submit({"a": ""}, "key")).already_known
    await rig.jobs.act(first, "", "delete")
    second = await submitted_and_cancelled()
    assert await shown(rig) == [second]
    (chosen,) = await rig.db.read(all_ended)
    assert await rig.jobs.remove([chosen], "by a rule") == [second]
    third = await rig.submit({"a": ""}, "key")
    assert (third.already_known, await shown(rig)) == (False, [third.job_id])


async def test_a_job_retried_between_choice_and_mark_is_left_alone(rig: JobManagerRig) -> None:
    job_id = await ended(rig)
    (chosen,) = await rig.db.read(lambda conn: removal_store.ended_after(conn, removal_store.FIRST, 10))
    await rig.clock.advance(5)
    await rig.jobs.act(job_id, "", "retry")
    assert await rig.jobs.remove([chosen], "test") == []
    await rig.jobs.report(
        [
            rig.event(job_id, "a", TaskEventKind.ATTEMPT_STARTED, generation=2),
            rig.event(job_id, "a", TaskEventKind.SUCCEEDED, generation=2),
        ]
    )
    assert await rig.jobs.remove([chosen], "test") == [], "it has another end now"
    (chosen,) = await rig.db.read(lambda conn: removal_store.ended_after(conn, removal_store.FIRST, 10))
    await rig.jobs.act(job_id, "", "pin")
    assert await rig.jobs.remove([chosen], "test") == []
    assert await shown(rig) == [job_id]


@on_both
async def test_a_sweep_that_races_with_retries_takes_each_job_or_leaves_it_whole(
    rig: JobManagerRig, sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep chooses in a snapshot of its own. Retries commit behind it, join its transaction, or come later."""
    jobs = [await ended(rig) for _ in range(40)]
    before, ahead, behind, later = (jobs[place : place + 10] for place in range(0, 40, 10))
    await rig.clock.advance(91 * DAY_S)
    remove = rig.jobs.remove
    lives: set[str] = set()

    async def retry(job: str) -> None:
        with contextlib.suppress(NotFound):
            await rig.jobs.act(job, "", "retry")
            lives.add(job)

    async def removing(chosen: Sequence[EndedJob], why: str) -> list[str]:
        assert {one.id for one in chosen} == set(jobs)
        await asyncio.gather(*(retry(job) for job in before))
        beside = [asyncio.ensure_future(retry(job)) for job in ahead]
        await asyncio.sleep(0)
        removal = asyncio.ensure_future(remove(chosen, why))
        await asyncio.sleep(0)
        beside += [asyncio.ensure_future(retry(job)) for job in behind]
        gone = await removal
        await asyncio.gather(*beside, *(retry(job) for job in later))
        return gone

    monkeypatch.setattr(rig.jobs, "remove", removing)
    await going(rig, sweeper.choose())
    assert lives == {*before, *ahead}, "in the order of arrival"
    assert set(await shown(rig)) == lives
    # What was retried runs: nothing of it goes, whatever the sweep saw.
    await deliver(rig)
    await finish(rig, sweeper)
    for job in jobs:
        assert bool(await rows(rig, job)) == (job in lives)


@on_both
async def test_what_has_not_reached_task_manager_is_waited_for(rig: JobManagerRig, sweeper: Sweeper) -> None:
    """An enqueue that was repeated after the removal would run a task of a job that nobody knows."""
    job_id = await ended(rig, delivered=False)
    await rig.jobs.act(job_id, "", "delete")
    assert await rig.db.read(lambda conn: conn.execute(select(outbox.table.c.target)).scalar()) == TASK_MANAGER
    await finish(rig, sweeper)
    assert rig.task_manager.removed == []
    await deliver(rig)
    await rig.submit({"a": ""})  # commands of other jobs are always on their way
    await rig.clock.advance(1)
    await finish(rig, sweeper)
    assert await rows(rig, job_id) == {}


@on_both
async def test_the_rules_choose_by_age_and_account(rig: JobManagerRig, sweeper: Sweeper) -> None:
    ann, bob, pinned = await ended(rig, owner="ann"), await ended(rig), await ended(rig)
    lives = (await rig.submit({"a": ""}, owner="bob")).job_id
    await rig.jobs.act(pinned, "", "pin")
    await rig.clock.advance(89 * DAY_S)
    young = await ended(rig)
    await going(rig, sweeper.choose())
    assert set(await shown(rig)) == {ann, bob, pinned, lives, young}
    await rig.clock.advance(2 * DAY_S)
    await going(rig, sweeper.choose())
    assert set(await shown(rig)) == {ann, pinned, lives, young}
    await rig.clock.advance(300 * DAY_S)
    await going(rig, sweeper.choose())
    assert set(await shown(rig)) == {pinned, lives}


async def test_a_wall_clock_set_forward_makes_no_job_older(rig: JobManagerRig, sweeper: Sweeper) -> None:
    job_id = await ended(rig)
    rig.clock.step_wall(400 * DAY_S)
    await going(rig, sweeper.choose())
    assert await shown(rig) == [job_id]


@on_both
async def test_logs_that_take_too_much_room_go_with_the_oldest_jobs(
    url: str, tmp_path: Path, clock: FakeClock, folders: Folders
) -> None:
    async with a_rig(tmp_path, clock, url=url, rules=RetentionRules(log_bytes=100)) as rig:
        old = await ended(rig)
        await rig.clock.advance(1)
        new = await ended(rig)
        rig.task_manager.log_bytes = {old: 70, new: 60}
        sweeper = Sweeper(rig.db, rig.jobs, rig.task_manager, folders, clock)
        rig.task_manager.away = True
        await going(rig, sweeper.choose())
        assert set(await shown(rig)) == {old, new}, "nobody knows what the logs take"
        rig.task_manager.away = False
        await going(rig, sweeper.choose())
        assert await shown(rig) == [new]


@on_both
async def test_no_job_goes_for_what_is_pinned(url: str, tmp_path: Path, clock: FakeClock, folders: Folders) -> None:
    """One account's pinned jobs above the limit used to take all jobs of everybody else."""
    async with a_rig(tmp_path, clock, url=url, rules=RetentionRules(log_bytes=100)) as rig:
        kept, anns = await ended(rig), await ended(rig, owner="ann")
        await rig.jobs.act(kept, "", "pin")
        rig.task_manager.log_bytes = {kept: 700, anns: 60}
        await going(rig, Sweeper(rig.db, rig.jobs, rig.task_manager, folders, clock).choose())
        assert set(await shown(rig)) == {kept, anns}


async def test_what_is_measured_late_does_not_count_for_a_job_that_runs_again(rig: JobManagerRig) -> None:
    job_id = await ended(rig)
    await rig.jobs.act(job_id, "", "retry")
    await rig.db.write(lambda conn: removal_store.measured(conn, {job_id: 700}))
    assert await rig.db.read(removal_store.log_totals) == {}


async def test_until_when_a_job_is_kept_is_told(rig: JobManagerRig) -> None:
    job_id = await ended(rig)
    record = (await rig.jobs.act(job_id, "", "unpin")).record
    assert record.kept_until == pytest.approx(rig.clock.now() + 90 * DAY_S, abs=1)
    assert not (await rig.jobs.act(job_id, "", "pin")).record.HasField("kept_until")
    assert not (await rig.jobs.act(job_id, "", "retry")).record.HasField("kept_until")


@on_both
async def test_a_large_job_goes_in_several_transactions(rig: JobManagerRig, sweeper: Sweeper) -> None:
    job_id = (await rig.submit({f"t{number}": "" for number in range(1_200)}, owner="bob")).job_id
    await rig.jobs.act(job_id, "", "cancel")
    await rig.jobs.report([rig.event(job_id, f"t{n}", TaskEventKind.CANCELLED) for n in range(1_200)])
    await deliver(rig)
    await rig.jobs.act(job_id, "", "delete")
    now = rig.clock.now()
    left = []
    while not await rig.db.write(lambda conn: removal_store.drop_some(conn, [job_id], now)):
        left.append((await rows(rig, job_id))["task"])
    assert left == [700, 200]
    assert await rows(rig, job_id) == {}


async def test_a_full_disk_and_services_that_are_away_are_waited_for(
    rig: JobManagerRig,
    sweeper: Sweeper,
    folders: Folders,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    job_id = await ended(rig)
    await rig.jobs.act(job_id, "", "delete")
    folders.away = True
    with pytest.raises(Unavailable):
        await sweeper.remove_some()
    folders.away = False
    rig.task_manager.away = True
    with pytest.raises(Unavailable):
        await sweeper.remove_some()
    rig.task_manager.away = False

    def full(*_: object) -> None:
        raise StoreFull("The disk is full; nothing was stored.")

    with monkeypatch.context() as patched:
        patched.setattr(removal_store, "drop_some", full)
        running = asyncio.ensure_future(sweeper.run())
        for _ in range(50):
            await asyncio.sleep(0.002)
            await rig.clock.advance(1)
        assert not running.done()
        assert await rows(rig, job_id)
        assert caplog.messages.count("removal.waits") == 1, "told once"
        assert "removal.goes_on" not in caplog.messages
    for _ in range(200):
        await asyncio.sleep(0.002)
        await rig.clock.advance(1)
    assert await rows(rig, job_id) == {}
    assert caplog.messages.count("removal.goes_on") == 1
    running.cancel()


@on_both
async def test_what_comes_late_of_a_removed_job_is_removed_too(
    rig: JobManagerRig, sweeper: Sweeper, folders: Folders
) -> None:
    job_id = await ended(rig)
    await rig.jobs.act(job_id, "", "delete")
    await finish(rig, sweeper)
    with pytest.raises(NotFound, match="was deleted"):
        await rig.jobs.act(job_id, "", "retry")
    await rig.jobs.report([rig.event(job_id, "a", TaskEventKind.SUCCEEDED)])  # does nothing
    for later_s in (601, DAY_S + 1):
        folders.there = {job_id}
        await rig.clock.advance(later_s)
        await finish(rig, sweeper)
        assert folders.there == set()
    await rig.clock.advance(14 * DAY_S)
    await finish(rig, sweeper)
    assert folders.asked == [job_id] * 4
    with pytest.raises(NotFound, match=r"There is no job .* kept for 90 days"):
        await rig.jobs.act(job_id, "", "retry")
    assert await rig.db.read(removal_store.next_due) is None


async def pruned(rig: JobManagerRig, **request: object) -> job_manager_pb2.PruneJobsReply:
    return await rig.pruning.prune(job_manager_pb2.PruneJobsRequest(**request))  # type: ignore[arg-type]


@on_both
async def test_pruning_tells_first_what_it_would_delete(rig: JobManagerRig) -> None:
    old, pinned, anns = await ended(rig, "a", "b"), await ended(rig), await ended(rig, owner="ann")
    await rig.jobs.act(pinned, "", "pin")
    await rig.clock.advance(10 * DAY_S)
    young = await ended(rig)
    rig.task_manager.log_bytes = {old: 500, young: 9}
    reply = await pruned(rig, older_s=5 * DAY_S, owner="bob", dry_run=True)
    assert (reply.jobs, reply.tasks, reply.log_bytes, reply.unmeasured, reply.pinned) == (1, 2, 500, 0, 1)
    assert len(await shown(rig)) == 4
    reply = await pruned(rig, older_s=5 * DAY_S, owner="bob")
    assert (reply.jobs, reply.tasks, reply.log_bytes) == (1, 2, 500)
    assert set(await shown(rig)) == {pinned, anns, young}
    rig.task_manager.away = True
    reply = await pruned(rig, older_s=5 * DAY_S, dry_run=True)
    assert (reply.jobs, reply.unmeasured) == (1, 1), "everybody's"


@on_both
async def test_pruning_goes_on_where_a_reply_ended(rig: JobManagerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune, "_PAGES_A_CALL", 1)
    monkeypatch.setattr(prune.log_sizes, "MOST_AT_ONCE", 2)
    for _ in range(3):
        await ended(rig)
    await rig.clock.advance(2 * DAY_S)
    first = await pruned(rig, older_s=DAY_S)
    assert (first.jobs, len(await shown(rig))) == (2, 1)
    young = await ended(rig)
    await rig.clock.advance(3 * DAY_S)
    second = await pruned(rig, older_s=DAY_S, cursor=first.next_cursor)
    assert second.jobs == 1
    assert not (await pruned(rig, older_s=DAY_S, cursor=second.next_cursor)).next_cursor
    assert await shown(rig) == [young], "the age counts from the first call"


@pytest.mark.parametrize(
    "cursor",
    ["nope", "inf -1.0 0", "1e400 -1 x", "nan nan {}", "inf 0.0 {}", "9e99 0.0 {}", "-1 -1 {}", "9 10 {}", "9 8 {} ",
     "9 8 a\0b", "9 8", "\u0669 8 {}"],
)  # fmt: skip
async def test_a_cursor_that_no_reply_gave_is_refused_and_deletes_nothing(rig: JobManagerRig, cursor: str) -> None:
    job_id = await ended(rig)
    await rig.clock.advance(3)
    with pytest.raises(InvalidInput, match="cursor"):
        await pruned(rig, older_s=1.0, cursor=cursor.format(job_id))
    assert await shown(rig) == [job_id]


async def test_a_cursor_lets_no_job_go_that_is_younger_than_what_is_asked_for(rig: JobManagerRig) -> None:
    job_id = await ended(rig)
    await rig.clock.advance(2 * DAY_S)
    cursor = f"9999999999.0 0.0 {job_id}"
    for dry_run in (True, False):
        assert (await pruned(rig, older_s=3 * DAY_S, cursor=cursor, dry_run=dry_run)).jobs == 0
    assert (await pruned(rig, older_s=DAY_S, cursor=cursor)).jobs == 1


async def test_the_age_is_looked_at_again_in_the_transaction_that_removes(rig: JobManagerRig) -> None:
    job_id = await ended(rig)
    (chosen,) = await rig.db.read(all_ended)
    assert await rig.jobs.remove([chosen], "by bob", older_s=60.0) == []
    await rig.clock.advance(60)
    assert await rig.jobs.remove([chosen], "by bob", older_s=60.0) == [job_id]


@pytest.mark.parametrize("step_s", [-100 * DAY_S, 100 * DAY_S])
@pytest.mark.parametrize("booted", [False, True])
async def test_a_job_ages_right_whichever_way_the_clock_is_set_while_it_ends(
    rig: JobManagerRig, sweeper: Sweeper, step_s: float, booted: bool
) -> None:
    rig.clock.step_wall(step_s)
    job_id = await ended(rig)
    rig.clock.step_wall(-step_s)
    if booted:
        rig.clock.reboot()
        rig.jobs.aging.__init__(rig.clock, rig.jobs.rules)  # type: ignore[misc]  # the service begins anew too
        await rig.jobs.recheck_waiting()
    await rig.clock.advance(90 * DAY_S - 60)
    assert (await rig.jobs.act(job_id, "", "unpin")).record.kept_until == pytest.approx(rig.clock.now() + 60, abs=2)
    await going(rig, sweeper.choose())
    assert await shown(rig) == [job_id]
    await rig.clock.advance(61)
    await going(rig, sweeper.choose())
    assert await shown(rig) == []


@pytest.mark.parametrize("step_s", [-100 * DAY_S, 100 * DAY_S])
async def test_a_deletion_does_not_wait_for_a_clock_that_is_set(
    rig: JobManagerRig, sweeper: Sweeper, folders: Folders, step_s: float
) -> None:
    job_id = await ended(rig)
    folders.there.add(job_id)
    rig.clock.step_wall(step_s)
    await rig.jobs.act(job_id, "", "delete", by="bob")
    rig.clock.step_wall(-step_s)
    await finish(rig, sweeper)
    assert folders.there == set()
    assert await rows(rig, job_id) == {}
    looks = len(folders.asked)
    rig.clock.step_wall(step_s)
    await rig.clock.advance(590)
    await finish(rig, sweeper)
    assert len(folders.asked) == looks, "the next look is not due"
    await rig.clock.advance(11)
    await finish(rig, sweeper)
    assert len(folders.asked) == looks + 1


@pytest.mark.parametrize("older_s", [0, -86_400, float("nan"), float("inf")])
async def test_an_age_that_is_none_is_refused(rig: JobManagerRig, older_s: float) -> None:
    job_id = await ended(rig)
    await rig.clock.advance(DAY_S)
    with pytest.raises(InvalidInput, match="more than 0"):
        await pruned(rig, older_s=older_s)
    assert await shown(rig) == [job_id]


async def test_watchers_are_told_of_jobs_that_are_gone(rig: JobManagerRig) -> None:
    job_id = await ended(rig)
    with rig.hub.watch() as watch:
        await rig.jobs.act(job_id, "", "delete")
        assert (await watch.next()).removed == [job_id]


@pytest.mark.parametrize("set_by_s", [-100 * DAY_S, 0.0, 100 * DAY_S])
def test_ages_of_an_older_version_go_over_to_the_clock_that_nobody_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_by_s: float
) -> None:
    """The wall clock was set by so much since the machine has booted. It makes no job older."""
    clock, ended_at = SystemClock(), 1.8e9
    engine = create_engine(f"sqlite:///{tmp_path}/jobs.db")
    real = ScriptDirectory._upgrade_revs
    with monkeypatch.context() as older, engine.begin() as conn:
        older.setattr(ScriptDirectory, "_upgrade_revs", lambda self, to, current: real(self, "0006", current))
        migrations._upgrade(conn, "job_manager")
        values = {column.name: "" for column in tables.job.columns if not column.nullable}
        values |= {"id": "j", "submitted_at": 1.0, "ended_at": ended_at, "held": False, "task_count": 1, "version": 1}
        del values["pinned"]
        names, marks = ", ".join(values), ", ".join(f":{name}" for name in values)
        conn.execute(text(f"INSERT INTO job ({names}) VALUES ({marks})"), values)
        offset_s = clock.now() - set_by_s - clock.monotonic()
        row = {"boot": clock.boot_id(), "offset_s": offset_s, "at": ended_at}
        conn.execute(text("INSERT INTO timer_clock VALUES (1, :boot, :offset_s)"), row)
        conn.execute(text("INSERT INTO removal VALUES ('j', :at, 0, 1, :at, '')"), row)
        conn.execute(text("INSERT INTO action VALUES ('j', 'r', 'cancel', 1, :at)"), row)
    with engine.begin() as conn:
        migrations._upgrade(conn, "job_manager")
        (age,) = conn.execute(select(tables.job.c.ages_from)).scalars()
        (due,) = conn.execute(select(tables.removal.c.due_at)).scalars()
        (at,) = conn.execute(select(tables.action.c.at)).scalars()
    engine.dispose()
    assert age - ended_at == pytest.approx(max(0.0, -set_by_s), abs=5)
    assert due - ended_at == pytest.approx(-set_by_s, abs=5)
    assert at - ended_at == pytest.approx(-set_by_s, abs=5)


@on_both
async def test_jobs_of_an_older_version_are_neither_pinned_nor_measured(rig: JobManagerRig) -> None:
    """Their rows got what the step of the migration says."""
    job_id = await ended(rig)
    older = [column.name for column in tables.job.columns if column.name not in ("pinned", "log_bytes")]

    def rewritten(conn: Connection) -> None:
        row = conn.execute(select(*(tables.job.c[name] for name in older)).where(tables.job.c.id == job_id)).one()
        conn.execute(tables.job.delete().where(tables.job.c.id == job_id))
        names, marks = ", ".join(older), ", ".join(f":{name}" for name in older)
        conn.execute(text(f"INSERT INTO job ({names}) VALUES ({marks})"), row._asdict())

    await rig.db.write(rewritten)
    now = rig.clock.now() + 1
    (limit,) = [one for one in RULES.age_limits(now + 90 * DAY_S) if not one.owner]
    found = await rig.db.read(lambda conn: removal_store.too_old(conn, limit, removal_store.FIRST, 10))
    assert [(job.id, job.pinned, job.log_bytes) for job in found] == [(job_id, False, None)]
