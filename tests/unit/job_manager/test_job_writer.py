"""Jobs with their database: what a crash at any statement leaves behind, memory bounds, long lists."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert

from headway.errors import Conflict, StoreUnavailable
from headway.ids import JobId, new_job_id
from headway.rpc.v1 import job_manager_pb2
from headway.states import TASK_ENDED, JobState, TaskEventKind, TaskState
from headway.store.migrations import differences
from job_manager import store
from job_manager.comparing.comparison import Comparison
from job_manager.graph.dag import DagTask, check
from job_manager.graph.dag_progress import DagProgress
from job_manager.job import TaskReport
from job_manager.servicer import JobManagerService
from job_manager.tables import job as job_table
from job_manager.tables import metadata
from tests.support.clock import FakeClock
from tests.support.databases import engine_of
from tests.unit.job_manager.rig import JobManagerRig, a_rig


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock, both_databases: None) -> AsyncIterator[JobManagerRig]:
    async with a_rig(tmp_path, clock) as one:
        yield one


async def test_tables_and_migrations_agree(tmp_path: Path, rig: JobManagerRig) -> None:
    assert differences(engine_of(tmp_path / "jobs.db", "job_manager"), "job_manager", metadata) == []


class Crash(Exception):
    """The process dies here."""


async def crash_at(rig: JobManagerRig, statement: int, act: Callable[[], Any]) -> bool:
    """Runs ``act`` and dies before its writing transaction's n-th statement, commit included; whether it got so far."""
    left = statement

    def before(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash

    moments = ("before_cursor_execute", "commit")
    for moment in moments:
        event.listen(rig.db._write_engine, moment, before)
    try:
        await act()
    except Crash:
        return True
    finally:
        for moment in moments:
            event.remove(rig.db._write_engine, moment, before)
    return False


async def check_consistent(rig: JobManagerRig, job_id: str) -> None:
    """States and commands belong together, and nothing waits that could go on."""
    live = await rig.db.read(lambda conn: store.load_job(conn, job_id))
    assert live is not None
    assert DagProgress(live.needs, live.states).decide_waiting() == []
    assert sum(live.record.counts.values()) == len(live.states)
    assert live.record.counts == {s: n for s, n in live.progress.counts.items() if n}
    told = {(task, generation) for kind, task, generation in await rig.commands(job_id) if kind == "enqueue"}
    for name, state, record in zip(live.names, live.states, live.tasks, strict=True):
        ran = state not in (TaskState.BLOCKED, TaskState.SKIPPED)
        if state is not TaskState.CANCELLED or record.queued_at is not None:
            assert ((name, record.generation) in told) is ran, f"{name} is {state}"
    assert (live.record.state in (JobState.PENDING, JobState.RUNNING, JobState.STOPPING)) is (live.progress.live > 0)


async def ask_again_and_check(rig: JobManagerRig, act: Callable[[], Any], job_id: str) -> None:
    """The one who got no answer asks again."""
    answer = await act()
    job_id = job_id or answer.job_id
    await check_consistent(rig, job_id)
    assert len(await rig.db.read(store.live_job_ids)) == 1
    enqueued = [command for command in await rig.commands() if command[0] == "enqueue"]
    assert len(enqueued) == len(set(enqueued))


DIAMOND = {"prepare": "", "left": "prepare", "right": "prepare", "compare": "left right"}


@pytest.mark.parametrize("step", ["submit", "event", "cancel", "retry", "hold"])
@pytest.mark.parametrize("dies", [True, False], ids=["process dies", "transaction fails"])
async def test_a_crash_before_any_statement_leaves_everything_or_nothing(
    tmp_path: Path, clock: FakeClock, step: str, dies: bool
) -> None:
    statement = 0
    crashed = True
    while crashed:
        statement += 1
        folder = tmp_path / str(statement)
        folder.mkdir()
        async with a_rig(folder, clock) as rig:
            job_id = ""
            if step != "submit":
                job_id = (await rig.submit(DIAMOND, "r1")).job_id
            if step == "retry":
                await rig.jobs.report([rig.event(job_id, "prepare", TaskEventKind.FAILED)])
            said = rig.event(job_id, "prepare", TaskEventKind.SUCCEEDED)

            async def act(rig: JobManagerRig = rig, job_id: str = job_id, said: Any = said) -> Any:
                if step == "submit":
                    return await rig.submit(DIAMOND, "r1")
                if step == "event":
                    return await rig.jobs.report([said])
                return await rig.jobs.act(job_id, "", step, request_id="wish")  # type: ignore[arg-type]

            crashed = await crash_at(rig, statement, act)
            if job_id:
                await check_consistent(rig, job_id)
            elif crashed:
                assert await rig.db.read(store.live_job_ids) == []
            if not dies:
                # A full disk, say: the service lives on, and what it has in memory must be what is stored.
                await ask_again_and_check(rig, act, job_id)
        async with a_rig(folder, clock) as rig:
            await ask_again_and_check(rig, partial(act, rig), job_id)
    assert statement >= 3


async def test_a_commit_whose_answer_was_lost_is_not_done_twice(
    rig: JobManagerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = rig.db.write

    async def losing(work: Callable[[Connection], Any]) -> Any:
        await write(work)
        raise StoreUnavailable("the connection broke after the commit")

    async def lost(act: Callable[[], Any]) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(rig.db, "write", losing)
            with pytest.raises(StoreUnavailable):
                await act()
        return await act()

    answer = await lost(lambda: rig.submit(DIAMOND, "r1"))
    assert answer.already_known
    said = rig.event(answer.job_id, "prepare", TaskEventKind.FAILED)
    await lost(lambda: rig.jobs.report([said]))
    acted = await lost(lambda: rig.jobs.act(answer.job_id, "", "retry", request_id="w"))
    assert acted.tasks_changed == 4
    assert [c for c in await rig.commands() if c[0] == "enqueue"] == [
        ("enqueue", "prepare", 1),
        ("enqueue", "prepare", 2),
    ]
    await check_consistent(rig, answer.job_id)


async def test_at_start_a_task_that_should_have_been_released_is_found(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock) as rig:
        job_id = (await rig.submit(DIAMOND)).job_id

        def break_it(conn: Connection) -> None:
            live = store.load_job(conn, job_id)
            assert live is not None
            live.progress.states[0] = TaskState.SUCCEEDED
            live.dirty.add(0)
            store.save(conn, live, clock.now())

        await rig.db.write(break_it)
    async with a_rig(tmp_path, clock) as rig:
        assert [c[1] for c in await rig.commands()] == ["prepare", "left", "right"]


async def test_random_events_wishes_and_restarts_end_every_job(tmp_path: Path, clock: FakeClock) -> None:
    chance = random.Random(7)
    kinds = [k for k in TaskEventKind if k.value in TaskState.__members__]
    names = [f"t{n}" for n in range(12)]
    needs = {n: " ".join(chance.sample(names[:i], min(i, chance.randrange(3)))) for i, n in enumerate(names)}
    job_ids: list[str] = []
    sent: list[tuple[JobId, TaskReport]] = []
    seq = 0
    for life in range(6):
        # So little memory that jobs are read again all the time.
        async with a_rig(tmp_path, clock, tasks_in_memory=20) as rig:
            if life < 3:
                job_ids += [(await rig.submit(needs)).job_id for _ in range(3)]
            for _ in range(150 if life == 5 else 15):
                if life == 5 and not await rig.db.read(store.live_job_ids):
                    break
                batch = []
                for job_id in job_ids:
                    live = await rig.db.read(lambda conn, job_id=job_id: store.load_job(conn, job_id))
                    assert live is not None
                    waiting = [
                        n for n, s in enumerate(live.states) if s not in TASK_ENDED and s is not TaskState.BLOCKED
                    ]
                    for n in chance.sample(waiting, min(2, len(waiting))):
                        seq += 1
                        kind = chance.choice([*kinds, TaskEventKind.SUCCEEDED, TaskEventKind.ATTEMPT_STARTED])
                        batch.append(
                            (
                                JobId(job_id),
                                TaskReport(live.names[n], live.tasks[n].generation, seq, kind, 1, clock.now()),
                            )
                        )
                    if chance.random() < 0.1:
                        wish: Any = chance.choice(["retry", "hold", "release", "cancel"] if life < 5 else ["release"])
                        task = chance.choice(["", *names])
                        with contextlib.suppress(Conflict):
                            await rig.jobs.act(job_id, task, wish)
                sent += batch
                await asyncio.gather(rig.jobs.report(batch), rig.jobs.report(chance.sample(sent, min(5, len(sent)))))
            for job_id in job_ids:
                await check_consistent(rig, job_id)
    async with a_rig(tmp_path, clock) as rig:
        assert await rig.db.read(store.live_job_ids) == []


async def test_one_question_for_each_distinct_shape(rig: JobManagerRig) -> None:
    await rig.submit({f"t{n}": "" for n in range(500)})
    assert [len(shapes) for shapes in rig.task_manager.asked] == [1]


async def test_too_many_tasks_are_refused(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock, max_tasks_per_job=3) as rig:
        answer = await rig.submit(DIAMOND)
        assert answer.job_id == ""
        assert "at most 3" in answer.problems[0].message


async def test_names_that_would_be_paths_are_refused(rig: JobManagerRig) -> None:
    answer = await rig.submit({"../etc": "", "ok": ""})
    assert [p.pointer for p in answer.problems] == ["/tasks/0/name"]


def test_edges_come_back_as_they_were_packed() -> None:
    tasks = [
        DagTask(f"t{n}", tuple((f"t{m}", k) for m, k in zip(range(n), store._KINDS, strict=False)), 1.5)
        for n in range(9)
    ]
    dag, _ = check(tasks)
    assert dag is not None
    needs, tails = store.unpack_graph(store.pack_graph(dag))
    assert tuple(needs) == dag.needs
    assert tuple(tails) == dag.tail_timeout_s


# -- long lists -----------------------------------------------------------------------------------


def _hundreds_of_steps(conn: Connection, before: str) -> int:
    """What a page costs the database: hundreds of instructions of SQLite's machine."""
    ticks = 0

    def tick() -> int:
        nonlocal ticks
        ticks += 1
        return 0

    if conn.dialect.name != "sqlite":
        return 0  # no other database tells what a query costs it in steps
    raw: Any = conn.connection.driver_connection
    raw.set_progress_handler(tick, 100)
    try:
        store.list_jobs(conn, owner="ann", states=["SUCCEEDED"], query="", limit=501, before=before)
    finally:
        raw.set_progress_handler(None, 0)
    return ticks


@pytest.mark.slow
async def test_twenty_thousand_jobs_are_listed_once_each_while_more_arrive(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock) as rig:  # what a page costs is counted by SQLite's machine
        await _list_twenty_thousand(rig)


async def _list_twenty_thousand(rig: JobManagerRig) -> None:
    # A list of tasks once failed when its answer passed 4 MB.
    now = rig.clock.now()
    row = {
        "owner": "ann", "account": b"", "request_id": None, "spec_hash": "", "name": "x" * 100, "priority": "normal",
        "state": "SUCCEEDED", "submitted_at": now, "held": False, "task_count": 1, "counts": '{"SUCCEEDED": 1}',
        "reason_task": "", "detail": "", "version": 1,
    }  # fmt: skip
    rows = [{**row, "id": new_job_id(now + n / 1_000)} for n in range(20_000)]
    await rig.db.write(lambda conn: conn.execute(insert(job_table), rows))
    comparison = Comparison(rig.db, rig.jobs, rig.task_manager, rig.clock, every_s=60)
    servicer = JobManagerService(rig.db, rig.jobs, rig.hub, comparison, rig.pruning, rig.clock)
    seen: list[str] = []
    cursor = ""
    while True:
        request = job_manager_pb2.ListJobsRequest(limit=500, cursor=cursor, owner="ann", states=["SUCCEEDED"])
        assert await rig.db.read(lambda conn, before=cursor: _hundreds_of_steps(conn, before)) < 501
        reply = await servicer.ListJobs(request, None)
        assert reply.ByteSize() < 1_000_000
        seen += [job.id for job in reply.jobs]
        later = {**row, "id": new_job_id(now + 100 + len(seen))}
        await rig.db.write(lambda conn, later=later: conn.execute(insert(job_table), [later]))
        cursor = reply.next_cursor
        if not cursor:
            break
    assert seen == sorted((r["id"] for r in rows), reverse=True)
    found = await servicer.ListJobs(job_manager_pb2.ListJobsRequest(query=seen[5][:16], limit=3), None)
    assert seen[5] in [job.id for job in found.jobs]
    assert not (await servicer.ListJobs(job_manager_pb2.ListJobsRequest(query="100%"), None)).jobs
    oldest = job_manager_pb2.ListJobsRequest(owner="ann", limit=500, oldest_first=True, count=True)
    first = await servicer.ListJobs(oldest, None)
    assert [job.id for job in first.jobs] == sorted(r["id"] for r in rows)[:500]
    assert (first.count.jobs, first.count.running, first.count.more) == (1_000, 0, True)
    oldest.cursor = first.next_cursor
    second = await servicer.ListJobs(oldest, None)
    assert [job.id for job in second.jobs] == sorted(r["id"] for r in rows)[500:1_000]
    assert not reply.HasField("count"), "who does not ask waits for no count"


async def test_a_list_says_how_many_jobs_there_are_and_how_many_run(rig: JobManagerRig) -> None:
    states = {"ann": ["RUNNING", "RUNNING", "FAILED"], "bea": ["RUNNING"]}
    row = {
        "account": b"", "request_id": None, "spec_hash": "", "priority": "normal", "submitted_at": 1.0, "held": False,
        "task_count": 1, "counts": "{}", "reason_task": "", "detail": "", "version": 1,
    }  # fmt: skip
    rows = [
        {**row, "id": new_job_id(1e9 + number), "owner": owner, "state": state, "name": f"{owner} {number}"}
        for number, (owner, state) in enumerate((owner, state) for owner in states for state in states[owner])
    ]
    await rig.db.write(lambda conn: conn.execute(insert(job_table), rows))

    async def count(**asked: Any) -> tuple[int, int]:
        found = {"owner": "", "states": (), "query": "", "at_most": 100} | asked
        return await rig.db.read(lambda conn: store.count_jobs(conn, **found))

    assert await count() == (4, 3)
    assert await count(owner="ann") == (3, 2)
    assert await count(owner="ann", states=["FAILED"]) == (1, 0)
    assert await count(states=["FAILED", "RUNNING"], query="ann") == (3, 2)
    assert await count(at_most=2) == (2, 2)
