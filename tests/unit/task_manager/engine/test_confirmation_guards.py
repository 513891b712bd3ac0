"""A machine that was given up stays closed until it is heard, though ResourceManager calls it ready."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.states import NodeHealth
from task_manager.engine.events import NodeDeclaredLost, TimePassed
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import TaskManagerRig, a_node, a_task, a_task_manager, tid


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock) as made:
        yield made


async def test_a_machine_declared_lost_without_attempts_gets_nothing_before_it_is_heard(rig: TaskManagerRig) -> None:
    """It may run what this database does not know of."""
    await rig.nodes(a_node("n1", health=NodeHealth.DOWN))
    rig.clock.tick(100)
    assert await rig.engine.submit(NodeDeclaredLost(a_node("n1").id, "root")) == 0
    await rig.nodes(a_node("n1", incarnation=2))
    await rig.enqueue(a_task())
    assert rig.state(tid("t")) == "QUEUED"
    await rig.beat("n1", incarnation=2, live=())
    assert rig.state(tid("t")) != "QUEUED"


async def test_a_machine_whose_leases_ran_out_gets_nothing_though_resource_manager_has_seen_it_again(
    rig: TaskManagerRig,
) -> None:
    """Its Worker was started anew, and may have taken back what was given away meanwhile."""
    await rig.nodes(a_node("n1", gpus=1), a_node("n2", gpus=1))
    for _ in range(3):
        for node in ("n1", "n2"):
            await rig.beat(node)
    await rig.enqueue(a_task(gpus=1))
    assert rig.engine.state.attempts[tid("t")].node_id == "n1"
    for _ in range(13):
        rig.clock.tick(10)
        await rig.beat("n2")
        await rig.engine.submit(TimePassed())
        await rig.settle()
    assert rig.engine.state.attempts[tid("t")].node_id == "n2"
    await rig.nodes(a_node("n1", gpus=1, incarnation=2), a_node("n2", gpus=1))
    await rig.enqueue(a_task("other", gpus=1))
    assert rig.state(tid("other")) == "QUEUED"
    await rig.beat("n1", incarnation=2, live=())
    assert rig.engine.state.attempts[tid("other")].node_id == "n1"
