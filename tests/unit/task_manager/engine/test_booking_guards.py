"""GPUs are never shared, and rest in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from headway.ids import AttemptId
from task_manager.engine.state import DoubleBooked
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import TaskManagerRig, a_node, a_task, a_task_manager, tid

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
