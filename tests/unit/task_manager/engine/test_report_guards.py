"""Whom TaskManager believes about an attempt, and what it does not take for an end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.ids import AttemptId, NodeId
from task_manager.engine.events import AcceptedLaunch, LaunchesAnswered, RefusedLaunch
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import TaskManagerRig, a_node, a_task, a_task_manager, exited, tid

FIRST = AttemptId(tid("t"), 1)
SECOND = AttemptId(tid("t"), 2)


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock) as made:
        yield made


async def test_an_end_of_an_earlier_attempt_does_not_end_the_current_one(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task(retries=1))
    await rig.end(FIRST, exited(1))
    assert rig.running() == [SECOND]
    await rig.end(FIRST, exited(0))
    assert rig.running() == [SECOND]


async def test_an_attempt_that_this_database_never_placed_is_discarded(rig: TaskManagerRig) -> None:
    """After a restored database a Worker may run what was placed after the backup."""
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task())
    assert (await rig.beat("n1", live=(FIRST, SECOND))).discard == (SECOND,)
    assert rig.running() == [FIRST]


async def test_a_machine_that_lists_anothers_attempt_is_to_discard_it(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"), a_node("n2"))
    await rig.enqueue(a_task())
    assert rig.engine.state.attempts[tid("t")].node_id == "n1"
    assert (await rig.beat("n2", live=(FIRST,))).discard == (FIRST,)
    assert rig.running() == [FIRST]


async def test_a_refusal_that_comes_after_the_acceptance_ends_nothing(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"), a_node("n2"))
    await rig.enqueue(a_task())
    assert rig.engine.state.attempts[tid("t")].answered_at is not None
    refusal = RefusedLaunch(FIRST, "unavailable", "an older try", True)
    await rig.engine.submit(LaunchesAnswered(NodeId("n1"), (refusal,)))
    await rig.settle()
    assert rig.running() == [FIRST]


async def test_after_a_restart_a_cancel_reaches_a_worker_that_may_have_the_attempt(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task())
    await rig.engine.submit(LaunchesAnswered(NodeId("n1"), (AcceptedLaunch(FIRST, None),)))
    await rig.restart()
    await rig.cancel(tid("t"))
    assert rig.running() == [FIRST], "it runs until its Worker says that it ended"
    assert [order.attempt for order in rig.workers.stopped] == [FIRST]


async def test_a_stop_that_may_not_have_arrived_is_sent_again_after_a_restart(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task())
    rig.workers.away.add("n1:7004")
    await rig.cancel(tid("t"))
    assert not rig.workers.stopped
    rig.workers.away.clear()
    await rig.restart()
    await rig.settle()
    assert [order.attempt for order in rig.workers.stopped] == [FIRST]
