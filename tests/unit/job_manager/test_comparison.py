"""JobManager compares with TaskManager: what it sends, what it waits for, what it mends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import delete

from headway.errors import Unavailable
from headway.rpc.v1 import common_pb2, job_manager_pb2, task_manager_pb2
from headway.states import TaskEventKind, TaskState
from headway.store import Database
from job_manager.comparing.comparison import Comparison
from job_manager.servicer import JobManagerService
from job_manager.tables import outbox
from tests.support.clock import FakeClock
from tests.unit.job_manager.rig import AnyTaskManager, JobManagerRig, a_rig

pytestmark = pytest.mark.usefixtures("both_databases")

Difference = task_manager_pb2.CompareTasksReply.Difference


class Queue(AnyTaskManager):
    """Answers comparisons with what the test says: the differences of each round, the last one for all others."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds: list[list[Difference]] = [[]]
        self.asked_about: list[list[task_manager_pb2.HeldTask]] = []
        self.command_seq = 0
        self.confirmed = 0
        self.away = False
        self.stopped = asyncio.Event()

    async def compare(self, tasks: Sequence[task_manager_pb2.HeldTask]) -> task_manager_pb2.CompareTasksReply:
        if self.away:
            raise Unavailable("away")
        self.asked_about.append([*tasks])
        found = self.rounds.pop(0) if len(self.rounds) > 1 else self.rounds[0]
        return task_manager_pb2.CompareTasksReply(differences=found, command_seq=self.command_seq)

    async def confirm(self) -> None:
        self.confirmed += 1
        await self.stopped.wait()
        raise Unavailable("it stopped")


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[JobManagerRig]:
    async with a_rig(tmp_path, clock) as made:
        yield made


@pytest.fixture
def queue() -> Queue:
    return Queue()


async def compare(rig: JobManagerRig, queue: Queue, again: Comparison | None = None) -> Comparison:
    comparison = again or Comparison(rig.db, rig.jobs, queue, rig.clock, every_s=60)
    task = asyncio.create_task(comparison.compare())
    while not task.done():
        await rig.clock.advance(0.5)
        await asyncio.sleep(0.002)
    await task
    return comparison


async def delivered(db: Database) -> None:
    await db.write(lambda conn: conn.execute(delete(outbox.table)))


def differs(job_id: str, task: str, word: str, generation: int = 1, *, mended: bool = False) -> Difference:
    named = common_pb2.Task(job_id=job_id, name=task)
    return Difference(task=named, word=word, generation=generation, mended=mended)


async def a_job(rig: JobManagerRig) -> str:
    """Its task "a" runs, "b" waits for it."""
    job = (await rig.submit({"a": "", "b": "a"})).job_id
    await rig.jobs.report([rig.event(job, "a", TaskEventKind.ATTEMPT_STARTED)])
    await delivered(rig.db)
    return job


async def state(rig: JobManagerRig, job: str, task: str) -> TaskState:
    live = await rig.jobs._inbox.submit(lambda tx: tx.job(job))
    found: TaskState = live.states[live.numbers[task]]
    return found


async def test_it_tells_what_task_manager_should_have(rig: JobManagerRig, queue: Queue) -> None:
    job = await a_job(rig)
    await compare(rig, queue)
    ((one,),) = queue.asked_about
    assert (one.task.job_id, one.task.name) == (job, "a")
    assert (one.state, one.generation, one.event_seq, one.attempt) == ("RUNNING", 1, 1, 1)


async def test_a_difference_counts_when_it_was_seen_twice(rig: JobManagerRig, queue: Queue) -> None:
    job = await a_job(rig)
    queue.rounds = [[differs(job, "a", "unknown")], []]
    await compare(rig, queue)
    assert await rig.commands(job) == []
    queue.rounds = [[differs(job, "a", "unknown")], [differs(job, "a", "behind")], []]
    await compare(rig, queue)
    assert await rig.commands(job) == []
    assert [[one.seen for one in asked] for asked in queue.asked_about[2:]] == [[""], ["unknown"]]


async def test_what_is_on_its_way_is_no_difference(rig: JobManagerRig, queue: Queue) -> None:
    job = (await rig.submit({"a": ""})).job_id
    queue.rounds = [[differs(job, "a", "unknown")]]
    await compare(rig, queue)
    assert len(queue.asked_about) == 1
    assert await rig.commands(job) == [("enqueue", "a", 1)]


async def test_a_task_that_task_manager_lost_is_queued_again(rig: JobManagerRig, queue: Queue) -> None:
    job = await a_job(rig)
    queue.rounds = [[differs(job, "a", "unknown", 0)], [differs(job, "a", "unknown", 0)], []]
    await compare(rig, queue)
    assert await rig.commands(job) == [("enqueue", "a", 1)]
    rows = await rig.db.read(lambda conn: conn.execute(outbox.table.select()).all())
    again = task_manager_pb2.TaskCommand.FromString(rows[0].payload).enqueue
    assert (again.lost, again.told_seq, again.told_attempt) == (True, 1, 1)
    assert await state(rig, job, "a") is TaskState.QUEUED


async def test_a_cancelled_task_that_task_manager_lost_is_queued_and_cancelled(
    rig: JobManagerRig, queue: Queue
) -> None:
    job = await a_job(rig)
    await rig.jobs.act(job, "", "cancel")
    await delivered(rig.db)
    queue.rounds = [[differs(job, "a", "unknown", 0)]] * 2 + [[]]
    await compare(rig, queue)
    assert await rig.commands(job) == [("enqueue", "a", 1), ("cancel", "a", 1)]
    assert await state(rig, job, "a") is TaskState.STOPPING


@pytest.mark.parametrize(("action", "word"), [("cancel", "cancel"), ("hold", "hold"), ("release", "release")])
async def test_what_people_wished_is_told_again(rig: JobManagerRig, queue: Queue, action: str, word: str) -> None:
    job = await a_job(rig)
    if action != "release":
        await rig.jobs.act(job, "a", action)  # type: ignore[arg-type]
    await delivered(rig.db)
    queue.rounds = [[differs(job, "a", f"{'cancel' if word == 'cancel' else 'hold'}_untold")]] * 2 + [[]]
    await compare(rig, queue)
    assert await rig.commands(job) == [(word, "a", 1)]


async def test_a_retry_that_was_lost_here_is_followed(rig: JobManagerRig, queue: Queue) -> None:
    job = await a_job(rig)
    queue.rounds = [[differs(job, "a", "new_run", 3)]] * 2 + [[]]
    await compare(rig, queue)
    await rig.jobs.report([rig.event(job, "a", TaskEventKind.SUCCEEDED, generation=3)])
    assert await state(rig, job, "a") is TaskState.SUCCEEDED


async def test_a_task_that_has_ended_here_is_cancelled_there(rig: JobManagerRig, queue: Queue) -> None:
    job = await a_job(rig)
    await rig.jobs.report([rig.event(job, "a", TaskEventKind.SUCCEEDED)])
    await delivered(rig.db)
    queue.rounds = [[differs(job, "a", "extra"), differs(job, "b", "extra")]] * 2 + [[]]
    await compare(rig, queue)
    assert await rig.commands(job) == [("cancel", "a", 1)], "b is queued here by now"


async def test_a_task_of_a_job_that_was_lost_is_cancelled_and_told_to_the_admin(
    rig: JobManagerRig, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    queue.rounds = [[differs("j00000000000000aa", "x", "extra", 2)]] * 2 + [[]]
    await compare(rig, queue)
    assert await rig.commands() == [("cancel", "x", 2)]
    assert [record.getMessage() for record in caplog.records].count("task.of_unknown_job") == 1


async def test_a_task_that_waits_here_for_a_lost_end_is_left_alone(rig: JobManagerRig, queue: Queue) -> None:
    job = await a_job(rig)
    queue.rounds = [[differs(job, "b", "extra")]]
    await compare(rig, queue)
    assert await rig.commands(job) == []
    assert len(queue.asked_about) == 5, "it gives up for now"


async def test_what_cannot_be_mended_is_told_on_the_job_until_it_is(
    rig: JobManagerRig, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    job, other = await a_job(rig), await a_job(rig)
    queue.rounds = [[differs(job, "b", "extra")]]
    comparison = await compare(rig, queue)
    (sentence,) = comparison.notices(job)
    assert sentence.startswith("Headway's services do not agree about the task b: the scheduler has it")
    assert comparison.notices(other) == []
    assert [record.getMessage() for record in caplog.records].count("task.differs") == 1
    service = JobManagerService(rig.db, rig.jobs, rig.hub, comparison, rig.pruning, rig.clock)
    parts = [part async for part in service.GetJob(job_manager_pb2.GetJobRequest(job_id=job, with_tasks=True), None)]
    assert [[*part.notices] for part in parts] == [[sentence], []]
    queue.rounds = [[]]
    await compare(rig, queue, comparison)
    assert comparison.notices(job) == []


async def test_commands_are_numbered_above_what_task_manager_has_seen(rig: JobManagerRig, queue: Queue) -> None:
    await a_job(rig)
    queue.command_seq = 70
    await compare(rig, queue)
    job = (await rig.submit({"a": ""})).job_id
    rows = await rig.db.read(lambda conn: conn.execute(outbox.table.select()).all())
    assert [row.seq for row in rows] == [71]
    queue.command_seq = 3
    await compare(rig, queue)
    await rig.jobs.act(job, "", "cancel")
    rows = await rig.db.read(lambda conn: conn.execute(outbox.table.select()).all())
    assert [row.seq for row in rows] == [71, 72]


async def test_it_compares_again_when_task_manager_was_started_and_from_time_to_time(
    rig: JobManagerRig, queue: Queue
) -> None:
    queue.away = True
    comparison = Comparison(rig.db, rig.jobs, queue, rig.clock, every_s=0.2)
    loop = asyncio.create_task(comparison.run())

    async def until(done: int) -> None:
        for _ in range(500):
            if len(queue.asked_about) >= done:
                return
            await rig.clock.advance(0.5)
            await asyncio.sleep(0.005)
        raise AssertionError(len(queue.asked_about))

    await rig.clock.advance(10)
    assert queue.confirmed == 0
    queue.away = False
    await until(2)
    assert queue.confirmed >= 1
    queue.stopped.set()
    await until(5)
    loop.cancel()
