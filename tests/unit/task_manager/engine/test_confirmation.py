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
from tests.unit.task_manager.rig import House, a_house, a_node, a_task, tid

N1 = a_node("n1").id
FIRST = AttemptId(tid("t"), 1)
SECOND = AttemptId(tid("t"), 2)
OTHER = AttemptId(tid("other"), 1)


@pytest.fixture
async def house(tmp_path: Path, clock: FakeClock) -> AsyncIterator[House]:
    async with a_house(tmp_path, clock) as made:
        yield made


async def one_gpu(house: House, health: NodeHealth = NodeHealth.READY) -> None:
    await house.nodes(a_node("n1", gpus=1, health=health))


async def declared_lost(house: House) -> None:
    """A task runs on the only GPU, another one waits for it, and the machine is declared lost while it is away."""
    await one_gpu(house)
    await house.enqueue(a_task(gpus=1), a_task("other", gpus=1, at=1.0))
    await house.beat("n1")
    assert house.running() == [FIRST]
    house.clock.tick(60)
    await one_gpu(house, NodeHealth.SUSPECT)
    assert await house.engine.submit(NodeDeclaredLost(N1, "root")) == 1
    await house.settle()
    assert house.running() == []


async def why(house: House, name: str) -> list[str]:
    return [reason.sentence for reason in (await house.queries.explain(tid(name))).reasons]


async def test_a_machine_that_is_heard_can_not_be_declared_lost(house: House) -> None:
    await one_gpu(house)
    await house.enqueue(a_task(gpus=1), a_task("other", gpus=1, at=1.0))
    # Whatever ResourceManager says of it.
    for health in NodeHealth:
        await one_gpu(house, health)
        await house.beat("n1")
        with pytest.raises(Conflict, match=r"The machine n1 answers.*cordon or drain it, cancel its tasks"):
            await house.engine.submit(NodeDeclaredLost(N1, "root"))
    await house.settle()
    assert house.running() == [FIRST]
    assert [kind for _, kind, _, _ in await house.told()] == ["ATTEMPT_STARTED"]
    assert not house.engine.state.unconfirmed


async def test_a_machine_that_resource_manager_hears_can_not_be_declared_lost(house: House) -> None:
    await one_gpu(house)
    await house.enqueue(a_task(gpus=1))
    await house.beat("n1")
    house.clock.tick(60)
    with pytest.raises(Conflict):
        await house.engine.submit(NodeDeclaredLost(N1, "root"))
    # What it said before its watch broke proves nothing by now.
    await house.engine.submit(NodesUnknown())
    assert await house.engine.submit(NodeDeclaredLost(N1, "root")) == 1


async def test_a_machine_that_was_declared_lost_gets_nothing_before_it_is_heard(house: House) -> None:
    await declared_lost(house)
    await one_gpu(house)  # heard by ResourceManager first
    await house.advance(1)
    assert house.running() == []
    assert await why(house, "t") == ["n1 was declared lost and has sent no heartbeat since."]
    await house.beat("n1", incarnation=2, live=())
    assert house.running() == [OTHER]  # whose start was promised


async def test_what_was_given_up_keeps_its_machine_closed_until_it_has_ended(house: House) -> None:
    await declared_lost(house)
    await one_gpu(house)
    for _ in range(3):
        assert (await house.beat("n1", live=(FIRST,))).discard == (FIRST,)
        assert house.running() == []
        assert await why(house, "t") == ["n1 still has to end an attempt that was declared lost."]
        house.clock.tick(10)
    await house.beat("n1", live=())
    assert house.running() == [OTHER]  # whose start was promised


async def test_a_restart_of_task_manager_forgets_no_machine_that_was_given_up(house: House) -> None:
    await declared_lost(house)
    await house.restart()
    await one_gpu(house)
    assert house.running() == []
    await house.beat("n1", live=(FIRST,))
    assert house.running() == []
    await house.restart()
    await one_gpu(house)
    assert house.running() == []
    await house.beat("n1", live=())
    assert house.running() == [OTHER]  # whose start was promised
    # It was given work since, so nothing is in doubt after the next start.
    await house.end(OTHER)
    await house.restart()
    await one_gpu(house)
    assert house.running() == [SECOND]
    assert await house.db.read(confirmation_store.load) == []


async def test_a_machine_whose_leases_ran_out_gets_nothing_before_it_has_ended_what_it_ran(house: House) -> None:
    await house.nodes(a_node("n1", gpus=1), a_node("n2"))
    await house.enqueue(a_task(gpus=1))
    for _ in range(2):
        await house.beat("n1")
        await house.beat("n2")
    for _ in range(13):
        house.clock.tick(10)
        await house.beat("n2")
    await house.advance(0)
    assert (house.running(), house.state(tid("t"))) == ([], "QUEUED")
    # Back, its launcher still at the grace of what it had to end.
    assert (await house.beat("n1", live=(FIRST,))).discard == (FIRST,)
    assert house.running() == []
    house.clock.tick(10)
    await house.beat("n1", live=())
    assert house.running() == [SECOND]
