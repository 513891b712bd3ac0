"""When silence may end an attempt, and when it may not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.errors import Fenced
from headway.ids import AttemptId
from headway.model.reasons import EndReason, EndWord
from headway.states import NodeHealth
from task_manager.engine.events import NodeDeclaredLost, StopPlanned
from task_manager.engine.leases import NodeLease, renew
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import TaskManagerRig, a_node, a_task, a_task_manager, exited, tid

FIRST = AttemptId(tid("t"), 1)
SECOND = AttemptId(tid("t"), 2)


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock) as made:
        yield made


async def two_machines(rig: TaskManagerRig, *, settled: bool = True) -> None:
    """A task on n1, n2 beside it; both Workers have told twice that their files hold deadlines."""
    await rig.nodes(a_node("n1"), a_node("n2"))
    await rig.enqueue(a_task())
    assert rig.running() == [FIRST]
    if settled:
        for _ in range(2):
            await rig.beat("n1")
            await rig.beat("n2")


async def pass_time(rig: TaskManagerRig, seconds: int, *, beats: tuple[str, ...] = ("n2",)) -> None:
    for _ in range(seconds // 10):
        rig.clock.tick(10)
        for node in beats:
            await rig.beat(node)
    await rig.advance(0)


@pytest.mark.parametrize(
    ("before", "others", "stopping", "files_suspended", "want_enforced", "want_suspended"),
    [
        # The only worker: nothing is enforced, and its files may say none.
        (None, False, False, False, False, True),
        # Enforced is granted, but not yet confirmed by a later heartbeat.
        (None, True, False, False, True, True),
        (NodeLease(1, "", 0, suspended=True, granted=True), True, False, False, True, False),
        # Its files still say none.
        (NodeLease(1, "", 0, suspended=True, granted=True), True, False, True, True, True),
        # The answer that suspended may still be on its way.
        (NodeLease(1, "", 0, suspended=True, granted=False), True, False, False, True, True),
        # Planned stop of the worker.
        (NodeLease(1, "", 0, suspended=False, granted=True), True, True, False, False, True),
    ],
)
def test_leases_count_as_enforced_only_when_proven(
    before: NodeLease | None,
    others: bool,
    stopping: bool,
    files_suspended: bool,
    want_enforced: bool,
    want_suspended: bool,
) -> None:
    grant = renew(
        before,
        incarnation=1,
        address="n1",
        stopping=stopping,
        files_suspended=files_suspended,
        other_workers=others,
        planned_stop=False,
        now_s=5.0,
    )
    assert (grant.enforced, grant.lease.suspended) == (want_enforced, want_suspended)


async def test_a_silent_machine_loses_its_attempts_after_the_lease_and_not_before(rig: TaskManagerRig) -> None:
    await two_machines(rig)
    await pass_time(rig, 120)
    assert rig.running() == [FIRST]
    await pass_time(rig, 10)
    assert rig.running() == [SECOND]
    assert rig.engine.state.attempts[tid("t")].node_id == "n2"
    assert (await rig.told())[-2:] == [("t", "REQUEUED", 1, "node_lost"), ("t", "ATTEMPT_STARTED", 2, "")]
    task = rig.engine.state.tasks[tid("t")]
    assert (task.user_failures, task.platform_failures, task.submitted_at) == (0, 0, 0.0)
    # Back again: its copy is to be discarded, its result does not count.
    assert (await rig.beat("n1", live=(FIRST,))).discard == (FIRST,)
    assert await rig.end(FIRST, node="n1") == [FIRST]
    assert rig.running() == [SECOND]


@pytest.mark.parametrize("step", [3600, -3600])
async def test_a_wall_clock_that_steps_loses_nothing(rig: TaskManagerRig, step: float) -> None:
    await two_machines(rig)
    rig.clock.step_wall(step)
    await pass_time(rig, 60, beats=("n1", "n2"))
    assert rig.running() == [FIRST]
    await rig.report(FIRST, "PROCESS_STARTED", process_started_at=rig.clock.now())
    await rig.end(FIRST)
    view = (await rig.queries.locate(tid("t"), 1)).attempt
    phases = view.phases
    for value in (phases.scheduling_s, phases.dispatch_s, phases.startup_s, phases.preparing_s, phases.running_s):
        assert value >= 0


async def test_with_one_machine_silence_ends_nothing(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task())
    for _ in range(3):
        assert not (await rig.beat("n1")).enforced
    await pass_time(rig, 3600, beats=())
    assert rig.running() == [FIRST]


async def test_a_planned_stop_of_a_worker_suspends_its_leases_even_over_a_restart_of_task_manager(
    rig: TaskManagerRig,
) -> None:
    await two_machines(rig)
    await rig.beat("n1", stopping=True)
    await rig.restart()
    await rig.nodes(a_node("n1"), a_node("n2"))
    await pass_time(rig, 600)
    assert rig.running() == [FIRST]
    await rig.nodes(a_node("n1", health=NodeHealth.DOWN), a_node("n2"))
    await rig.engine.submit(NodeDeclaredLost(a_node("n1").id, "root"))
    await rig.settle()
    assert rig.running() == [SECOND]


async def test_after_its_own_start_task_manager_expires_nothing_for_a_whole_lease(rig: TaskManagerRig) -> None:
    await two_machines(rig)
    rig.clock.tick(1000)
    await rig.restart()
    await rig.nodes(a_node("n1"), a_node("n2"))
    await pass_time(rig, 110)
    assert rig.running() == [FIRST]
    assert (await rig.beat("n1")).discard == ()  # taken back
    await pass_time(rig, 120)
    assert rig.running() == [FIRST]
    await pass_time(rig, 20)
    assert rig.running() == [SECOND]


async def test_a_planned_stop_of_task_manager_suspends_all_leases_on_disk_first(rig: TaskManagerRig) -> None:
    await two_machines(rig)
    await rig.engine.submit(StopPlanned())
    await rig.dispatcher.suspend_leases(1.0)
    assert sorted(rig.workers.suspended) == ["n1:7004", "n2:7004"]
    rig.clock.tick(5000)
    await rig.restart()
    await rig.nodes(a_node("n1"), a_node("n2"))
    assert all(lease.suspended for lease in rig.engine.state.leases.values())
    await pass_time(rig, 1000)
    assert rig.running() == [FIRST]
    # Heard again and confirmed, they count again.
    await rig.beat("n1", files_suspended=True)
    await rig.beat("n1")
    await pass_time(rig, 140)
    assert rig.running() == [SECOND]


async def test_a_heartbeat_during_a_planned_stop_is_answered_with_suspension(rig: TaskManagerRig) -> None:
    await two_machines(rig)
    await rig.engine.submit(StopPlanned())
    assert not (await rig.beat("n1")).enforced


async def test_a_machine_that_came_back_without_the_attempt_has_lost_it(rig: TaskManagerRig) -> None:
    """Rebooted with suspended leases: its own heartbeat tells, after a grace for a report that is on its way."""
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task())
    await rig.beat("n1")
    rig.workers.has.clear()
    await rig.beat("n1", incarnation=2, live=())
    assert rig.running() == [FIRST]
    rig.clock.tick(10)
    await rig.beat("n1", incarnation=2, live=())
    assert rig.running() == [SECOND]


async def test_two_machines_of_one_name_never_run_a_task_both(rig: TaskManagerRig) -> None:
    """The second one's heartbeats don't list what the first one still runs until it is told that it is superseded."""
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task())
    await rig.beat("n1")
    rig.workers.has.clear()
    for _ in range(12):
        await rig.beat("n1", incarnation=2, live=(), address="elsewhere:7004")
        assert rig.running() == [FIRST]
        rig.clock.tick(10)
    rig.clock.tick(10)
    await rig.beat("n1", incarnation=2, live=(), address="elsewhere:7004")
    assert rig.running() == [SECOND]


async def test_an_end_that_is_reported_within_the_grace_counts(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task())
    await rig.beat("n1", incarnation=2, live=())
    await rig.end(FIRST, exited(0))
    rig.clock.tick(10)
    await rig.beat("n1", incarnation=2, live=())
    assert (await rig.told())[-1] == ("t", "SUCCEEDED", 1, "exited")


async def test_a_launch_on_its_way_is_not_missing_from_a_heartbeat(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"))
    rig.workers.away.add("n1:7004")
    await rig.enqueue(a_task())
    for _ in range(3):
        rig.clock.tick(10)
        await rig.beat("n1", live=())
    assert rig.running() == [FIRST]
    rig.workers.away.clear()
    await rig.advance(6)
    assert rig.workers.launched == [FIRST]


async def test_a_launch_without_an_answer_to_a_worker_that_was_started_anew_is_never_run_twice(
    rig: TaskManagerRig,
) -> None:
    """Accepted by the Worker's last life, unknown here: only its next heartbeat can tell."""
    await rig.nodes(a_node("n1"), a_node("n2"))
    rig.workers.mute.add("n1:7004")
    await rig.enqueue(a_task())
    assert rig.engine.state.attempts[tid("t")].node_id == "n1"
    rig.workers.mute.clear()
    rig.workers.refuse["n1:7004"] = Fenced.slug
    rig.workers.again_later = True
    await rig.nodes(a_node("n1", incarnation=2), reset=False)
    await rig.advance(8)
    assert rig.running() == [FIRST]
    await rig.beat("n1", incarnation=2, live=(FIRST,))
    assert rig.engine.state.attempts[tid("t")].answered_at is not None
    await rig.end(FIRST)
    assert (await rig.told())[-1] == ("t", "SUCCEEDED", 1, "exited")


async def test_what_the_workers_last_life_did_not_take_is_sent_to_this_one(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"), a_node("n2"))
    rig.workers.away.add("n1:7004")
    await rig.enqueue(a_task())
    await rig.nodes(a_node("n1", incarnation=2), reset=False)
    rig.workers.away.clear()
    await rig.beat("n1", incarnation=2, live=())
    assert rig.running() == [FIRST]
    assert rig.workers.launched == [FIRST]
    assert rig.workers.has["n1:7004"][FIRST].attempt.incarnation == 2
    assert [kind for _, kind, _, _ in await rig.told()] == ["ATTEMPT_STARTED"]


async def test_a_cancel_of_what_the_workers_last_life_did_not_take_ends_with_its_heartbeat(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"))
    rig.workers.away.add("n1:7004")
    await rig.enqueue(a_task())
    await rig.cancel(tid("t"))
    await rig.beat("n1", incarnation=2, live=())
    assert (await rig.told())[-1] == ("t", "CANCELLED", 1, "cancelled")


async def test_a_superseded_worker_is_refused(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"))
    await rig.beat("n1", incarnation=2)
    with pytest.raises(Fenced):
        await rig.beat("n1", incarnation=1)


async def test_a_cancel_on_a_dead_machine_says_so_and_ends_with_the_lease(rig: TaskManagerRig) -> None:
    await two_machines(rig)
    rig.workers.away.add("n1:7004")
    await rig.cancel(tid("t"))
    await pass_time(rig, 40)
    view = (await rig.queries.locate(tid("t"), 0)).attempt
    assert view.state == "STOPPING"
    assert "does not answer" in view.sentence
    await pass_time(rig, 100)
    assert (await rig.told())[-1][1] == "CANCELLED"
    assert rig.running() == []


async def test_a_silent_machine_gets_no_new_work(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"), a_node("n2"))
    await pass_time(rig, 40)
    await rig.enqueue(a_task())
    assert [a.node_id for a in rig.engine.state.attempts.values()] == ["n2"]


async def test_a_task_that_brings_down_every_machine_ends_some_day(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"))
    await rig.enqueue(a_task(retries=0))
    for number in range(1, 20):
        if rig.state(tid("t")) == "gone":
            break
        for _ in range(70):
            if tid("t") in rig.engine.state.attempts:
                break
            rig.clock.tick(1)
            await rig.beat("n1")
        lost = EndReason(EndWord.NODE_LOST)
        await rig.end(AttemptId(tid("t"), number), lost)
    assert (await rig.told())[-1] == ("t", "FAILED", 11, "node_lost")


async def test_a_machine_that_is_heard_again_gets_work_at_once(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"))
    await rig.beat("n1")
    rig.clock.tick(50)
    await rig.enqueue(a_task())
    assert rig.running() == []
    await rig.beat("n1")
    assert rig.running() == [FIRST]
