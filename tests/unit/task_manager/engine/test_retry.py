"""What follows the end of an attempt: how often, where, and what the last end says."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from headway.ids import NodeId
from headway.model.reasons import EndReason, EndWord
from headway.states import NodeHealth, TaskState
from task_manager.engine.events import NodeDeclaredLost
from task_manager.engine.retry import EndTask, RequeueTask, RetrySettings, after_end
from task_manager.model import Task
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import SETTINGS, a_node, a_task, a_task_manager

LOST = EndReason(EndWord.NODE_LOST, detail="n1 was silent for longer than Headway waits.")
SETTING = RetrySettings(platform_retries=2, loss_retries=3)


def until_its_end(
    reason: EndReason, settings: RetrySettings, nodes: list[str], *, engine_away: bool = False
) -> tuple[Task, EndTask, int]:
    task, runs = a_task(), 0
    while True:
        node_id = NodeId(nodes[runs % len(nodes)])
        decision = after_end(task, reason, node_id=node_id, now=0.0, engine_away=engine_away, settings=settings)
        runs += 1
        if isinstance(decision, EndTask):
            return task, decision, runs
        assert isinstance(decision, RequeueTask)
        task = decision.task


def test_losses_have_a_limit_that_the_end_tells() -> None:
    _task, end, runs = until_its_end(LOST, SETTING, ["n1", "n2"])
    assert (end.state, runs) == (TaskState.FAILED, 4)
    assert "It was lost with its machine 4 times, which is the limit (`loss_retries`)." in end.reason.sentence
    assert LOST.detail in end.reason.sentence


def test_faults_of_the_platform_have_a_limit_that_the_end_tells() -> None:
    _task, end, runs = until_its_end(EndReason(EndWord.GPU_FAILED), SETTING, ["n1"])
    assert runs == 3
    assert "Headway failed to run it 3 times, which is the limit (`platform_retries`)." in end.reason.sentence


def test_an_engine_that_was_away_at_the_start_uses_up_no_platform_retry() -> None:
    """Nothing was tried. A task that takes every engine down must end some day all the same."""
    silent = EndReason(EndWord.START_FAILED, detail="The container engine of n1 did not answer for 5m.")
    task, end, runs = until_its_end(silent, SETTING, ["n1", "n2"], engine_away=True)
    assert (task.platform_failures, task.losses, runs) == (0, 3, 4)
    assert "with its machine, or the engine there, 4 times, which is the limit (`loss_retries`)" in end.reason.sentence


def test_a_node_that_was_known_to_give_no_gpus_uses_up_no_platform_retry_and_is_left_time_to_say_so() -> None:
    decision = after_end(a_task(), EndReason(EndWord.GPU_FAILED), node_id=NodeId("n1"), now=5.0, engine_away=True)
    assert isinstance(decision, RequeueTask)
    task = decision.task
    assert (task.platform_failures, task.losses, task.user_failures, task.not_before) == (0, 1, 0, 6.0)


async def test_what_its_worker_says_of_the_engine_counts(tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock) as rig:
        await rig.nodes(a_node())
        await rig.enqueue(a_task())
        await rig.report(rig.running()[0], "FAILED", reason=EndReason(EndWord.START_FAILED), engine_away=True)
        task = rig.engine.state.tasks[a_task().id]
        assert (task.platform_failures, task.losses, task.attempt) == (0, 1, 2)


@pytest.mark.parametrize("word", [EndWord.NODE_LOST, EndWord.START_FAILED])
def test_a_limit_of_none_is_told(word: EndWord) -> None:
    _task, end, runs = until_its_end(EndReason(word), RetrySettings(platform_retries=0, loss_retries=0), ["n1"])
    assert runs == 1
    assert "It is not run again" in end.reason.sentence


def test_each_failure_counts_against_its_node() -> None:
    task, _end, _runs = until_its_end(LOST, SETTING, ["n1", "n1", "n2"])
    assert task.avoid == ("n1", "n1", "n2")


@pytest.mark.parametrize("word", list(EndWord))
def test_no_end_promises_another_try(word: EndWord) -> None:
    """The sentence of an attempt is shown for its task, too, if it was the last one."""
    sentence = EndReason(word, exit_code=1).sentence
    assert not re.search(r"run again|will be tried|try again|tried again|elsewhere", sentence), sentence


async def test_losses_are_spread_over_the_nodes(tmp_path: Path, clock: FakeClock) -> None:
    """Once all nodes had lost the task, the first one got it each time."""
    names = ["n1", "n2", "n3"]
    async with a_task_manager(tmp_path, clock, settings=replace(SETTINGS, retry=RetrySettings(loss_retries=8))) as rig:
        await rig.nodes(*(a_node(name) for name in names))
        await rig.enqueue(a_task())
        ran: list[str] = []
        while rig.running():
            node = rig.engine.state.attempts[a_task().id].node_id
            ran.append(node)
            await rig.nodes(a_node(node, health=NodeHealth.DOWN), reset=False)
            await rig.advance(40, beats=[name for name in names if name != node])
            await rig.engine.submit(NodeDeclaredLost(node, "root"))
            await rig.settle()
            await rig.nodes(a_node(node), reset=False)
            rig.workers.has.pop(f"{node}:7004", None)
            await rig.advance(70, beats=names)  # the longest pause
        assert len(ran) == 9
        assert {name: ran.count(name) for name in names} == {"n1": 3, "n2": 3, "n3": 3}
        (last,) = [event for event in await rig.events() if event.kind == "FAILED"]
        assert "It was lost with its machine 9 times" in last.reason.detail
