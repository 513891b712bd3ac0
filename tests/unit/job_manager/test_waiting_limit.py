"""The cap on waiting tasks of one account: what counts, what is refused, and that it holds whatever happens at once."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, select

from headway.errors import StoreUnavailable, TooManyWaiting
from headway.states import TaskEventKind
from job_manager import store, waiting_limit
from job_manager.tables import action, job, outbox, task
from tests.support.clock import FakeClock
from tests.support.waiting import eventually
from tests.unit.job_manager.rig import JobManagerRig, a_rig

pytestmark = pytest.mark.usefixtures("both_databases")

START, END, FAIL = TaskEventKind.ATTEMPT_STARTED, TaskEventKind.SUCCEEDED, TaskEventKind.FAILED
MOST = 5


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[JobManagerRig]:
    async with a_rig(tmp_path, clock, queued_tasks_per_user=MOST) as one:
        yield one


def tasks(number: int) -> dict[str, str]:
    return {f"t{i}": "" for i in range(number)}


async def count(rig: JobManagerRig, owner: str = "ann") -> int:
    """As the rows of the tasks say it, whatever is kept beside them."""

    def look(conn: Connection) -> int:
        states = [state.value for state in waiting_limit.WAITING]
        mine = select(job.c.id).where(job.c.owner == owner)
        found: int = conn.execute(
            select(func.count()).select_from(task).where(task.c.job_id.in_(mine), task.c.state.in_(states))
        ).scalar_one()
        return found

    return await rig.db.read(look)


@pytest.mark.parametrize(
    ("waiting_now", "more", "most", "want"),
    [
        (0, 5, 5, ""),
        (5, 1, 0, ""),
        (9, 0, 5, ""),
        (4, 2, 5, "4 tasks of ann wait already, and at most 5 may: there is no room for 2 tasks more. Try again when"),
        (5, 1, 5, "5 tasks of ann wait already, and at most 5 may: there is no room for 1 task more."),
        (1, 1, 1, "1 task of ann waits already, and at most 1 may"),
        (3, 6, 5, "6 tasks at once are more than the 5 of one account that may wait at a time: split them"),
    ],
)
def test_a_refusal_says_how_many_wait_what_the_limit_is_and_what_to_do(
    waiting_now: int, more: int, most: int, want: str
) -> None:
    refusal = waiting_limit.refusal("ann", waiting=waiting_now, more=more, most=most)
    assert (refusal is None) == (want == "")
    if refusal is not None:
        assert str(refusal).startswith(want)
        assert "queued_tasks_per_user" in str(refusal)
        assert (refusal.extra["waiting"], refusal.extra["asked"], refusal.extra["limit"]) == (waiting_now, more, most)


async def test_a_job_above_the_cap_is_refused_whole_and_leaves_no_trace(rig: JobManagerRig) -> None:
    await rig.submit(tasks(3))
    with pytest.raises(TooManyWaiting, match="3 tasks of ann wait already, and at most 5 may"):
        await rig.submit(tasks(3), request_id="r1")
    assert len(await rig.db.read(lambda conn: conn.execute(select(job)).all())) == 1
    assert len(await rig.db.read(lambda conn: conn.execute(select(task)).all())) == 3
    assert len(await rig.commands()) == 3
    # The same request may come again once there is room, and another account has its own.
    assert (await rig.submit(tasks(5), owner="bob")).job_id
    assert (await rig.submit(tasks(2), request_id="r1")).job_id
    assert await count(rig) == 5


async def test_a_repeated_submission_is_answered_and_not_counted_again(rig: JobManagerRig) -> None:
    first = await rig.submit(tasks(5), request_id="r1")
    again = await rig.submit(tasks(5), request_id="r1")
    assert (again.job_id, again.already_known) == (first.job_id, True)
    assert len(await rig.commands()) == 5


async def test_blocked_and_held_tasks_count_and_running_and_ended_ones_do_not(rig: JobManagerRig) -> None:
    first = (await rig.submit({"a": "", "b": "a", "c": "b"})).job_id
    await rig.jobs.act(first, "", "hold")
    assert await count(rig) == 3
    with pytest.raises(TooManyWaiting):
        await rig.submit(tasks(3))
    await rig.jobs.report([rig.event(first, "a", START)])
    second = (await rig.submit(tasks(3))).job_id
    with pytest.raises(TooManyWaiting):
        await rig.submit(tasks(1))
    await rig.jobs.report([rig.event(first, "a", FAIL)])  # and so b and c are skipped
    await rig.submit(tasks(2))
    await rig.jobs.act(second, "t0", "cancel")
    await rig.submit(tasks(1))
    assert await count(rig) == MOST


async def test_what_is_tried_again_by_itself_is_never_refused_and_counts(rig: JobManagerRig) -> None:
    first = (await rig.submit(tasks(5))).job_id
    await rig.jobs.report([rig.event(first, f"t{i}", START) for i in range(5)])
    await rig.submit(tasks(4))
    await rig.jobs.report([rig.event(first, f"t{i}", TaskEventKind.REQUEUED) for i in range(5)])
    assert await count(rig) == 9
    with pytest.raises(TooManyWaiting, match="9 tasks of ann wait already"):
        await rig.submit(tasks(1))


async def test_a_manual_retry_counts_like_a_submission_and_changes_nothing_when_refused(rig: JobManagerRig) -> None:
    first = (await rig.submit({"a": "", "b": "a", "c": "b"})).job_id
    await rig.jobs.report([rig.event(first, "a", START), rig.event(first, "a", FAIL)])
    other = (await rig.submit(tasks(3))).job_id
    before = await rig.commands()
    for which in ("", "a"):
        with pytest.raises(TooManyWaiting, match=r"3 tasks of ann wait already, .* for 3 tasks more"):
            await rig.jobs.act(first, which, "retry", request_id="r1", by="root")
    assert await rig.commands() == before
    assert await rig.db.read(lambda conn: conn.execute(select(action)).all()) == []
    live = await rig.db.read(lambda conn: store.load_job(conn, first))
    assert live is not None
    assert live.waiting == 0
    await rig.jobs.act(other, "t0", "cancel")
    acted = await rig.jobs.act(first, "", "retry", request_id="r1")
    assert acted.tasks_changed == 3
    # The same wish again is answered, though there is no room by now; and a retry of nothing needs none.
    assert (await rig.jobs.act(first, "", "retry", request_id="r1")).tasks_changed == 3
    assert (await rig.jobs.act(first, "", "retry")).tasks_changed == 0


async def test_a_dry_run_and_a_question_say_the_same(rig: JobManagerRig) -> None:
    await rig.submit(tasks(4))
    assert (await rig.submit(tasks(1), dry_run=True)).problems == ()
    await rig.jobs.check_waiting("ann", 1)
    with pytest.raises(TooManyWaiting, match="4 tasks of ann wait already"):
        await rig.submit(tasks(2), dry_run=True)
    with pytest.raises(TooManyWaiting, match="4 tasks of ann wait already"):
        await rig.jobs.check_waiting("ann", 2)
    await rig.jobs.check_waiting("bob", 5)


async def test_a_restart_counts_anew_and_a_lower_cap_ends_nothing(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock) as rig:
        job_id = (await rig.submit(tasks(8))).job_id
    async with a_rig(tmp_path, clock, queued_tasks_per_user=MOST) as rig:
        await rig.jobs.report([rig.event(job_id, "t0", START)])
        with pytest.raises(TooManyWaiting, match="7 tasks of ann wait already, and at most 5 may"):
            await rig.submit(tasks(1))
        assert await count(rig) == 7


async def test_what_a_batch_has_changed_already_is_counted_once(tmp_path: Path, clock: FakeClock) -> None:
    """A start, a report and a submission in one transaction: the account is counted in the midst of it."""
    async with a_rig(tmp_path, clock) as rig:
        job_id = (await rig.submit(tasks(6))).job_id
    async with a_rig(tmp_path, clock, queued_tasks_per_user=MOST) as rig:
        gate = threading.Event()
        held = asyncio.create_task(rig.db.write(lambda conn: gate.wait(30)))
        first = asyncio.create_task(rig.jobs.act(job_id, "t0", "hold"))
        await eventually(lambda: rig.jobs._inbox._worker is not None and not rig.jobs._inbox.waiting)
        rest = [
            asyncio.create_task(rig.jobs.report([rig.event(job_id, f"t{i}", START) for i in range(3)])),
            asyncio.create_task(rig.submit(tasks(2))),
        ]
        await eventually(lambda: rig.jobs._inbox.waiting == 2)
        gate.set()
        await asyncio.gather(held, first, *rest)
        assert await count(rig) == MOST


async def test_submissions_at_the_same_time_never_exceed_the_cap_together(rig: JobManagerRig) -> None:
    answers = await asyncio.gather(*(rig.submit(tasks(2)) for _ in range(20)), return_exceptions=True)
    assert Counter(type(answer) for answer in answers)[TooManyWaiting] == 18
    assert await count(rig) == 4
    assert len(await rig.commands()) == 4


async def test_after_a_transaction_that_failed_it_is_counted_anew(
    rig: JobManagerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.submit(tasks(3))
    add_many = outbox.add_many

    def broken(*args: object, **more: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(outbox, "add_many", broken)
    with pytest.raises(StoreUnavailable):
        await rig.submit(tasks(2))
    monkeypatch.setattr(outbox, "add_many", add_many)
    await rig.submit(tasks(2))
    with pytest.raises(TooManyWaiting):
        await rig.submit(tasks(1))


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_at_once_the_cap_holds_and_nobody_is_refused_with_room(
    tmp_path: Path, clock: FakeClock, seed: int
) -> None:
    """Submissions, retries, reports and cancels in batches of chance. The rows are the judge: more than the cap waits
    only where attempts came back by themselves, and what was refused had no room before the batch."""
    chance = random.Random(seed)
    in_memory = chance.choice([4, 60_000])
    async with a_rig(tmp_path, clock, queued_tasks_per_user=MOST, tasks_in_memory=in_memory) as rig:
        jobs: dict[str, list[str]] = {}
        for _ in range(25):
            before, allowed = await count(rig), MOST
            calls = []
            for _ in range(chance.randint(1, 6)):
                kind = chance.choice(["submit", "submit", "retry", "start", "end", "requeue", "cancel"])
                if kind == "submit" or not jobs:
                    chain = chance.random() < 0.4
                    size = chance.randint(1, 4)
                    calls.append(rig.submit({f"t{i}": f"t{i - 1}" if chain and i else "" for i in range(size)}))
                    continue
                job_id = chance.choice(list(jobs))
                name = chance.choice(jobs[job_id])
                live = await rig.db.read(lambda conn, job_id=job_id: store.load_job(conn, job_id))  # type: ignore[misc]
                assert live is not None
                generation = live.tasks[live.numbers[name]].generation
                match kind:
                    case "retry" | "cancel":
                        calls.append(rig.jobs.act(job_id, chance.choice(["", name]), kind))  # type: ignore[arg-type]
                    case "requeue":
                        allowed += 1
                        calls.append(rig.jobs.report([rig.event(job_id, name, TaskEventKind.REQUEUED, generation)]))
                    case "start":
                        calls.append(rig.jobs.report([rig.event(job_id, name, START, generation)]))
                    case "end":
                        how = chance.choice([END, FAIL])
                        events = [rig.event(job_id, name, one, generation) for one in (START, how)]
                        calls.append(rig.jobs.report(events))
            answers = await asyncio.gather(*calls, return_exceptions=True)
            for answer in answers:
                if getattr(answer, "job_id", ""):
                    jobs[answer.job_id] = [f"t{i}" for i in range(await size_of(rig, answer.job_id))]  # type: ignore[union-attr]
            after = await count(rig)
            assert after <= max(before, MOST) + (allowed - MOST)
            alone = [a for a in answers if isinstance(a, TooManyWaiting)]
            if len(calls) == 1 and alone:
                assert before + alone[0].extra["asked"] > MOST
            # What is kept beside the rows says the same.
            room = max(0, MOST - after)
            if room:
                await rig.jobs.check_waiting("ann", room)
            with pytest.raises(TooManyWaiting):
                await rig.jobs.check_waiting("ann", room + 1)


async def size_of(rig: JobManagerRig, job_id: str) -> int:
    record = await rig.db.read(lambda conn: store.load_record(conn, job_id))
    assert record is not None
    return record.task_count
