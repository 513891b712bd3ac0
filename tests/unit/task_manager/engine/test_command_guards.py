"""JobManager's commands come at least once. None takes effect twice, nor on another run of the task."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from headway.ids import AttemptId
from task_manager.engine.events import CancelTask, EnqueueTask, HoldTask, ReleaseTask, TaskCommands
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import TaskManagerRig, a_node, a_task, a_task_manager, exited, tid

FIRST = AttemptId(tid("t"), 1)


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock) as made:
        yield made


async def test_a_hold_that_comes_again_after_its_release_holds_nothing(rig: TaskManagerRig) -> None:
    await rig.enqueue(a_task())
    hold, release = HoldTask(tid("t"), 1, 10), ReleaseTask(tid("t"), 1, 11, 0.0)
    for command in (hold, hold, release, hold, release):
        await rig.engine.submit(TaskCommands((command,)))
    assert not rig.engine.state.tasks[tid("t")].held
    assert rig.engine.state.tasks[tid("t")].command_seq == 11


async def test_a_command_with_the_number_of_the_last_one_is_that_one(rig: TaskManagerRig) -> None:
    await rig.enqueue(a_task())
    await rig.engine.submit(TaskCommands((ReleaseTask(tid("t"), 1, 10, 0.0),)))
    await rig.engine.submit(TaskCommands((HoldTask(tid("t"), 1, 10),)))
    assert not rig.engine.state.tasks[tid("t")].held


async def test_a_late_cancel_of_the_first_run_does_not_end_a_manual_retry(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task())
    await rig.end(FIRST, exited(1))
    await rig.enqueue(a_task(generation=2))
    await rig.cancel(tid("t"), generation=1)
    assert rig.running() == [AttemptId(tid("t"), 2)]
    assert rig.engine.state.tasks[tid("t")].cancel_by is None


async def test_a_task_that_lives_is_not_begun_anew_beside_itself(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task())
    again = EnqueueTask(replace(a_task(generation=2), command_seq=50), b"")
    await rig.engine.submit(TaskCommands((again,)))
    await rig.settle()
    assert rig.running() == [FIRST]
    assert rig.engine.state.tasks[tid("t")].generation == 1


async def test_a_cancel_that_is_delivered_twice_is_told_once(rig: TaskManagerRig) -> None:
    await rig.enqueue(a_task())
    cancel = TaskCommands((CancelTask(tid("t"), 1, 9, "ann"),))
    await rig.engine.submit(cancel)
    await rig.engine.submit(cancel)
    assert [kind for _, kind, _, _ in await rig.told()] == ["CANCELLED"]
