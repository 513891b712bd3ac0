"""A machine that was declared lost stays closed, also if it ran nothing."""

from __future__ import annotations

from pathlib import Path

from headway.states import NodeHealth
from task_manager.engine.events import NodeDeclaredLost
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import a_node, a_task, a_task_manager, tid


async def test_a_machine_declared_lost_without_attempts_gets_nothing_before_it_is_heard(
    tmp_path: Path, clock: FakeClock
) -> None:
    """It may run what this database does not know of."""
    async with a_task_manager(tmp_path, clock) as rig:
        await rig.nodes(a_node("n1", health=NodeHealth.DOWN))
        clock.tick(100)
        assert await rig.engine.submit(NodeDeclaredLost(a_node("n1").id, "root")) == 0
        await rig.nodes(a_node("n1"))
        await rig.enqueue(a_task())
        assert rig.state(tid("t")) == "QUEUED"
        await rig.beat("n1", live=())
        assert rig.state(tid("t")) != "QUEUED"
