"""Each term of "silent for longer than its lease" for itself: without one, a task would begin beside itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.ids import AttemptId, NodeId
from task_manager.engine.events import StopPlanned, TimePassed
from task_manager.engine.leases import AttemptLease, LeaseSettings, NodeLease, expired_attempts, next_end_s
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import TaskManagerRig, a_node, a_task, a_task_manager, tid

N1 = NodeId("n1")
FIRST = AttemptId(tid("t"), 1)
SETTINGS = LeaseSettings(lease_s=120.0, margin_s=2.0)


def lost(
    now_s: float,
    *,
    heard_s: float = 0.0,
    launched_s: float = 0.0,
    started_s: float = 0.0,
    suspended: bool = False,
) -> bool:
    node = NodeLease(1, "n1", heard_s, suspended=suspended)
    live = AttemptLease(FIRST, N1, launched_s)
    return bool(expired_attempts([live], {N1: node}, started_s=started_s, now_s=now_s, settings=SETTINGS))


def test_a_lease_counts_from_the_last_heartbeat() -> None:
    assert not lost(250.0, heard_s=130.0)
    assert lost(253.0, heard_s=130.0)


def test_a_launch_sent_after_the_last_heartbeat_gets_a_whole_lease() -> None:
    """Expiry that looked at heartbeats alone passed all tests: a fresh launch was lost, and ran twice."""
    assert not lost(180.0, launched_s=100.0)
    assert lost(223.0, launched_s=100.0)


def test_a_lease_counts_from_the_start_of_task_manager_at_the_earliest() -> None:
    assert not lost(180.0, started_s=100.0)
    assert lost(223.0, started_s=100.0)


def test_a_lease_that_has_just_run_out_is_not_lost_before_the_margin() -> None:
    """The clocks of two machines differ a little. Expiry without the margin passed all tests."""
    assert not lost(121.0)
    assert not lost(122.0)
    assert lost(122.1)


def test_silence_proves_nothing_while_the_files_may_say_none() -> None:
    assert not lost(10_000.0, suspended=True)


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock) as made:
        yield made


async def test_a_launch_that_is_sent_again_counts_from_that_moment(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"), a_node("n2"))
    rig.workers.mute.add("n1:7004")
    await rig.enqueue(a_task())
    placed_s = rig.engine.state.tracking[tid("t")].launched_s
    await rig.advance(12)
    assert rig.engine.state.tracking[tid("t")].launched_s >= placed_s + 5


async def test_a_service_that_stood_still_blames_no_node(rig: TaskManagerRig) -> None:
    """Its machine was suspended for longer than a lease: no heartbeat could arrive."""
    await rig.nodes(a_node("n1"), a_node("n2"))
    for _ in range(3):
        for node in ("n1", "n2"):
            await rig.beat(node)
    await rig.enqueue(a_task())
    rig.engine._ticked_s = rig.clock.monotonic()
    rig.clock.tick(500)
    await rig.engine.submit(TimePassed())
    await rig.settle()
    assert rig.running() == [FIRST]


async def test_a_planned_stop_is_on_disk_before_a_worker_is_told(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"), a_node("n2"))
    for _ in range(3):
        await rig.beat("n1")
    await rig.engine.submit(StopPlanned())
    assert rig.engine.state.leases[N1].suspended


async def test_a_lost_machines_tasks_wait_for_the_end_of_its_lease_and_no_longer(rig: TaskManagerRig) -> None:
    """Within lease + 2 s they run elsewhere: ticks of two seconds came on top of the margin."""
    await rig.nodes(a_node("n1"), a_node("n2"))
    await rig.enqueue(a_task())
    attempt = rig.only_attempt(tid("t"))
    here = rig.engine.state.attempts[tid("t")].node_id
    other = "n2" if here == "n1" else "n1"
    leases = rig.engine.settings.leases
    for _ in range(3):
        await rig.beat(here)
    for _ in range(int(leases.lease_s // 10)):
        await rig.advance(10, beats=(other,))
    end_s = next_end_s(
        [AttemptLease(attempt, here, rig.engine.state.tracking[tid("t")].launched_s)],
        rig.engine.state.leases,
        started_s=rig.engine.state.started_s,
        settings=leases,
    )
    assert end_s is not None
    assert rig.engine.state.attempts[tid("t")].id == attempt
    await rig.clock.advance(end_s - rig.clock.monotonic() - 0.1)
    await rig.settle()
    assert rig.engine.state.attempts[tid("t")].id == attempt, "not before"
    await rig.clock.advance(0.2)
    await rig.settle()
    assert rig.engine.state.attempts[tid("t")].node_id == other, "no tick came in between"
