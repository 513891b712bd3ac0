"""More time for a running task: who gets it, what is told, and what is said when it came too late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from headway.errors import (
    Conflict,
    HeadwayError,
    IdempotencyMismatch,
    InvalidInput,
    KeptForShortTasks,
    NotFound,
    PromisesMove,
)
from headway.ids import AttemptId, NodeId, TaskId
from headway.model.reasons import EndReason, EndWord
from headway.states import AttemptState
from headway.store import Database
from task_manager.answers.extension_requests import ExtensionRequests
from task_manager.engine import extension
from task_manager.engine.events import ExtendOrder, ExtendTask
from task_manager.engine.extension import PromiseDelay, delayed_promises, refusal
from task_manager.limits import AdmissionLimits, ShortTaskReserve
from task_manager.model import Attempt, Shape
from task_manager.planning.bookings import Booking, Reservation
from task_manager.settings import TaskManagerSettings
from task_manager.store import queue_store, tables
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import SETTINGS, TaskManagerRig, a_node, a_task, a_task_manager, tid

RUN = AttemptId(tid("run"), 1)


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock) as made:
        await running(made)
        yield made


async def running(rig: TaskManagerRig, **facts: Any) -> None:
    """A task of ten minutes runs."""
    await rig.nodes(a_node(gpus=1))
    await rig.enqueue(a_task("run", gpus=1, timeout=600.0, **facts))
    await rig.report(RUN, "PROCESS_STARTED", process_started_at=rig.clock.now())


async def extend(rig: TaskManagerRig, seconds: float = 300.0, task: str = "run", **more: Any) -> Attempt:
    attempt: Attempt = await rig.engine.submit(ExtendTask(tid(task), seconds, "ann", **more))
    await rig.settle()
    return attempt


def orders(rig: TaskManagerRig) -> list[tuple[AttemptId, float]]:
    return [(order.attempt, order.timeout_s) for order in rig.workers.extended]


async def test_it_is_stored_told_and_said_again_until_the_launcher_counts_by_it(rig: TaskManagerRig) -> None:
    longer = await extend(rig)
    assert (longer.timeout_s, longer.extension_pending) == (900.0, True)
    assert orders(rig) == [(RUN, 900.0)]
    assert (await rig.beat()).extend == (ExtendOrder(RUN, 900.0, longer.extensions),)
    await rig.report(RUN, "PROCESS_STARTED", timeout_s=900.0)
    assert not rig.engine.state.attempts[tid("run")].extension_pending
    assert (await rig.beat()).extend == ()
    again = await extend(rig, 60.0)
    assert again.timeout_s == 960.0
    assert [(one.by, one.seconds, one.forced) for one in again.extensions] == [
        ("ann", 300.0, False),
        ("ann", 60, False),
    ]


async def test_it_survives_a_kill_of_taskmanager(rig: TaskManagerRig) -> None:
    rig.workers.away.add("n1:7004")
    longer = await extend(rig)
    assert orders(rig) == []
    rig.workers.away.clear()
    await rig.restart()
    await rig.settle()
    assert rig.engine.state.attempts[tid("run")] == longer
    assert orders(rig) == [(RUN, 900.0)]


async def test_the_same_request_counts_once(rig: TaskManagerRig) -> None:
    first = await extend(rig, request_id="r1")
    assert await extend(rig, request_id="r1") == first
    with pytest.raises(IdempotencyMismatch, match=r"gave .*/run 5m more before, not 1m;"):
        await extend(rig, 60.0, request_id="r1")
    assert (await extend(rig, request_id="r2")).timeout_s == 1_200.0


@pytest.mark.parametrize("counted_s", [600.0, None])
async def test_what_came_too_late_was_never_given(rig: TaskManagerRig, counted_s: float | None) -> None:
    await extend(rig)
    reason = EndReason(EndWord.TIMED_OUT, None, 15, "It ran past its timeout of 10m and was ended.")
    await rig.report(RUN, "TIMED_OUT", reason=reason, run_s=600.0, timeout_s=counted_s)
    ended = await rig.db.read(lambda conn: queue_store.load_attempt(conn, tid("run"), 1))
    assert (ended.timeout_s, ended.state.value) == (600.0, "TIMED_OUT")
    assert ended.reason.detail == f"{reason.detail} The 5m more that it was given came too late."


async def test_an_end_at_the_new_limit_keeps_it(rig: TaskManagerRig) -> None:
    await extend(rig)
    reason = EndReason(EndWord.TIMED_OUT, None, 15, "It ran past its timeout of 15m and was ended.")
    await rig.report(RUN, "TIMED_OUT", reason=reason, run_s=900.0, timeout_s=900.0)
    ended = await rig.db.read(lambda conn: queue_store.load_attempt(conn, tid("run"), 1))
    assert (ended.timeout_s, ended.reason) == (900.0, reason)


async def test_another_attempt_has_the_tasks_own_timeout(tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock) as rig:
        await running(rig, retries=1)
        await extend(rig)
        await rig.report(RUN, "PROCESS_STARTED", timeout_s=900.0)
        await rig.end(RUN, EndReason(EndWord.EXITED, 3))
        assert rig.engine.state.attempts[tid("run")].timeout_s == 600.0


@pytest.mark.parametrize("seconds", [0.0, -5.0, float("nan"), float("inf"), 0.0001])
async def test_what_is_no_time_is_refused(rig: TaskManagerRig, seconds: float) -> None:
    with pytest.raises(InvalidInput):
        await extend(rig, seconds)


async def test_what_does_not_run_is_refused_in_a_sentence(rig: TaskManagerRig) -> None:
    await rig.enqueue(a_task("wait", gpus=1), a_task("new", timeout=60))
    for task, want in [
        ("wait", "waits: its timeout counts from its start"),
        ("new", "has not started yet"),
        ("never", "knows no task"),
    ]:
        with pytest.raises(HeadwayError, match=want):
            await extend(rig, task=task)
    with pytest.raises(NotFound):
        await extend(rig, task="never")
    await rig.cancel(tid("run"))
    with pytest.raises(Conflict, match="is being stopped"):
        await extend(rig)
    await rig.end(RUN, EndReason(EndWord.CANCELLED))
    with pytest.raises(Conflict, match=r"has ended \(CANCELLED\)"):
        await extend(rig)
    assert not rig.workers.extended


async def test_the_clusters_limit_holds_for_all(tmp_path: Path, clock: FakeClock) -> None:
    settings: TaskManagerSettings = replace(SETTINGS, limits=AdmissionLimits(max_timeouts=((0, 900.0),)))
    async with a_task_manager(tmp_path, clock, settings=settings) as rig:
        await running(rig)
        with pytest.raises(Conflict, match=r"limit of 15m; it can have 5m more"):
            await extend(rig, 301.0, force=True)
        await extend(rig, 300.0)
        with pytest.raises(Conflict, match="it has that already"):
            await extend(rig, 1.0)


async def test_more_time_does_not_get_around_the_short_reserve(tmp_path: Path, clock: FakeClock) -> None:
    settings: TaskManagerSettings = replace(SETTINGS, limits=AdmissionLimits(short_reserve=ShortTaskReserve(1, 600.0)))
    async with a_task_manager(tmp_path, clock, settings=settings) as rig:
        await rig.nodes(a_node(gpus=4))
        await rig.enqueue(a_task("three", gpus=3, timeout=540.0), a_task("one", gpus=1, timeout=540.0))
        for name in ("three", "one"):
            await rig.report(AttemptId(tid(name), 1), "PROCESS_STARTED", process_started_at=clock.now())
        await extend(rig, task="three")
        assert not (await extend(rig, 60.0, task="one")).extensions[-1].forced, "it is not long by that"
        with pytest.raises(KeptForShortTasks) as refused:
            await extend(rig, task="one")
        assert refused.value.http_status == 409
        assert refused.value.message == (
            f"With 5m more {tid('one')} would be a task longer than 10m with 1 GPU. Tasks longer than 10m may together "
            "hold 3 of the cluster's 4 GPUs, and they hold 3. An admin can grant it anyway."
        )
        assert (await extend(rig, task="three")).timeout_s == 1_140.0, "it is among the long ones already"
        longer = await extend(rig, task="one", force=True)
        assert (longer.timeout_s, longer.extensions[-1].forced) == (900.0, True)


async def test_it_is_stored_with_what_past_runs_are_found_by(rig: TaskManagerRig) -> None:
    """On a database that the migrations made, not only on one from the tables of the code."""
    db = await Database.open(str(rig.folder / "other.db"), room="task_manager")
    try:
        names = await db.read(lambda conn: conn.exec_driver_sql("SELECT name FROM pragma_table_info('attempts')").all())
        assert {row[0] for row in names} == {column.name for column in tables.attempts.columns}
    finally:
        await db.close()


# -- the answer waits for the launcher ----------------------------------------------------------------


def asked(rig: TaskManagerRig, seconds: float = 300.0) -> Any:
    return asyncio.ensure_future(
        ExtensionRequests(rig.engine, rig.hub, rig.clock).give(ExtendTask(tid("run"), seconds, "ann"))
    )


async def test_the_answer_comes_with_the_launchers_word(rig: TaskManagerRig) -> None:
    answer = asked(rig)
    await rig.settle()
    assert not answer.done()
    await rig.report(RUN, "PROCESS_STARTED", timeout_s=900.0)
    given = await answer
    assert given.delivered
    assert given.sentence == f"{tid('run')} has 5m more; its timeout is 15m now."


async def test_what_is_told_of_it_is_in_whole_seconds(rig: TaskManagerRig) -> None:
    answer = asked(rig, 4_867.6)
    await rig.settle()
    await rig.report(RUN, "PROCESS_STARTED", timeout_s=5_467.6)
    assert (await answer).sentence == f"{tid('run')} has 1h21m8s more; its timeout is 1h31m8s now."


async def test_without_the_launchers_word_nothing_is_promised(rig: TaskManagerRig) -> None:
    rig.workers.away.add("n1:7004")
    answer = asked(rig)
    await rig.settle()
    await rig.advance(6)
    given = await answer
    assert not given.delivered
    assert "n1 has not confirmed it yet" in given.sentence


async def test_a_race_that_the_timeout_wins_is_said_so(rig: TaskManagerRig) -> None:
    answer = asked(rig)
    await rig.settle()
    await rig.end(RUN, EndReason(EndWord.TIMED_OUT, None, 15, "It ran past its timeout of 10m and was ended."))
    with pytest.raises(Conflict, match=r"ended \(TIMED_OUT\) before it could get more time"):
        await answer


# -- whose promised start moves -----------------------------------------------------------------------


@dataclass(frozen=True)
class Snapshot:
    """As much of a pass's input as matters here."""

    running: tuple[Booking, ...]
    reservations: dict[TaskId, Reservation]


@dataclass(frozen=True)
class Planned:
    placements: tuple[Any, ...] = ()
    promised: dict[TaskId, Reservation] = field(default_factory=dict)
    reservations: dict[TaskId, Reservation] = field(default_factory=dict)


def booking(name: str, until_s: float, node: str = "n1") -> Booking:
    return Booking(tid(name), "ann", NodeId(node), Shape(100, 1, 1), (f"GPU-{node}",), 60.0, until_s)


def place(start_s: float, promised_s: float | None, node: str = "n1") -> Reservation:
    return Reservation(NodeId(node), (("A100/1", 1),), start_s, 60.0, promised_s)


def one_after_the_other(snapshot: Any) -> Any:
    """A pass over nodes of one GPU: who waits for a node starts once all before it has ended."""
    free = {one.node_id: one.until_s for one in snapshot.running}
    promised = {}
    for task_id, stored in sorted(snapshot.reservations.items(), key=lambda item: item[1].start_s):
        start_s = max(stored.start_s, free.get(stored.node_id, 0.0))
        free[stored.node_id] = start_s + stored.duration_s
        promised[task_id] = replace(stored, start_s=start_s)
    return Planned(promised=promised)


def test_promises_that_hold_are_no_reason() -> None:
    snapshot: Any = Snapshot((booking("run", 100.0),), {tid("a"): place(150.0, 150.0), tid("b"): place(210, None)})
    assert delayed_promises(snapshot, tid("run"), 50.0, one_after_the_other) == ()
    assert delayed_promises(replace(snapshot, reservations={}), tid("run"), 9_999.0, one_after_the_other) == ()


def test_promises_that_move_are_named_in_their_order_and_by_how_long() -> None:
    snapshot: Any = Snapshot(
        (booking("run", 100.0), booking("else", 100.0, "n2")),
        {
            tid("late"): place(160.0, 170.0),
            tid("first"): place(100.0, 101.0),
            tid("free"): place(220.0, None),
            tid("other"): place(100.0, 100.0, "n2"),
        },
    )
    assert delayed_promises(snapshot, tid("run"), 30.0, one_after_the_other) == (
        PromiseDelay(tid("first"), 101.0, 130.0),
        PromiseDelay(tid("late"), 170.0, 190.0),
    )


def test_what_is_lost_either_way_is_not_blamed_on_more_time() -> None:
    snapshot: Any = Snapshot((booking("run", 100.0),), {tid("a"): place(50.0, 50.0)})
    assert delayed_promises(snapshot, tid("run"), 30.0, one_after_the_other) == ()


def test_the_refusal_names_how_many_wait_how_long_and_an_admin_may_go_over_it() -> None:
    attempt = Attempt(RUN, 1, AttemptState.RUNNING, NodeId("n1"), 1, Shape(1, 1), (), 600.0, 1, 0.0, 0.0)
    moved = [
        PromiseDelay(tid("a"), 100.0, 820.0),
        PromiseDelay(tid("b"), 100.0, 100.5),
        PromiseDelay(tid("c"), 100.0, None),
    ]
    refused = refusal(attempt, 1_800.0, limit_s=None, moved=moved, force=False)
    assert isinstance(refused, PromisesMove)
    assert refused.http_status == 409
    assert refused.message == (
        f"With 30m more for {tid('run')}, 3 tasks would start later than promised: {tid('a')} by 12m, "
        f"{tid('b')} by 1s, {tid('c')} by an unknown time. An admin can grant it anyway."
    )
    assert refusal(attempt, 1_800.0, limit_s=None, moved=moved, force=True) is None
    assert refusal(attempt, 1_800.0, limit_s=None, moved=(), force=False) is None


def test_one_attempt_is_not_given_time_without_end() -> None:
    attempt = Attempt(RUN, 1, AttemptState.RUNNING, NodeId("n1"), 1, Shape(1, 1), (), 600.0, 1, 0.0, 0.0)
    full = replace(attempt, extensions=tuple(extension.Extension(0.0, "ann", 1.0) for _ in range(200)))
    assert refusal(full, 1.0, limit_s=None, moved=(), force=True) is not None
