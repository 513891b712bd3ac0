"""From an order to its end: queue, placement, launch, reports, events for JobManager."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headway.errors import StoreFull
from headway.ids import AttemptId, NodeId
from headway.model.reasons import EndReason, EndWord
from headway.states import Admission, NodeHealth
from headway.store import Database
from task_manager.engine.events import (
    AttemptReport,
    AttemptReports,
    CancelTask,
    EnqueueTask,
    HoldTask,
    NodeDeclaredLost,
    ReleaseTask,
    TaskCommands,
)
from task_manager.model import Task
from task_manager.order.policy import AgingSjf, View
from task_manager.store import queue_store
from tests.support.clock import FakeClock
from tests.support.waiting import eventually
from tests.unit.task_manager.rig import GiB, TaskManagerRig, a_node, a_task, a_task_manager, blocked, exited, tid


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock) as made:
        yield made


async def test_a_task_is_placed_launched_and_its_end_is_told(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node(gpus=1))
    await rig.enqueue(a_task("train", gpus=1))
    attempt = AttemptId(tid("train"), 1)
    assert rig.workers.launched == [attempt]
    launch = rig.workers.has["n1:7004"][attempt]
    assert launch.attempt.gpu_uuids == ("GPU-n1-0",)
    await rig.report(attempt, "PROCESS_STARTED", process_started_at=rig.clock.now())
    await rig.end(attempt)
    assert await rig.told() == [("train", "ATTEMPT_STARTED", 1, ""), ("train", "SUCCEEDED", 1, "exited")]
    assert [e.seq for e in await rig.events()] == [1, 2]
    assert not rig.engine.state.tasks
    stored = await rig.db.read(lambda conn: queue_store.load_attempt(conn, tid("train"), 1))
    assert stored is not None
    assert (stored.state.value, stored.reason) == ("SUCCEEDED", exited(0))


async def test_an_order_delivered_twice_counts_once(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    order = TaskCommands((EnqueueTask(replace(a_task(), command_seq=5), b""),))
    await rig.engine.submit(order)
    await rig.engine.submit(order)
    await rig.settle()
    await rig.end(AttemptId(tid("t"), 1))
    await rig.engine.submit(order)
    await rig.settle()
    assert len(rig.workers.launched) == 1
    assert [kind for _, kind, _, _ in await rig.told()] == ["ATTEMPT_STARTED", "SUCCEEDED"]


async def test_a_manual_retry_goes_on_counting_attempts_and_events(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    await rig.enqueue(a_task(retries=1))
    for number in (1, 2):
        await rig.end(AttemptId(tid("t"), number), exited(3))
    assert rig.state(tid("t")) == "gone"
    await rig.enqueue(a_task(retries=1, generation=2))
    for number in (3, 4):
        await rig.end(AttemptId(tid("t"), number), exited(3))
    events = await rig.events()
    assert [e.seq for e in events] == list(range(1, 9))
    assert [e.generation for e in events] == [1] * 4 + [2] * 4
    assert events[-1].kind == "FAILED"


@pytest.mark.parametrize(("retries", "want_runs"), [(0, 1), (1, 2), (3, 4)])
async def test_retries_n_means_n_plus_one_runs(rig: TaskManagerRig, retries: int, want_runs: int) -> None:
    await rig.nodes(a_node())
    await rig.enqueue(a_task(retries=retries))
    for number in range(1, want_runs + 1):
        assert rig.engine.state.attempts[tid("t")].of_runs == want_runs
        await rig.end(AttemptId(tid("t"), number), exited(1))
    assert rig.state(tid("t")) == "gone"
    assert len(rig.workers.launched) == want_runs


async def test_faults_of_the_platform_pause_longer_each_time_and_spare_the_users_retries(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    await rig.enqueue(a_task(retries=1))
    fault = EndReason(EndWord.START_FAILED)
    starts = []
    for number in (1, 2, 3, 4):
        while tid("t") not in rig.engine.state.attempts:
            await rig.advance(1)
        starts.append(rig.clock.monotonic())
        if number < 4:
            await rig.end(AttemptId(tid("t"), number), fault)
    gaps = [round(b - a) for a, b in pairwise(starts)]
    assert gaps == [5, 10, 20]
    await rig.end(AttemptId(tid("t"), 4), exited(1))
    await rig.end(AttemptId(tid("t"), 5), exited(0))
    assert (await rig.told())[-1] == ("t", "SUCCEEDED", 5, "exited")


async def test_a_platform_retry_prefers_another_machine(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"), a_node("n2"))
    await rig.enqueue(a_task())
    await rig.end(AttemptId(tid("t"), 1), EndReason(EndWord.START_FAILED))
    await rig.advance(6)
    assert rig.engine.state.attempts[tid("t")].node_id == "n2"


async def test_a_pause_is_not_stretched_by_a_clock_that_is_set_back(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    await rig.enqueue(a_task())
    await rig.end(AttemptId(tid("t"), 1), EndReason(EndWord.START_FAILED))
    rig.clock.step_wall(-3600)
    await rig.advance(6)
    assert AttemptId(tid("t"), 2) in rig.workers.launched


@pytest.mark.parametrize("step_s", [-10_800.0, 10_800.0])
async def test_a_pause_is_told_by_the_clock_that_ends_it(rig: TaskManagerRig, step_s: float) -> None:
    """The wall clock alone told 10819 s of a pause of 19, or nothing."""

    async def left() -> list[str]:
        return [r.sentence[:26] for r in (await rig.queries.explain(tid("t"))).reasons if r.word == "retry_pause"]

    await rig.nodes(a_node())
    await rig.enqueue(a_task())
    await rig.end(AttemptId(tid("t"), 1), EndReason(EndWord.START_FAILED))
    rig.clock.step_wall(step_s)
    assert await left() == ["It is tried again in 5 s. "]
    await rig.advance(2)
    assert await left() == ["It is tried again in 3 s. "]
    await rig.advance(4)
    assert AttemptId(tid("t"), 2) in rig.workers.launched
    assert await left() == []


@pytest.mark.parametrize("step_s", [-10_800.0, 10_800.0])
async def test_a_pause_is_neither_stretched_nor_cut_by_a_hold_after_the_clock_was_set(
    rig: TaskManagerRig, step_s: float
) -> None:
    await rig.nodes(a_node())
    await rig.enqueue(a_task())
    await rig.end(AttemptId(tid("t"), 1), EndReason(EndWord.START_FAILED))
    rig.clock.step_wall(step_s)
    for command in (HoldTask(tid("t"), 1, 2), ReleaseTask(tid("t"), 1, 3, rig.clock.now())):
        await rig.engine.submit(TaskCommands((command,)))
    await rig.settle()
    assert rig.running() == []
    await rig.advance(6)
    assert rig.running() == [AttemptId(tid("t"), 2)]


async def test_a_pause_is_not_stretched_by_hours_when_the_clock_was_set_back_before_a_start(
    rig: TaskManagerRig,
) -> None:
    """Found by the interleavings: a task waited for an hour after a start, since only the wall clock told its pause."""
    await rig.nodes(a_node())
    await rig.enqueue(a_task())
    await rig.end(AttemptId(tid("t"), 1), EndReason(EndWord.START_FAILED))
    rig.clock.step_wall(-7_200)
    await rig.restart()
    await rig.nodes(a_node())
    await rig.advance(61, beats=["n1"])
    assert AttemptId(tid("t"), 2) in rig.workers.launched


async def test_duplicate_late_and_foreign_reports_change_nothing(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    await rig.enqueue(a_task(retries=1))
    first, second = AttemptId(tid("t"), 1), AttemptId(tid("t"), 2)
    assert await rig.end(first, exited(1)) == []
    assert await rig.end(first, exited(1)) == []  # its end counts: told again, never discarded
    assert await rig.report(first, "PROCESS_STARTED") == []
    assert await rig.report(second, "PROCESS_STARTED", node="n2") == [second]
    assert await rig.report(AttemptId(tid("t"), 9), "PROCESS_STARTED") == [AttemptId(tid("t"), 9)]
    assert await rig.report(AttemptId(tid("x"), 1), "PROCESS_STARTED") == [AttemptId(tid("x"), 1)]
    assert rig.running() == [second]
    await rig.report(second, "PROCESS_STARTED")
    await rig.report(second, "CONTAINER_STARTING")
    assert rig.engine.state.attempts[tid("t")].state.value == "RUNNING"


async def test_an_end_may_come_before_the_answer_to_its_launch(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    rig.workers.gate = asyncio.Event()
    await rig.engine.submit(TaskCommands((EnqueueTask(a_task(), b""),)))
    await rig.clock.settle()
    await rig.engine.submit(AttemptReports((_end_report(rig, AttemptId(tid("t"), 1)),)))
    rig.workers.gate.set()
    await rig.settle()
    assert (await rig.told())[-1] == ("t", "SUCCEEDED", 1, "exited")
    assert rig.running() == []


def _end_report(rig: TaskManagerRig, attempt: AttemptId) -> AttemptReport:
    return AttemptReport(attempt, NodeId("n1"), "SUCCEEDED", rig.clock.now(), exited(0))


async def test_cancel_of_a_waiting_task_ends_it_at_once(rig: TaskManagerRig) -> None:
    await rig.enqueue(a_task())
    await rig.cancel(tid("t"))
    await rig.cancel(tid("t"))
    assert await rig.told() == [("t", "CANCELLED", 0, "cancelled")]


async def test_cancel_of_a_running_task_is_ordered_until_its_end_is_reported(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    await rig.enqueue(a_task(retries=3))
    attempt = AttemptId(tid("t"), 1)
    rig.workers.mute.add("n1:7004")
    await rig.cancel(tid("t"))
    assert [order.word for order in rig.workers.stopped] == ["cancelled"]
    assert rig.state(tid("t")) == "STOPPING"
    for _ in range(2):
        assert [order.attempt for order in (await rig.beat()).stop] == [attempt]
    await rig.end(attempt, EndReason(EndWord.CANCELLED, signal=15))
    assert (await rig.beat()).stop == ()
    assert (await rig.told())[-1] == ("t", "CANCELLED", 1, "cancelled")


async def test_a_task_that_ends_well_while_it_is_cancelled_has_succeeded(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    await rig.enqueue(a_task())
    await rig.cancel(tid("t"))
    await rig.end(AttemptId(tid("t"), 1))
    assert (await rig.told())[-1][1] == "SUCCEEDED"


async def test_a_failure_after_a_cancel_is_never_retried(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    await rig.enqueue(a_task(retries=3))
    await rig.cancel(tid("t"))
    await rig.end(AttemptId(tid("t"), 1), EndReason(EndWord.START_FAILED))
    assert (await rig.told())[-1][1] == "CANCELLED"
    assert rig.running() == []


async def test_cancel_while_the_launch_is_under_way(rig: TaskManagerRig) -> None:
    """The stop overtook the launch, which leaked a container: now the late launch is refused."""
    await rig.nodes(a_node())
    rig.workers.gate = asyncio.Event()
    await rig.engine.submit(TaskCommands((EnqueueTask(a_task(), b""),)))
    await eventually(lambda: rig.workers.at_gate == {AttemptId(tid("t"), 1)})
    await rig.engine.submit(TaskCommands((CancelTask(tid("t"), 1, 99, "ann"),)))
    await eventually(lambda: rig.workers.remembered_as_stopped == {AttemptId(tid("t"), 1)})
    rig.workers.gate.set()
    await rig.settle()
    assert rig.workers.launched == []
    assert (await rig.told())[-1][1] == "CANCELLED"


async def test_cancel_of_a_launch_without_an_answer_settles_without_a_heartbeat(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    rig.workers.away.add("n1:7004")
    await rig.enqueue(a_task())
    await rig.cancel(tid("t"))
    assert rig.state(tid("t")) == "STOPPING"
    rig.workers.away.clear()
    await rig.advance(10)
    assert (await rig.told())[-1][1] == "CANCELLED"
    assert rig.workers.launched == []


async def test_a_launch_without_an_answer_is_sent_again_the_same(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    rig.workers.mute.add("n1:7004")
    await rig.enqueue(a_task())
    for _ in range(4):
        await rig.advance(5)
    rig.workers.mute.clear()
    await rig.advance(10)
    assert rig.workers.launched == [AttemptId(tid("t"), 1)]
    assert rig.engine.state.attempts[tid("t")].answered_at is not None


async def test_a_refused_launch_uses_no_retry_and_tries_another_machine(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"), a_node("n2"))
    rig.workers.refuse["n1:7004"] = "launch-refused"
    rig.workers.again_later = True
    await rig.enqueue(a_task("a"), a_task("b"))
    assert [a.node_id for a in rig.engine.state.attempts.values()] == ["n2", "n2"]
    assert {a.number for a in rig.running()} == {2}
    # The node is left alone until its status changes.
    await rig.enqueue(a_task("c"))
    assert rig.engine.state.attempts[tid("c")].node_id == "n2"
    rig.workers.refuse.clear()
    await rig.nodes(a_node("n1", cpu=900), reset=False)
    await rig.enqueue(a_task("d"))
    assert rig.engine.state.attempts[tid("d")].node_id == "n1"


async def test_refusals_of_the_only_machine_are_asked_again_with_growing_pauses(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    rig.workers.refuse["n1:7004"] = "disk-full"
    await rig.enqueue(a_task())
    await rig.advance(30)
    tries = rig.engine.state.tasks[tid("t")].attempt
    assert 4 <= tries <= 7
    rig.workers.refuse.clear()
    await rig.advance(60, beats=["n1"])
    assert len(rig.workers.launched) == 1
    assert rig.engine.state.tasks[tid("t")].platform_failures == 0


async def test_hold_and_release(rig: TaskManagerRig) -> None:
    await rig.enqueue(a_task())
    await rig.engine.submit(TaskCommands((HoldTask(tid("t"), 1, 50),)))
    await rig.nodes(a_node())
    assert rig.running() == []
    await rig.engine.submit(TaskCommands((ReleaseTask(tid("t"), 1, 51, 123.0),)))
    await rig.settle()
    # Delivered again, late: what was done is not undone.
    await rig.engine.submit(TaskCommands((HoldTask(tid("t"), 1, 50),)))
    await rig.settle()
    assert rig.engine.state.tasks[tid("t")].submitted_at == 123.0
    assert not rig.engine.state.tasks[tid("t")].held
    assert len(rig.running()) == 1


async def test_a_start_that_takes_too_long_is_given_up(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    await rig.enqueue(a_task())
    attempt = AttemptId(tid("t"), 1)
    await rig.report(attempt, "PULL_STARTED")
    for _ in range(181):
        rig.clock.tick(10)
        await rig.beat()
    await rig.advance(1)
    assert rig.workers.stopped[-1].word == "platform"
    await rig.end(attempt, EndReason(EndWord.CANCELLED))
    assert (await rig.told())[-1] == ("t", "REQUEUED", 1, "start_failed")


async def test_after_a_restart_the_queue_has_the_same_order_and_ages(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node(cpu=100))
    tasks = [a_task(f"t{i}", at=1000.0 + 7 * (i % 5), timeout=50.0 + 13 * (i % 7)) for i in range(20)]
    await rig.enqueue(a_task("first", at=0.0, timeout=1))
    await rig.enqueue(*tasks)
    before = rig.engine.state.queue.page(0, 100)
    assert len(before) == 20
    await rig.restart()
    assert rig.engine.state.queue.page(0, 100) == before
    assert rig.running() == [AttemptId(tid("first"), 1)]
    await rig.end(AttemptId(tid("first"), 1))
    kinds = [e for e in await rig.told() if e[0] == "first"]
    assert [kind for _, kind, _, _ in kinds] == ["ATTEMPT_STARTED", "SUCCEEDED"]


async def test_after_a_restart_without_resource_manager_only_heard_nodes_get_work(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"), a_node("n2"))
    await rig.restart()
    await rig.enqueue(a_task())
    assert rig.running() == []
    await rig.beat("n2")
    assert [a.node_id for a in rig.engine.state.attempts.values()] == ["n2"]


async def test_a_full_disk_stores_nothing_and_the_same_order_works_later(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    real = Database.write

    async def full(self: Database, work: object) -> None:
        raise StoreFull

    rig.db.write = full.__get__(rig.db)  # type: ignore[method-assign]
    with pytest.raises(StoreFull):
        await rig.enqueue(a_task())
    assert not rig.engine.state.tasks
    assert not rig.engine.state.attempts
    rig.db.write = real.__get__(rig.db)  # type: ignore[method-assign]
    await rig.enqueue(a_task())
    assert rig.workers.launched == [AttemptId(tid("t"), 1)]


async def test_ten_one_gpu_tasks_on_two_cards_never_run_more_than_two_at_once(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node(gpus=2, cpu=2000))
    await rig.enqueue(*(a_task(f"t{i}", gpus=1) for i in range(10)))
    done = 0
    while rig.running():
        running = rig.engine.state.attempts.values()
        cards = [uuid for a in running for uuid in a.gpu_uuids]
        assert len(cards) == len(set(cards)) <= 2
        await rig.end(rig.running()[0])
        done += 1
    assert done == 10


async def test_a_node_that_is_declared_lost_gives_its_tasks_back(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1", gpus=1), a_node("n2"))
    await rig.enqueue(a_task(gpus=1))
    await rig.nodes(a_node("n1", gpus=1, health=NodeHealth.DOWN), a_node("n2", gpus=1))
    assert await rig.engine.submit(NodeDeclaredLost(a_node("n1").id, "root")) == 1
    await rig.settle()
    first, second = AttemptId(tid("t"), 1), AttemptId(tid("t"), 2)
    assert (await rig.told())[-2:] == [("t", "REQUEUED", 1, "node_lost"), ("t", "ATTEMPT_STARTED", 2, "")]
    # It was alive after all: what it still has of the old attempt is discarded, its end does not count.
    assert (await rig.beat("n1", live=(first,))).discard == (first,)
    assert await rig.end(first) == [first]
    assert rig.running() == [second]
    assert rig.only_attempt(tid("t")) == second


async def a_lost_attempt(rig: TaskManagerRig, **fields: Any) -> AttemptId:
    """Its task waits, since no other node has a GPU."""
    await rig.nodes(a_node("n1", gpus=1), a_node("n2"))
    await rig.enqueue(a_task(gpus=1, **fields))
    await rig.nodes(a_node("n1", gpus=1, health=NodeHealth.DOWN), a_node("n2"))
    assert await rig.engine.submit(NodeDeclaredLost(a_node("n1").id, "root")) == 1
    await rig.settle()
    assert rig.state(tid("t")) == "QUEUED"
    return AttemptId(tid("t"), 1)


async def test_a_late_good_end_counts_while_its_task_still_waits(rig: TaskManagerRig) -> None:
    first = await a_lost_attempt(rig)
    assert (await rig.beat("n1", live=(first,))).discard == (first,)
    assert await rig.end(first) == []
    assert (await rig.told())[-1] == ("t", "SUCCEEDED", 1, "exited")
    assert rig.state(tid("t")) == "gone"
    (part,) = [part async for part in rig.queries.attempts(tid("t").job_id, [])]
    (view,) = part.attempts
    assert (view.state, view.reason.word) == ("SUCCEEDED", "exited")
    assert "given up as lost" in view.warnings[0]
    # It is told again, and listed until the answer arrives.
    assert await rig.end(first) == []
    assert (await rig.beat("n1", live=(first,))).discard == ()
    await rig.restart()
    assert rig.state(tid("t")) == "gone"
    assert await rig.end(first) == []


async def test_a_node_stays_closed_until_it_no_longer_lists_what_was_lost(rig: TaskManagerRig) -> None:
    first = await a_lost_attempt(rig)
    await rig.nodes(a_node("n1", gpus=1), a_node("n2"))
    await rig.beat("n1", live=(first,))
    assert "still has to end" in rig.engine.state.unconfirmed[a_node("n1").id]
    assert rig.running() == []
    await rig.beat("n1", live=())
    assert rig.running() == [AttemptId(tid("t"), 2)]


@pytest.mark.parametrize("reason", [exited(1), EndReason(EndWord.TIMED_OUT), None])
async def test_a_late_end_that_is_not_good_does_not_count(rig: TaskManagerRig, reason: EndReason | None) -> None:
    first = await a_lost_attempt(rig)
    kind = "SUCCEEDED" if reason is None else reason.attempt_state.value
    assert await rig.report(first, kind, reason=reason) == [first]
    assert rig.state(tid("t")) == "QUEUED"


async def test_a_late_good_end_of_another_node_or_attempt_does_not_count(rig: TaskManagerRig) -> None:
    first = await a_lost_attempt(rig)
    assert await rig.end(first, node="n2") == [first]
    assert await rig.end(AttemptId(tid("t"), 2)) == [AttemptId(tid("t"), 2)]
    assert rig.state(tid("t")) == "QUEUED"


async def test_a_late_good_end_of_a_cancelled_or_retried_task_does_not_count(rig: TaskManagerRig) -> None:
    first = await a_lost_attempt(rig)
    await rig.cancel(tid("t"))
    assert await rig.end(first) == [first]
    await rig.enqueue(a_task(gpus=1, generation=2))
    assert rig.state(tid("t")) == "QUEUED"
    assert await rig.end(first) == [first]
    assert rig.state(tid("t")) == "QUEUED"


async def test_nodes_that_may_not_take_work_get_none(rig: TaskManagerRig) -> None:
    await rig.nodes(
        a_node("n1", health=NodeHealth.SUSPECT),
        a_node("n2", admission=Admission.CORDONED),
        a_node("n3", conditions=(blocked("disk_full", "only 1 GiB is left"),)),
    )
    await rig.enqueue(a_task())
    assert rig.running() == []
    entry = await rig.queries.explain(tid("t"))
    words = [reason.word for reason in entry.reasons]
    assert words == ["node_drained", "disk_full"]
    assert "only 1 GiB is left" in entry.reasons[1].sentence
    await rig.nodes(a_node("n1"), reset=False)
    assert len(rig.running()) == 1


async def test_watchers_see_an_attempt_after_its_commit(rig: TaskManagerRig) -> None:
    seen: list[str] = []

    async def watch() -> None:
        async for attempts, _queue in rig.hub.watch():
            seen.extend(a.state.value for a in attempts)

    watcher = asyncio.create_task(watch())
    await rig.clock.settle()
    await rig.nodes(a_node())
    await rig.enqueue(a_task())
    await rig.end(AttemptId(tid("t"), 1))
    await rig.settle()
    watcher.cancel()
    assert seen[0] == "PLACED"
    assert seen[-1] == "SUCCEEDED"


async def test_a_watcher_gets_one_change_at_once_and_of_many_the_last(rig: TaskManagerRig) -> None:
    seen: list[list[str]] = []

    async def watch() -> None:
        async for attempts, _queue in rig.hub.watch(every_s=0.1):
            seen.append([a.state.value for a in attempts])

    watcher = asyncio.create_task(watch())
    await rig.clock.settle()
    await rig.nodes(a_node())
    await rig.clock.advance(0.1)
    seen.clear()
    await rig.enqueue(a_task())
    await rig.clock.settle()
    assert seen == [["PLACED"]]
    await rig.end(AttemptId(tid("t"), 1))
    await rig.clock.settle()
    assert seen == [["PLACED"]]
    await rig.clock.advance(0.1)
    watcher.cancel()
    assert seen == [["PLACED"], ["SUCCEEDED"]]


async def test_lists_and_places_of_attempts(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node(memory=4 * GiB))
    await rig.enqueue(*(a_task(f"t{i}", memory=3 * GiB, at=float(i)) for i in range(3)))
    located = await rig.queries.locate(tid("t0"), 0)
    assert (located.worker_address, located.attempt.attempt.number) == ("n1:7004", 1)
    await rig.end(AttemptId(tid("t0"), 1))
    parts = [part async for part in rig.queries.attempts(tid("t").job_id, "")]
    assert [(a.attempt.task.name, a.state) for part in parts for a in part.attempts] == [
        ("t0", "SUCCEEDED"),
        ("t1", "PLACED"),
    ]


async def test_a_policy_that_holds_up_everybody_is_told(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Slow(AgingSjf):
        def key(self, task: Task, now: float, view: View) -> float:
            time.sleep(1.1)
            return super().key(task, now, view)

    async with a_task_manager(tmp_path, clock, order=Slow()) as rig:
        await rig.enqueue(a_task("train", gpus=1))
        assert "turn.slow" in [record.getMessage() for record in caplog.records]
