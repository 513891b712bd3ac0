"""No GPU is given out beyond what it has, and all rest in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.ids import AttemptId
from task_manager.engine import pass_input
from task_manager.engine.state import DoubleBooked
from task_manager.model import Node, Task
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import GiB, TaskManagerRig, a_node, a_task, a_task_manager, gpus_of, tid

FIRST = AttemptId(tid("t"), 1)


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock) as made:
        yield made


async def test_a_card_of_another_attempt_is_refused_before_it_reaches_the_disk(rig: TaskManagerRig) -> None:
    """No ordinary path leads here, so nothing failed when the fence was off."""
    await rig.nodes(a_node("n1", gpus=2))
    await rig.enqueue(a_task(gpus=1))
    state = rig.engine.state
    first = state.attempts[tid("t")]
    with pytest.raises(DoubleBooked):
        state.put_attempt(replace(first, id=AttemptId(tid("other"), 1)))
    assert list(state.attempts) == [tid("t")]


async def test_a_card_that_is_booked_is_offered_to_nobody(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1", gpus=1))
    await rig.enqueue(a_task(gpus=1))
    await rig.enqueue(a_task("other", gpus=1, at=1.0))  # a pass of its own
    assert rig.running() == [FIRST]
    assert rig.state(tid("other")) == "QUEUED"


async def test_tasks_one_after_another_take_the_cards_in_turn(rig: TaskManagerRig) -> None:
    """One broken card got every task that failed at once, and so all of them failed."""
    await rig.nodes(a_node("n1", gpus=3))
    used = []
    for number in range(6):
        name = f"t{number}"
        await rig.enqueue(a_task(name, gpus=1))
        used.append(rig.engine.state.attempts[tid(name)].gpu_uuids)
        await rig.end(AttemptId(tid(name), 1))
    cards = [("GPU-n1-0",), ("GPU-n1-1",), ("GPU-n1-2",)]
    assert used == cards + cards


def a_share(name: str, share: int, **more: Any) -> Task:
    task = a_task(name, retries=1, **more)
    return replace(task, shape=replace(task.shape, gpu_share_bytes=share))


def a_sharing_node(memory: int = 16 * GiB) -> Node:
    shared, whole = gpus_of("n1", 2, memory=memory)
    return a_node("n1", gpus=(replace(shared, shared=True), whole))


async def test_a_share_beyond_its_card_is_refused_before_it_reaches_the_disk(rig: TaskManagerRig) -> None:
    await rig.nodes(a_sharing_node())
    await rig.enqueue(a_share("a", 6 * GiB))
    await rig.enqueue(a_share("b", 10 * GiB))
    state = rig.engine.state
    first = state.attempts[tid("a")]
    assert first.gpu_uuids == state.attempts[tid("b")].gpu_uuids == ("GPU-n1-0",)
    assert first.gpu_fraction == 6 / 16
    with pytest.raises(DoubleBooked, match="no room"):
        state.put_attempt(replace(first, id=AttemptId(tid("other"), 1)))
    with pytest.raises(DoubleBooked, match="is shared by"):
        state.put_attempt(replace(first, id=AttemptId(tid("other"), 1), shape=a_task(gpus=1).shape))
    assert sorted(state.attempts) == [tid("a"), tid("b")]
    assert not state.can_book(first.node_id, first.gpu_uuids, first.shape)
    await rig.end(AttemptId(tid("b"), 1))
    assert state.can_book(first.node_id, first.gpu_uuids, first.shape)


async def test_whoever_has_a_card_in_the_other_way_is_waited_for(rig: TaskManagerRig) -> None:
    """An admin begins to share a card on which a whole task runs, and the other way round."""
    node = a_sharing_node()
    await rig.nodes(replace(node, gpus=(replace(node.gpus[0], shared=False),)))
    await rig.enqueue(a_task("whole", gpus=1))
    await rig.nodes(replace(node, gpus=node.gpus[:1], incarnation=2))
    await rig.enqueue(a_share("a", GiB))
    await rig.enqueue(a_share("b", GiB))
    assert rig.state(tid("a")) == "QUEUED"
    await rig.end(AttemptId(tid("whole"), 1))
    assert (rig.state(tid("a")), rig.state(tid("b"))) == ("RUNNING", "RUNNING")
    await rig.nodes(replace(node, gpus=(replace(node.gpus[0], shared=False),), incarnation=3))
    await rig.enqueue(a_task("again", gpus=1))
    await rig.end(AttemptId(tid("a"), 1))
    assert rig.state(tid("again")) == "QUEUED"
    await rig.end(AttemptId(tid("b"), 1))
    assert rig.state(tid("again")) == "RUNNING"


async def test_a_share_outlives_a_restart_and_counts_in_usage_as_its_part(rig: TaskManagerRig) -> None:
    await rig.nodes(a_sharing_node())
    await rig.enqueue(a_share("a", 4 * GiB))
    await rig.restart()
    attempt = rig.engine.state.attempts[tid("a")]
    assert (attempt.shape.gpu_share_bytes, attempt.gpu_fraction, attempt.shape.gpus) == (4 * GiB, 0.25, 0)
    await rig.enqueue(a_share("b", 13 * GiB))
    assert rig.state(tid("b")) == "QUEUED"


async def test_a_card_that_breaks_under_a_task_still_counts_as_that_tasks(rig: TaskManagerRig) -> None:
    """The queue said of such a card that others could start at once if it worked."""
    well = gpus_of("n1", 2)
    await rig.nodes(a_node("n1", gpus=well))
    await rig.enqueue(a_task(gpus=1))
    (mine,) = rig.engine.state.attempts[tid("t")].gpu_uuids
    await rig.nodes(a_node("n1", gpus=tuple(replace(gpu, sick=True) for gpu in well)))
    (room,) = pass_input.free_resources(rig.engine.state, rig.settings)
    assert (room.gpus, room.held_unusable) == ([], {mine})
