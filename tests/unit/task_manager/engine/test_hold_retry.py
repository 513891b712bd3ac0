"""What follows the end of a person's own process that held GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.ids import NodeId
from headway.model.reasons import EndReason, EndWord
from task_manager.engine.retry import EndTask, RequeueTask, after_end, after_refusal
from tests.unit.task_manager.rig import a_task

NODE = NodeId("n1")


@pytest.mark.parametrize("word", [EndWord.NODE_LOST, EndWord.PLATFORM_ERROR, EndWord.KILLED_OUTSIDE, EndWord.EXITED])
def test_it_is_not_run_again(word: EndWord):
    task = a_task("t", gpus=1)
    task = replace(task, retries=3, shape=replace(task.shape, node_id=NODE))
    assert isinstance(after_end(task, EndReason(word, 1), node_id=NODE, now=0.0), EndTask)


def test_a_refused_launch_costs_nothing():
    task = a_task("t", gpus=1)
    task = replace(task, shape=replace(task.shape, node_id=NODE))
    assert isinstance(after_refusal(task, node_id=NODE, now=0.0, others=False), RequeueTask)
