"""Machines that are given up: which may be, and when they are given work again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.errors import Conflict
from headway.ids import AttemptId
from headway.states import NodeHealth
from task_manager.engine.events import NodeDeclaredLost, NodesUnknown
from task_manager.store import confirmation_store
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import TaskManagerRig, a_node, a_task, a_task_manager, tid

N1 = a_node("n1").id
FIRST = AttemptId(tid("t"), 1)
SECOND = AttemptId(tid("t"), 2)
OTHER = AttemptId(tid("other"), 1)


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock) as made:
        yield made


IF_IT_TOOK_WORK = " If n1 took work, this task could start there now."


async def one_gpu(rig: TaskManagerRig, health: NodeHealth = NodeHealth.READY) -> None:
    await rig.nodes(a_node("n1", gpus=1, health=health))


async def declared_lost(rig: TaskManagerRig) -> None:
    """A task runs on the only GPU, another one waits for it, and the machine is declared lost while it is away."""
    await one_gpu(rig)
    await rig.enqueue(a_task(gpus=1), a_task("other", gpus=1, at=1.0))
    await rig.beat("n1")
    assert rig.running() == [FIRST]
    rig.clock.tick(60)
    await one_gpu(rig, NodeHealth.SUSPECT)
    assert await rig.engine.submit(NodeDeclaredLost(N1, "root")) == 1
    await rig.settle()
    assert rig.running() == []


async def why(rig: TaskManagerRig, name: str) -> list[str]:
    return [reason.sentence for reason in (await rig.queries.explain(tid(name))).reasons]


async def test_a_machine_that_is_heard_can_not_be_declared_lost(rig: TaskManagerRig) -> None:
    await one_gpu(rig)
    await rig.enqueue(a_task(gpus=1), a_task("other", gpus=1, at=1.0))
    # Whatever ResourceManager says of it.
    for health in NodeHealth:
        await one_gpu(rig, health)
        await rig.beat("n1")
        with pytest.raises(Conflict, match=r"The machine n1 answers.*close it for new work, cancel its tasks"):
            await rig.engine.submit(NodeDeclaredLost(N1, "root"))
    await rig.settle()
    assert rig.running() == [FIRST]
    assert [kind for _, kind, _, _ in await rig.told()] == ["ATTEMPT_STARTED"]
    assert not rig.engine.state.unconfirmed


async def test_a_machine_that_resource_manager_hears_can_not_be_declared_lost(rig: TaskManagerRig) -> None:
    await one_gpu(rig)
    await rig.enqueue(a_task(gpus=1))
    await rig.beat("n1")
    rig.clock.tick(60)
    with pytest.raises(Conflict):
        await rig.engine.submit(NodeDeclaredLost(N1, "root"))
    # What it said before its watch broke proves nothing by now.
    await rig.engine.submit(NodesUnknown())
    assert await rig.engine.submit(NodeDeclaredLost(N1, "root")) == 1


async def test_a_machine_that_was_declared_lost_gets_nothing_before_it_is_heard(rig: TaskManagerRig) -> None:
    await declared_lost(rig)
    await one_gpu(rig)  # heard by ResourceManager first
    await rig.advance(1)
    assert rig.running() == []
    assert await why(rig, "t") == ["n1 was declared lost and has not answered since." + IF_IT_TOOK_WORK]
    await rig.beat("n1", incarnation=2, live=())
    assert rig.running() == [OTHER]  # whose start was promised


async def test_what_was_given_up_keeps_its_machine_closed_until_it_has_ended(rig: TaskManagerRig) -> None:
    await declared_lost(rig)
    await one_gpu(rig)
    for _ in range(3):
        assert (await rig.beat("n1", live=(FIRST,))).discard == (FIRST,)
        assert rig.running() == []
        assert await why(rig, "t") == ["n1 still has to end an attempt that was declared lost." + IF_IT_TOOK_WORK]
        rig.clock.tick(10)
    await rig.beat("n1", live=())
    assert rig.running() == [OTHER]  # whose start was promised


async def test_a_restart_of_task_manager_forgets_no_machine_that_was_given_up(rig: TaskManagerRig) -> None:
    await declared_lost(rig)
    await rig.restart()
    await one_gpu(rig)
    assert rig.running() == []
    await rig.beat("n1", live=(FIRST,))
    assert rig.running() == []
    await rig.restart()
    await one_gpu(rig)
    assert rig.running() == []
    await rig.beat("n1", live=())
    assert rig.running() == [OTHER]  # whose start was promised
    # It was given work since, so nothing is in doubt after the next start.
    await rig.end(OTHER)
    await rig.restart()
    await one_gpu(rig)
    assert rig.running() == [SECOND]
    assert await rig.db.read(confirmation_store.load) == []


async def test_a_machine_whose_leases_ran_out_gets_nothing_before_it_has_ended_what_it_ran(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1", gpus=1), a_node("n2"))
    await rig.enqueue(a_task(gpus=1))
    for _ in range(2):
        await rig.beat("n1")
        await rig.beat("n2")
    for _ in range(13):
        rig.clock.tick(10)
        await rig.beat("n2")
    await rig.advance(0)
    assert (rig.running(), rig.state(tid("t"))) == ([], "QUEUED")
    # Back, its launcher still at the grace of what it had to end.
    assert (await rig.beat("n1", live=(FIRST,))).discard == (FIRST,)
    assert rig.running() == []
    rig.clock.tick(10)
    await rig.beat("n1", live=())
    assert rig.running() == [SECOND]
