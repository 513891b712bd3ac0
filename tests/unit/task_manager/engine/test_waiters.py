"""Requests for GPUs whose processes are gone leave the queue, and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.frozen import replace
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import JOB, TaskManagerRig, a_node, a_task, a_task_manager, tid


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    """`t` runs on the only GPU, and a process of the machine waits for it with `mine`."""
    async with a_task_manager(tmp_path, clock) as made:
        await made.nodes(a_node("n1", gpus=1), a_node("n2", gpus=0))
        await made.enqueue(a_task(gpus=1))
        mine = a_task("mine", gpus=1)
        await made.enqueue(replace(mine, shape=replace(mine.shape, node_id="n1")), a_task("other", gpus=1))
        yield made


async def test_a_request_whose_process_is_gone_leaves_the_queue(rig: TaskManagerRig) -> None:
    """It stayed queued, and at its turn its cards waited 15 s."""
    await rig.advance(10)
    await rig.beat("n1", waiting_known_s=60)
    assert (rig.state(tid("mine")), rig.state(tid("other"))) == ("gone", "QUEUED")
    (event,) = [one for one in await rig.events() if one.task.name == "mine" and one.kind == "CANCELLED"]
    assert event.reason.detail == "The process that waited for these GPUs has ended, or was silent for too long."


async def test_one_whose_process_lives_stays(rig: TaskManagerRig) -> None:
    await rig.advance(60)
    await rig.beat("n1", waiting_known_s=60, waiting_jobs=[JOB])
    assert rig.state(tid("mine")) == "QUEUED"


async def test_a_worker_that_has_just_started_ends_nobodys_wait(rig: TaskManagerRig) -> None:
    await rig.advance(60)
    await rig.beat("n1", waiting_known_s=9.9, incarnation=2)
    await rig.beat("n1", incarnation=2)  # an older Worker says nothing of it
    assert rig.state(tid("mine")) == "QUEUED"


async def test_a_new_request_has_time_to_be_heard(rig: TaskManagerRig) -> None:
    await rig.advance(9)
    await rig.beat("n1", waiting_known_s=60)
    assert rig.state(tid("mine")) == "QUEUED"


async def test_another_machine_says_nothing_of_it(rig: TaskManagerRig) -> None:
    await rig.advance(60)
    await rig.beat("n2", waiting_known_s=60)
    assert rig.state(tid("mine")) == "QUEUED"
