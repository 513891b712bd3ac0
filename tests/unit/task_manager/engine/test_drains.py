"""Machines that are emptied by a deadline, as the owners of what runs there see it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.model.reasons import EndReason, EndWord
from headway.states import Admission
from task_manager.engine import drains
from task_manager.engine.events import StopOrder, TimePassed
from task_manager.model import Node
from tests.support.clock import FakeClock

from ..rig import TaskManagerRig, a_node, a_task, a_task_manager, exited, tid


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock) as rig:
        yield rig


def draining(until: float, note: str = "new disk", name: str = "n1") -> Node:
    return a_node(name, admission=Admission.DRAINING, drain_until_at=until, drain_note=note)


async def pass_time(rig: TaskManagerRig, seconds: float) -> None:
    for _ in range(int(seconds // 10)):
        rig.clock.tick(10)
        for name in ("n1", "n2"):
            await rig.beat(name)
        await rig.engine.submit(TimePassed())
    await rig.settle()


async def one_runs_on_n1(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task(timeout=7200.0))
    (attempt,) = rig.running()
    await rig.report(attempt, "PROCESS_STARTED", process_started_at=rig.clock.now())
    await rig.nodes(a_node("n1"), a_node("n2"))


async def notices(rig: TaskManagerRig) -> list[str]:
    return [event.notice for event in await rig.events() if event.notice]


async def warnings(rig: TaskManagerRig) -> list[str]:
    return list((await rig.queries.locate(tid("t"), 1)).attempt.warnings)


async def test_the_owner_is_told_at_once_and_the_task_runs_elsewhere_after_the_deadline(rig: TaskManagerRig) -> None:
    await one_runs_on_n1(rig)
    (attempt,) = rig.running()
    until = rig.clock.now() + 600
    await rig.nodes(draining(until), a_node("n2"))
    (told,) = await notices(rig)
    assert told.startswith("The machine n1 is emptied at ")
    assert "(new disk)" in told
    assert await warnings(rig) == [told]
    await pass_time(rig, 590)
    assert rig.workers.stopped == []
    await pass_time(rig, 20)
    assert StopOrder(attempt, "drained") in rig.workers.stopped
    await rig.end(attempt, EndReason(EndWord.DRAINED))
    assert [kind for _, kind, _, _ in await rig.told()][-2:] == ["REQUEUED", "ATTEMPT_STARTED"]
    (again,) = rig.engine.state.attempts.values()
    assert (again.node_id, again.id.number) == ("n2", 2)
    task = rig.engine.state.tasks[tid("t")]
    assert (task.losses, task.platform_failures, task.user_failures, task.refusals) == (0, 0, 0, 0)
    ended = (await rig.queries.locate(tid("t"), 1)).attempt
    assert (ended.reason.word, list(ended.warnings)) == ("drained", [])
    assert "n1 was emptied (new disk)" in ended.sentence


async def test_however_often_it_is_drained_it_loses_no_retry(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"), a_node("n2"))
    await rig.enqueue(a_task(timeout=7200.0))
    for _ in range(15):
        (attempt,) = rig.engine.state.attempts.values()
        other = "n2" if attempt.node_id == "n1" else "n1"
        node = str(attempt.node_id)
        await rig.nodes(draining(rig.clock.now() + 10, name=node), a_node(other))
        rig.clock.tick(11)
        await rig.beat("n1")
        await rig.beat("n2")
        await rig.engine.submit(TimePassed())
        await rig.end(attempt.id, EndReason(EndWord.DRAINED), node)
    assert rig.state(tid("t")) == "RUNNING"


async def test_without_a_deadline_nothing_is_stopped_and_nobody_is_warned(rig: TaskManagerRig) -> None:
    await one_runs_on_n1(rig)
    await rig.nodes(draining(0.0, note=""), a_node("n2"))
    await pass_time(rig, 3600)
    assert (rig.workers.stopped, await notices(rig), await warnings(rig)) == ([], [], [])


async def test_a_drain_that_is_taken_back_takes_its_warning_back(rig: TaskManagerRig) -> None:
    await one_runs_on_n1(rig)
    await rig.nodes(draining(rig.clock.now() + 600), a_node("n2"))
    await rig.nodes(a_node("n1"), a_node("n2"))
    assert (await notices(rig))[-1] == "The machine n1 is not emptied any more. The task may go on."
    assert await warnings(rig) == []
    await pass_time(rig, 700)
    assert rig.workers.stopped == []


async def test_a_restart_of_the_scheduler_keeps_the_deadline_and_tells_nobody_twice(rig: TaskManagerRig) -> None:
    await one_runs_on_n1(rig)
    until = rig.clock.now() + 600
    await rig.nodes(draining(until), a_node("n2"))
    await rig.restart()
    await rig.nodes(draining(until), a_node("n2"))
    assert len(await notices(rig)) == 1
    await pass_time(rig, 580)
    assert rig.workers.stopped == []
    await pass_time(rig, 30)
    assert [order.word for order in rig.workers.stopped][:1] == ["drained"]


async def test_nobody_who_sets_the_wall_clock_moves_the_deadline(rig: TaskManagerRig) -> None:
    await one_runs_on_n1(rig)
    await rig.nodes(draining(rig.clock.now() + 600), a_node("n2"))
    await rig.engine.submit(TimePassed())
    rig.clock.step_wall(7200)
    await pass_time(rig, 580)
    assert rig.workers.stopped == []


async def test_what_ends_by_itself_meanwhile_counts_as_it_ended(rig: TaskManagerRig) -> None:
    await one_runs_on_n1(rig)
    (attempt,) = rig.running()
    await rig.nodes(draining(rig.clock.now() + 10), a_node("n2"))
    await pass_time(rig, 20)
    await rig.end(attempt, exited(0))
    assert (await rig.told())[-1] == ("t", "SUCCEEDED", 1, "exited")


async def test_a_cancel_while_it_is_stopped_wins(rig: TaskManagerRig) -> None:
    await one_runs_on_n1(rig)
    (attempt,) = rig.running()
    await rig.nodes(draining(rig.clock.now() + 10), a_node("n2"))
    await pass_time(rig, 20)
    await rig.cancel(tid("t"))
    await rig.end(attempt, EndReason(EndWord.DRAINED))
    assert (await rig.told())[-1][1] == "CANCELLED"


def test_an_older_worker_that_does_not_know_the_word_is_understood() -> None:
    reason = drains.end_reason(EndReason(EndWord.PLATFORM_ERROR, 143), a_node("n1"), a_node("n1").id)
    assert (reason.word, reason.exit_code) == (EndWord.DRAINED, 143)
    timed_out = EndReason(EndWord.TIMED_OUT)
    assert drains.end_reason(timed_out, None, a_node("n1").id) is timed_out
