"""What attempts used: the sums, on SQLite and on PostgreSQL, against sums made by hand."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from headway.errors import InvalidInput
from headway.ids import AttemptId
from headway.model.reasons import EndReason, EndWord
from headway.rpc.v1 import task_manager_pb2 as pb
from headway.states import ATTEMPT_ENDED, AttemptState
from headway.store import Database
from task_manager.answers.usage_queries import UsageQueries
from task_manager.engine.usage import (
    DAY_S,
    MOST_DAYS,
    PastRunRow,
    TimeSpan,
    UsageGrouping,
    UsageRow,
    UsageSums,
    checked_grouping,
    freed_at,
    gpu_shares,
)
from task_manager.model import Attempt, Task
from task_manager.store import tables, usage_store
from task_manager.store.usage_store import FROM_THE_FIRST, After
from tests.support import attempts as past
from tests.support.attempts import keep
from tests.support.clock import FakeClock
from tests.support.postgres import Postgres
from tests.unit.task_manager.rig import GiB, TaskManagerRig, a_node, a_task, a_task_manager, exited, gpus_of

DAY_0 = 20_000 * DAY_S  # 2024-10-04
H = 3_600.0


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "tm.db")
    server: Postgres = request.getfixturevalue("postgres")
    return server.url(server.new_database())


@pytest.fixture
async def db(url: str) -> AsyncIterator[Database]:
    made = await Database.open(url, room="task_manager", metadata=tables.metadata)
    yield made
    await made.close()


def an_attempt(task: Task, number: int = 1, *, at: float = DAY_0, **facts: Any) -> Attempt:
    return past.an_attempt(task, number, at=at, **facts)


async def usage(
    db: Database,
    by: UsageGrouping,
    from_at: float,
    to_at: float,
    *,
    owner: str = "",
    now: float = DAY_0 + 10 * DAY_S,
    **page: int,
) -> tuple[dict[str, UsageSums], UsageSums]:
    """UsageSums by key, in their order, and of all."""
    page = {"limit": 1_000, "offset": 0} | page
    found = await db.read(
        lambda conn: usage_store.load_usage(conn, by, TimeSpan(from_at, to_at), owner=owner, now=now, **page)
    )
    return {row.key: row.sums for row in found.rows}, found.total


async def test_an_attempt_counts_with_its_part_of_the_span(db: Database) -> None:
    task = a_task("a", gpus=2, cpu=400, memory=8 * GiB, timeout=4 * H)
    await keep(db, [task], [an_attempt(task, at=DAY_0 + H, to=DAY_0 + 4 * H)])
    rows, total = await usage(db, UsageGrouping.USER, DAY_0, DAY_0 + DAY_S)
    whole = UsageSums(
        gpu_s=6 * H, cpu_s=12 * H, memory_byte_s=24 * H * GiB, attempts=1, tasks=1, started=1, wait_s=60.0, ended=1,
        timed_out=0, booked_gpu_s=8 * H, used_gpu_s=6 * H,
    )  # fmt: skip
    assert rows == {"ann": whole}
    assert total == whole
    # Its start lies before this span, its end in it: what counts by instants counts once.
    rows, _ = await usage(db, UsageGrouping.USER, DAY_0 + 2 * H, DAY_0 + 9 * H)
    assert rows["ann"] == replace(whole, gpu_s=4 * H, cpu_s=8 * H, memory_byte_s=16 * H * GiB, started=0, wait_s=0.0)
    rows, _ = await usage(db, UsageGrouping.USER, DAY_0, DAY_0 + 2 * H)
    assert rows["ann"] == UsageSums(
        gpu_s=2 * H, cpu_s=4 * H, memory_byte_s=8 * H * GiB, attempts=1, tasks=1, started=1, wait_s=60.0
    )
    for from_at, to_at in [(DAY_0, DAY_0 + H), (DAY_0 + 4 * H, DAY_0 + 9 * H)]:
        assert await usage(db, UsageGrouping.USER, from_at, to_at) == ({}, UsageSums())


async def test_what_runs_counts_until_now_and_what_was_lost_for_what_it_held(db: Database) -> None:
    running, lost, refused = a_task("run", gpus=1), a_task("lost", gpus=1), a_task("refused", gpus=1)
    await keep(
        db,
        [running, lost, refused],
        [
            an_attempt(running),
            an_attempt(lost, to=DAY_0 + 2 * H, state=AttemptState.LOST, run_s=None),
            an_attempt(refused, to=DAY_0, state=AttemptState.LOST, run_s=None, started_at=None),
        ],
    )
    rows, _ = await usage(db, UsageGrouping.USER, DAY_0 - H, DAY_0 + DAY_S, now=DAY_0 + 3 * H)
    assert rows["ann"] == UsageSums(
        gpu_s=5 * H, cpu_s=5 * H, memory_byte_s=5 * H * GiB, attempts=3, tasks=3, started=3, wait_s=180.0, ended=2,
        failed_gpu_s=2 * H, wasted_gpu_s=2 * H,
    )  # fmt: skip
    # A clock that was set back takes nothing away from others.
    rows, _ = await usage(db, UsageGrouping.USER, DAY_0 - H, DAY_0 + DAY_S, now=DAY_0 - 2 * H)
    assert rows["ann"].gpu_s == 2 * H


async def test_days_are_those_of_utc_and_add_up(db: Database) -> None:
    long, short = a_task("long", gpus=1, timeout=90 * H), a_task("short", gpus=1)
    await keep(
        db,
        [long, short],
        [
            an_attempt(long, at=DAY_0 + 23 * H, to=DAY_0 + 2 * DAY_S + H, state=AttemptState.TIMED_OUT),
            # Ends at midnight to the second: it belongs to the day in which it was.
            an_attempt(short, at=DAY_0 + DAY_S + 22 * H, to=DAY_0 + 2 * DAY_S),
        ],
    )
    days, total = await usage(db, UsageGrouping.DAY, DAY_0, DAY_0 + 5 * DAY_S)
    assert list(days) == ["2024-10-04", "2024-10-05", "2024-10-06"]
    assert [sums.gpu_s for sums in days.values()] == [H, 26 * H, H]
    assert [(s.started, s.ended, s.timed_out) for s in days.values()] == [(1, 0, 0), (1, 1, 0), (0, 1, 1)]
    assert [(s.attempts, s.tasks) for s in days.values()] == [(1, 1), (2, 2), (1, 1)]
    assert (total.attempts, total.tasks, total.gpu_s, total.timed_out) == (2, 2, 28 * H, 1)
    # A span that begins and ends within days.
    days, _ = await usage(db, UsageGrouping.DAY, DAY_0 + 23.5 * H, DAY_0 + DAY_S + 23 * H)
    assert [sums.gpu_s for sums in days.values()] == [H / 2, 24 * H]


async def test_users_jobs_and_nodes(db: Database) -> None:
    one = a_task("one", gpus=1, job="j1")
    two = a_task("two", gpus=4, job="j2", owner="bo", job_name="the other's")
    cpu = a_task("cpu", job="j1", cpu=800)
    await keep(
        db,
        [one, two, cpu],
        [
            an_attempt(one, to=DAY_0 + H, state=AttemptState.FAILED),
            an_attempt(one, 2, at=DAY_0 + H, to=DAY_0 + 2 * H, node="n2"),
            an_attempt(two, to=DAY_0 + H),
            an_attempt(cpu, to=DAY_0 + H, node="n2"),
        ],
    )
    rows, total = await usage(db, UsageGrouping.USER, DAY_0, DAY_0 + DAY_S)
    assert {key: (s.gpu_s, s.attempts, s.tasks) for key, s in rows.items()} == {
        "bo": (4 * H, 1, 1),
        "ann": (2 * H, 3, 2),
    }
    assert list(rows) == ["bo", "ann"], "who used most comes first"
    assert total.gpu_s == 6 * H
    rows, total = await usage(db, UsageGrouping.NODE, DAY_0, DAY_0 + DAY_S)
    assert {key: (s.gpu_s, s.cpu_s) for key, s in rows.items()} == {"n1": (5 * H, 2 * H), "n2": (H, 9 * H)}
    rows, total = await usage(db, UsageGrouping.JOB, DAY_0, DAY_0 + DAY_S, owner="ann")
    assert list(rows) == ["j1"]
    assert (total.gpu_s, total.cpu_s) == (2 * H, 10 * H)
    found = await db.read(
        lambda conn: usage_store.load_usage(
            conn, UsageGrouping.JOB, TimeSpan(DAY_0, DAY_0 + DAY_S), owner="", now=DAY_0, limit=1, offset=0
        )
    )
    assert found.rows_in_all == 2
    assert [(row.key, row.job_name, row.owner) for row in found.rows] == [("j2", "the other's", "bo")]
    rows, total = await usage(db, UsageGrouping.JOB, DAY_0, DAY_0 + DAY_S, limit=1, offset=1)
    assert list(rows) == ["j1"]
    assert total.gpu_s == 6 * H
    days, _ = await usage(db, UsageGrouping.DAY, DAY_0, DAY_0 + DAY_S, limit=1, offset=1)
    assert days == {}


async def test_timeouts_are_used_by_what_ended_of_itself_or_at_them(db: Database) -> None:
    ends = {
        AttemptState.SUCCEEDED: 1 * H,
        AttemptState.TIMED_OUT: 4.01 * H,  # the grace behind its timeout is not booked
        AttemptState.OUT_OF_MEMORY: 1 * H,
        AttemptState.CANCELLED: 1 * H,
        AttemptState.LOST: 1 * H,
    }
    tasks = {state: a_task(state.value, gpus=1, timeout=4 * H) for state in ends}
    attempts = [an_attempt(tasks[state], to=DAY_0 + took, state=state) for state, took in ends.items()]
    never = a_task("never", gpus=1, timeout=4 * H)  # its image was not found
    attempts.append(an_attempt(never, to=DAY_0 + 60, state=AttemptState.FAILED, run_s=None, started_at=None))
    await keep(db, [*tasks.values(), never], attempts)
    rows, _ = await usage(db, UsageGrouping.USER, DAY_0, DAY_0 + DAY_S)
    assert (rows["ann"].booked_gpu_s, rows["ann"].used_gpu_s) == (12 * H, 6 * H)
    assert rows["ann"].timed_out == 1


def a_use(attempt: Attempt, measured: float, busy: float, idle: float) -> bytes:
    """What a Worker summed up: shares of the time for which the GPUs were held, the last two of the measured one."""
    assert attempt.freed_at is not None
    seconds = (attempt.freed_at - attempt.placed_at) * measured
    gpus = [
        pb.GpuUse(uuid=uuid, measured_s=seconds, mean_utilisation=busy, idle_s=seconds * idle)
        for uuid in attempt.gpu_uuids
    ]
    return pb.AttemptUse(measured_s=seconds, gpus=gpus).SerializeToString()


async def test_wasted_is_what_failed_and_what_was_idle(db: Database) -> None:
    tasks = {name: a_task(name, gpus=2) for name in ("well", "failed", "lost", "cancelled", "unmeasured")}
    ends = {
        "failed": AttemptState.FAILED, "lost": AttemptState.LOST, "cancelled": AttemptState.CANCELLED,
    }  # fmt: skip
    attempts = {
        name: an_attempt(task, to=DAY_0 + 10 * H, state=ends.get(name, AttemptState.SUCCEEDED))
        for name, task in tasks.items()
    }
    for name in ("well", "failed", "cancelled"):
        attempts[name] = replace(attempts[name], use=a_use(attempts[name], 0.5, 0.25, 0.4))
    live = a_task("live", gpus=1)
    await keep(db, [*tasks.values(), live], [*attempts.values(), an_attempt(live)])
    _, total = await usage(db, UsageGrouping.USER, DAY_0, DAY_0 + DAY_S, now=DAY_0 + H)
    assert asdict(total) | {
        "measured_gpu_s": pytest.approx(30 * H), "busy_gpu_s": pytest.approx(7.5 * H),
        "idle_gpu_s": pytest.approx(12 * H), "failed_gpu_s": 40 * H, "wasted_gpu_s": pytest.approx(48 * H),
    } == asdict(total)  # fmt: skip
    # An hour of it has its even part.
    _, hour = await usage(db, UsageGrouping.USER, DAY_0 + 2 * H, DAY_0 + 3 * H, now=DAY_0 + H)
    assert (hour.gpu_s, hour.idle_gpu_s) == (10 * H, pytest.approx(1.2 * H))


@pytest.mark.parametrize(
    ("gpu", "want"),
    [
        ({}, (0, 0, 0)),
        ({"measured_s": 50}, (0.5, 0, 0)),
        ({"measured_s": 50, "mean_utilisation": 0.5, "idle_s": 10}, (0.5, 0.25, 0.1)),
        ({"measured_s": 1e9, "mean_utilisation": 7, "idle_s": 1e9}, (1, 1, 1)),
        ({"measured_s": -5, "idle_s": 10}, (0, 0, 0)),
        ({"measured_s": float("nan"), "mean_utilisation": float("nan"), "idle_s": float("inf")}, (0, 0, 0)),
        ({"measured_s": 50, "mean_utilisation": float("nan"), "idle_s": float("inf")}, (0.5, 0, 0)),
        ({"measured_s": 50, "uuid": "GPU-of-another"}, (0, 0, 0)),
    ],
)
def test_no_number_of_a_worker_breaks_a_sum(gpu: dict[str, Any], want: tuple[float, float, float]) -> None:
    use = pb.AttemptUse(gpus=[pb.GpuUse(**{"uuid": "GPU-0"} | gpu)])
    attempt = an_attempt(a_task("t", gpus=1), at=DAY_0, to=DAY_0 + 100, use=use.SerializeToString())
    assert astuple(gpu_shares(attempt)) == pytest.approx(want)


def random_lives(rng: random.Random) -> tuple[list[Task], list[Attempt]]:
    tasks, attempts = [], []
    for number in range(40):
        task = a_task(
            f"t{number}", job=f"j{number % 7}", owner=rng.choice(["ann", "bo"]), gpus=rng.choice([0, 1, 2, 8]),
            cpu=rng.choice([100, 250, 3_200]), timeout=rng.choice([60.0, 3_600.0, 200_000.0]),
        )  # fmt: skip
        tasks.append(task)
        at = DAY_0 + rng.uniform(-2, 6) * DAY_S
        for attempt in range(1, rng.randint(2, 4)):
            took = rng.choice([0.0, rng.uniform(0, 10), rng.uniform(0, 3 * DAY_S)])
            state = rng.choice([*sorted(ATTEMPT_ENDED), AttemptState.RUNNING])
            node = rng.choice(["n1", "n2"])
            queued_at = at - rng.choice([-5.0, 0.0, 77.7])
            if state is AttemptState.RUNNING:
                attempts.append(an_attempt(task, attempt, at=at, node=node, queued_at=queued_at))
                break
            attempts.append(an_attempt(task, attempt, at=at, to=at + took, state=state, node=node, queued_at=queued_at))
            if rng.random() < 0.5:
                attempts[-1] = replace(attempts[-1], use=a_use(attempts[-1], rng.random(), rng.random(), rng.random()))
            at += took + rng.uniform(0, 100)
    return tasks, attempts


def by_hand(attempts: list[Attempt], by: UsageGrouping, span: TimeSpan, now: float) -> dict[str, UsageSums]:
    """As slowly and plainly as can be."""
    sums: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(asdict(UsageSums()), 0))
    tasks = defaultdict(set)
    of_themselves = {"SUCCEEDED", "FAILED", "TIMED_OUT", "OUT_OF_MEMORY"}
    for a in attempts:
        end = a.freed_at if a.freed_at is not None else max(now, a.placed_at)
        pieces = [(span.from_at, span.to_at, "")]
        if by is UsageGrouping.DAY:
            pieces = []
            for day in range(20_000 - 3, 20_000 + 20):
                low, high = max(span.from_at, day * DAY_S), min(span.to_at, (day + 1) * DAY_S)
                if low < high:
                    pieces.append((low, high, str(day - 20_000)))
        for low, high, day_key in pieces:
            if not (a.placed_at < high and (end > low or (end == a.placed_at >= low))):
                continue
            key = {
                UsageGrouping.USER: a.owner,
                UsageGrouping.JOB: a.id.task.job_id,
                UsageGrouping.NODE: a.node_id,
                UsageGrouping.DAY: day_key,
            }[by]
            row = sums[key]
            seconds = min(end, high) - max(a.placed_at, low)
            row["gpu_s"] += len(a.gpu_uuids) * seconds
            shares = gpu_shares(a)
            failed = a.state.value in {"FAILED", "TIMED_OUT", "OUT_OF_MEMORY", "LOST"}
            for name, share in (
                ("measured", shares.measured), ("busy", shares.busy), ("idle", shares.idle), ("failed", float(failed)),
                ("wasted", 1.0 if failed else shares.idle),
            ):  # fmt: skip
                row[f"{name}_gpu_s"] += len(a.gpu_uuids) * seconds * share
            row["cpu_s"] += a.shape.cpu_centi / 100 * seconds
            row["memory_byte_s"] += a.shape.memory_bytes * seconds
            row["attempts"] += 1
            tasks[key].add(a.id.task)
            if a.placed_at >= low:
                row["started"] += 1
                row["wait_s"] += max(0.0, a.placed_at - a.queued_at)
            if a.freed_at is not None and a.freed_at <= high:
                row["ended"] += 1
                row["timed_out"] += a.state.value == "TIMED_OUT"
                if a.state.value in of_themselves and a.run_s is not None:
                    row["booked_gpu_s"] += len(a.gpu_uuids) * a.timeout_s
                    row["used_gpu_s"] += len(a.gpu_uuids) * min(a.run_s, a.timeout_s)
    return {key: UsageSums(**(row | {"tasks": len(tasks[key])})) for key, row in sums.items()}  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
async def test_the_database_sums_as_one_would_by_hand(db: Database, seed: int) -> None:
    rng = random.Random(seed)
    tasks, attempts = random_lives(rng)
    await keep(db, tasks, attempts)
    now = DAY_0 + 7 * DAY_S
    for _ in range(6):
        from_at = DAY_0 + rng.choice([0.0, rng.uniform(-1, 5) * DAY_S])
        span = TimeSpan(from_at, from_at + rng.choice([DAY_S, 3 * DAY_S, rng.uniform(1, 6) * DAY_S]))
        for by in UsageGrouping:
            for owner in ("", "ann"):
                mine = [a for a in attempts if owner in ("", a.owner)]
                found, total = await usage(db, by, span.from_at, span.to_at, owner=owner, now=now)
                want = by_hand(mine, by, span, now)
                if by is UsageGrouping.DAY:
                    found = {str(_day_number(key)): sums for key, sums in found.items()}
                assert found.keys() == want.keys()
                for key, sums in found.items():
                    assert asdict(sums) == pytest.approx(asdict(want[key]), rel=1e-9, abs=1e-3), (by, key)
                everything = by_hand(mine, UsageGrouping.NODE, span, now)
                assert total.gpu_s == pytest.approx(sum(one.gpu_s for one in everything.values()))
                assert total.attempts == sum(one.attempts for one in everything.values())


def _day_number(day: str) -> int:
    year, month, number = map(int, day.split("-"))
    assert (year, month) == (2024, 10) or month == 9
    return number - 4 if month == 10 else number - 34


# -- what attempts keep for it ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ended_at", "run_s", "now", "want"),
    [
        (160.0, 50.0, 200.0, 160.0),  # told 40 s late: either of them was away
        (None, None, 200.0, 200.0),  # lost
        (5_000.0, 50.0, 200.0, 200.0),  # the machine's clock is ahead
        (20.0, 50.0, 200.0, 200.0),  # or behind
        (120.0, 50.0, 200.0, 200.0),  # it ran for longer than that
        (None, None, 40.0, 100.0),  # this machine's clock was set back
        (130.0, 60.0, 40.0, 160.0),
    ],
)
def test_until_when_an_attempt_held_what_it_booked(
    ended_at: float | None, run_s: float | None, now: float, want: float
) -> None:
    attempt = replace(an_attempt(a_task(), at=100.0), ended_at=ended_at, run_s=run_s)
    assert freed_at(attempt, now) == want


async def test_a_life_through_the_engine(url: str, tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock, url=url) as rig:
        await rig.nodes(a_node("n1", gpus=gpus_of("n1", 4)))
        task = a_task("t", gpus=2, models=("H100", "A100"), cpu=150, memory=3 * GiB, priority=1, timeout=600, retries=1)
        await rig.enqueue(task)
        began = clock.now()
        first, second = AttemptId(task.id, 1), AttemptId(task.id, 2)
        await rig.report(first, "PROCESS_STARTED", process_started_at=began)
        await clock.advance(30)
        assert (await _of(rig, began)).sums.gpu_s == 60
        await rig.report(first, "FAILED", reason=exited(3), ended_at=began + 25, run_s=25.0)
        await rig.report(second, "PROCESS_STARTED", process_started_at=clock.now())
        await clock.advance(30)
        row = await _of(rig, began)
        assert (row.key, row.sums.gpu_s, row.sums.attempts, row.sums.tasks, row.sums.ended) == ("ann", 110, 2, 1, 1)
        await rig.restart()
        assert (await _of(rig, began)).sums.gpu_s == 110, "its GPUs are known after a start, too"
        await rig.report(second, "TIMED_OUT", reason=EndReason(EndWord.TIMED_OUT), run_s=600.5, ended_at=began + 20)
        runs = await _runs(rig, began)
        assert [(run.attempt.number, run.run_s, run.timeout_s) for run in runs] == [
            (1, 25, 600),
            (2, 600.5, 600),
        ]
        asked = runs[0].resources
        assert (asked.gpus, list(asked.gpu_models), asked.cpu_centi, asked.memory_bytes, runs[0].priority) == (
            2, ["H100", "A100"], 150, 3 * GiB, 1,
        )  # fmt: skip
        assert (runs[0].queued_at, runs[1].queued_at, runs[0].owner) == (began, began + 30, "ann")
        assert [run.timed_out for run in runs] == [False, True]


async def _of(rig: TaskManagerRig, began: float) -> UsageRow:
    span = TimeSpan(began, began + 86_400)
    found = await rig.db.read(
        lambda conn: usage_store.load_usage(
            conn, UsageGrouping.USER, span, owner="ann", now=rig.clock.now(), limit=10, offset=0
        )
    )
    (row,) = found.rows
    return row


async def _runs(rig: TaskManagerRig, began: float, owner: str = "ann") -> list[pb.PastRun]:
    ledger = UsageQueries(rig.db, rig.clock)
    request = pb.ListRunsRequest(from_at=began, to_at=began + 86_400, owner=owner)
    return [run async for part in ledger.runs(request) for run in part.runs]


# -- past runs --------------------------------------------------------------------------------------


async def test_runs_come_page_by_page_each_once_in_the_order_of_the_queue(db: Database) -> None:
    tasks = [a_task(f"t{i:02d}", gpus=i % 3) for i in range(30)]
    # Many are queued at one instant, as the tasks of a job are.
    attempts = [an_attempt(task, to=DAY_0 + 60, queued_at=DAY_0 - 5 * (i % 3)) for i, task in enumerate(tasks)]
    await keep(db, tasks, attempts)
    span, seen, after = TimeSpan(DAY_0 - 100, DAY_0 + 1), [], FROM_THE_FIRST
    while page := await runs_of(db, span, owner="ann", after=after, limit=7):
        seen += page
        last = page[-1]
        after = (last.queued_at, last.attempt.task.job_id, last.attempt.task.name, last.attempt.number)
    assert [run.queued_at for run in seen] == sorted(a.queued_at for a in attempts)
    assert {run.attempt for run in seen} == {a.id for a in attempts}
    assert len(seen) == 30
    assert len(await runs_of(db, TimeSpan(DAY_0 - 5, DAY_0))) == 10
    assert await runs_of(db, span, owner="bo") == []


async def runs_of(
    db: Database, span: TimeSpan, owner: str = "", after: After = FROM_THE_FIRST, limit: int = 99
) -> list[PastRunRow]:
    return await db.read(lambda conn: usage_store.load_runs(conn, span, owner=owner, after=after, limit=limit))


async def test_only_what_ran_and_ended_is_a_run(db: Database) -> None:
    states = {state: a_task(state.value) for state in sorted(ATTEMPT_ENDED)} | {
        AttemptState.RUNNING: a_task("RUNNING"),
        AttemptState.PULLING: a_task("PULLING"),
    }
    attempts = [
        an_attempt(task, to=DAY_0 + 9 if state in ATTEMPT_ENDED else None, state=state)
        for state, task in states.items()
    ]
    never = a_task("never")
    attempts.append(an_attempt(never, to=DAY_0 + 9, state=AttemptState.FAILED, run_s=None, started_at=None))
    await keep(db, [*states.values(), never], attempts)
    found = await runs_of(db, TimeSpan(DAY_0 - 100, DAY_0 + 1))
    assert {run.attempt.task.name for run in found} == {
        "SUCCEEDED", "FAILED", "TIMED_OUT", "OUT_OF_MEMORY", "CANCELLED",
    }  # fmt: skip


async def test_each_question_is_answered_by_an_index(tmp_path: Path) -> None:
    """Without statistics SQLite took the index of states, and sorted a million runs for each page."""
    db = await Database.open(str(tmp_path / "tm.db"), room="task_manager", metadata=tables.metadata)
    asked: list[tuple[str, Any]] = []
    event.listen(db._read_engine, "before_cursor_execute", lambda *call: asked.append(call[2:4]))
    span, plans = TimeSpan(DAY_0, DAY_0 + DAY_S), {}
    try:
        for owner in ("", "ann"):
            asked.clear()
            await runs_of(db, span, owner=owner)
            await usage(db, UsageGrouping.USER, DAY_0, DAY_0 + DAY_S, owner=owner)
            await usage(db, UsageGrouping.DAY, DAY_0, DAY_0 + DAY_S, owner=owner)
            plans[owner] = [await _plan(db, *question) for question in list(asked) if question[0] != "BEGIN"]
    finally:
        await db.close()
    for owner, wanted in (("", ""), ("ann", "owner_")):
        days = [plan for plan in plans[owner] if "usage_days" in plan]
        assert all("SEARCH usage_days" in plan for plan in days), days
        runs, *sums = [plan for plan in plans[owner] if plan not in days]
        assert f"ix_attempts_{wanted}queued " in runs, runs
        assert "SCAN attempts" not in runs
        assert len(sums) == 4
        for plan in sums:
            assert plan.count(f"ix_attempts_{wanted}freed ") == 2, plan
            assert "SCAN attempts" not in plan


async def _plan(db: Database, statement: str, parameters: Any) -> str:
    rows = await db.read(lambda conn: conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all())
    return "\n".join(row[3] for row in rows)


# -- refused, and of before -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "span", "want"),
    [
        ("week", TimeSpan(0, 1), "not by 'week'"),
        ("user", TimeSpan(5, 5), "ends before it begins"),
        ("user", TimeSpan(9, 5), "ends before it begins"),
        ("user", TimeSpan(float("nan"), 5), "from 1970 on"),
        ("user", TimeSpan(0, float("inf")), "from 1970 on"),
        ("user", TimeSpan(-1, 5), "from 1970 on"),
        ("day", TimeSpan(0, MOST_DAYS * DAY_S + 1), "400 of them at most"),
    ],
)
def test_what_is_no_question(by: str, span: TimeSpan, want: str) -> None:
    with pytest.raises(InvalidInput, match=want):
        checked_grouping(by, span)


def test_all_time_but_for_days() -> None:
    assert checked_grouping("job", TimeSpan(0, 1e10)) is UsageGrouping.JOB
    assert checked_grouping("day", TimeSpan(0, MOST_DAYS * DAY_S)) is UsageGrouping.DAY


async def test_attempts_of_before_get_what_is_kept_now(url: str) -> None:
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    db = await Database.open(url, room="task_manager")
    try:
        task, cpu = a_task("old", gpus=2), a_task("cpu")
        ended, skewed = an_attempt(task, to=DAY_0 + 60), an_attempt(task, 2, to=DAY_0 - 60)
        live, other = an_attempt(task, 3), an_attempt(cpu, to=DAY_0 + 5)
        await keep(db, [task, cpu], [ended, skewed, live, other])

        def again(conn: Any) -> Any:
            for index in ("freed", "owner_freed", "queued", "owner_queued"):
                conn.execute(text(f"DROP INDEX ix_attempts_{index}"))
            for column in ("owner", "gpus", "freed_at"):
                conn.execute(text(f"ALTER TABLE attempts DROP COLUMN {column}"))
            with Operations.context(MigrationContext.configure(conn)):
                _step("0007_usage").upgrade()
            asked = "SELECT name, number, owner, gpus, freed_at FROM attempts ORDER BY name, number"
            return [tuple(row) for row in conn.execute(text(asked))]

        assert await db.write(again) == [
            ("cpu", 1, "ann", 0, DAY_0 + 5),
            ("old", 1, "ann", 2, DAY_0 + 60),
            ("old", 2, "ann", 2, DAY_0),
            ("old", 3, "ann", 2, None),
        ]
    finally:
        await db.close()


def _step(name: str) -> Any:
    import importlib

    return importlib.import_module(f"task_manager.migrations.versions.{name}")
