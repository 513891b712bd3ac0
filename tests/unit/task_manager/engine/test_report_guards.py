"""Whom TaskManager believes about an attempt, and what it does not take for an end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from headway.errors import Fenced
from headway.ids import AttemptId, NodeId
from task_manager.engine.events import (
    AcceptedLaunch,
    HeartbeatReceived,
    HeartbeatReply,
    LaunchesAnswered,
    LiveAttempt,
    RefusedLaunch,
)
from task_manager.ports import LaunchOrder
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


async def test_a_report_of_an_attempt_that_this_database_never_placed_is_answered_with_its_end(
    rig: TaskManagerRig,
) -> None:
    """Before the next heartbeat, too: two of the task would run until then."""
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task())
    assert await rig.report(SECOND, "PROCESS_STARTED") == [SECOND]
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


async def test_an_attempt_that_two_quick_heartbeats_leave_out_may_still_report_its_end(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task())
    await rig.beat("n1", live=())
    rig.clock.tick(1)
    await rig.beat("n1", live=())
    assert rig.running() == [FIRST]
    await rig.end(FIRST)
    assert (await rig.told())[-1] == ("t", "SUCCEEDED", 1, "exited")


async def test_a_refusal_by_a_worker_that_was_started_anew_places_the_attempt_nowhere_else(rig: TaskManagerRig) -> None:
    """Its last life may have taken an earlier try, and nobody has told of the restart yet."""
    await rig.nodes(a_node("n1"), a_node("n2"))
    rig.workers.mute.add("n1:7004")
    await rig.enqueue(a_task())
    rig.workers.mute.clear()
    rig.workers.has.clear()
    rig.workers.refuse["n1:7004"] = Fenced.slug
    rig.workers.again_later = True
    await rig.advance(8)
    assert rig.running() == [FIRST]
    assert rig.engine.state.attempts[tid("t")].node_id == "n1"


async def test_a_worker_that_was_started_anew_is_heard_before_it_is_asked_again(
    rig: TaskManagerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.nodes(a_node("n1"))
    rig.workers.mute.add("n1:7004")
    await rig.enqueue(a_task())
    await rig.nodes(a_node("n1", incarnation=2), reset=False)
    asked: list[str] = []

    async def launch(address: str, launches: Sequence[LaunchOrder]) -> list[AcceptedLaunch | RefusedLaunch]:
        asked.append(address)
        return []

    monkeypatch.setattr(rig.workers, "launch", launch)
    await rig.advance(8)
    assert not asked
    assert rig.running() == [FIRST]


async def test_a_refusal_while_an_earlier_try_may_be_under_way_frees_nothing(rig: TaskManagerRig) -> None:
    """The first try was held up on its way. It came after the refusal of the second, and ran beside the next one."""
    await rig.nodes(a_node("n1"), a_node("n2"))
    rig.workers.away.add("n1:7004")
    await rig.enqueue(a_task())
    rig.workers.away.clear()
    rig.workers.refuse["n1:7004"], rig.workers.again_later = "unavailable", True
    rig.workers.stop_mute.add("n1:7004")
    await rig.advance(1)
    assert rig.running() == [FIRST], "nobody else may begin it before the stop has come"
    rig.workers.stop_mute.clear()
    await rig.advance(3)
    assert [order.attempt for order in rig.workers.stopped] == [FIRST], "from now on the first try is refused"
    assert rig.running() == [SECOND]
    task = rig.engine.state.tasks[tid("t")]
    assert (task.platform_failures, task.losses) == (0, 0)


def lives(attempt: AttemptId, *, ended: bool = False) -> LiveAttempt:
    return LiveAttempt(attempt, 1, ended=ended)


async def heard(rig: TaskManagerRig, *attempts: LiveAttempt, incarnation: int = 1) -> tuple[AttemptId, ...]:
    """What a heartbeat of n1 is told to discard."""
    live = tuple(one.id for one in attempts)
    beat = HeartbeatReceived(NodeId("n1"), incarnation, "n1:7004", live, False, False, attempts)
    answer: HeartbeatReply = await rig.engine.submit(beat)
    return answer.discard


async def test_a_restarted_worker_that_has_lost_an_end_is_to_discard_the_attempt(rig: TaskManagerRig) -> None:
    """Its database was restored, from before the attempt began: it ran a second time, beside the next one."""
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task())
    await heard(rig, lives(FIRST))
    await rig.end(FIRST, exited(1))
    assert await heard(rig, lives(FIRST, ended=True), incarnation=2) == ()
    assert await heard(rig, lives(FIRST), incarnation=3) == (FIRST,)
    assert await heard(rig, lives(FIRST), incarnation=3) == (FIRST,), "until it is gone there"


async def test_a_heartbeat_that_an_end_has_overtaken_discards_nothing(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task())
    await heard(rig, lives(FIRST))
    await rig.end(FIRST)
    assert await heard(rig, lives(FIRST)) == (), "it was made before the end"
    assert await heard(rig, lives(FIRST, ended=True)) == ()
    assert await heard(rig) == ()
    assert await heard(rig, lives(FIRST)) == ()
    assert await heard(rig, lives(FIRST)) == (FIRST,), "made after the answer to the last"
