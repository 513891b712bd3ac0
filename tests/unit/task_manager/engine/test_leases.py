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
from tests.unit.task_manager.rig import House, a_house, a_node, a_task, exited, tid

FIRST = AttemptId(tid("t"), 1)
SECOND = AttemptId(tid("t"), 2)


@pytest.fixture
async def house(tmp_path: Path, clock: FakeClock) -> AsyncIterator[House]:
    async with a_house(tmp_path, clock) as made:
        yield made


async def two_machines(house: House, *, settled: bool = True) -> None:
    """A task on n1, n2 beside it; both Workers have told twice that their files hold deadlines."""
    await house.nodes(a_node("n1"), a_node("n2"))
    await house.enqueue(a_task())
    assert house.running() == [FIRST]
    if settled:
        for _ in range(2):
            await house.beat("n1")
            await house.beat("n2")


async def pass_time(house: House, seconds: int, *, beats: tuple[str, ...] = ("n2",)) -> None:
    for _ in range(seconds // 10):
        house.clock.tick(10)
        for node in beats:
            await house.beat(node)
    await house.advance(0)


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


async def test_a_silent_machine_loses_its_attempts_after_the_lease_and_not_before(house: House) -> None:
    await two_machines(house)
    await pass_time(house, 120)
    assert house.running() == [FIRST]
    await pass_time(house, 10)
    assert house.running() == [SECOND]
    assert house.engine.state.attempts[tid("t")].node_id == "n2"
    assert (await house.told())[-2:] == [("t", "REQUEUED", 1, "node_lost"), ("t", "ATTEMPT_STARTED", 2, "")]
    task = house.engine.state.tasks[tid("t")]
    assert (task.user_failures, task.platform_failures, task.submitted_at) == (0, 0, 0.0)
    # Back again: its copy is to be discarded, its result does not count.
    assert (await house.beat("n1", live=(FIRST,))).discard == (FIRST,)
    assert await house.end(FIRST, node="n1") == [FIRST]
    assert house.running() == [SECOND]


@pytest.mark.parametrize("step", [3600, -3600])
async def test_a_wall_clock_that_steps_loses_nothing(house: House, step: float) -> None:
    await two_machines(house)
    house.clock.step_wall(step)
    await pass_time(house, 60, beats=("n1", "n2"))
    assert house.running() == [FIRST]
    await house.report(FIRST, "PROCESS_STARTED", process_started_at=house.clock.now())
    await house.end(FIRST)
    view = (await house.queries.locate(tid("t"), 1)).attempt
    phases = view.phases
    for value in (phases.scheduling_s, phases.dispatch_s, phases.startup_s, phases.preparing_s, phases.running_s):
        assert value >= 0


async def test_with_one_machine_silence_ends_nothing(house: House) -> None:
    await house.nodes(a_node("n1"))
    await house.enqueue(a_task())
    for _ in range(3):
        assert not (await house.beat("n1")).enforced
    await pass_time(house, 3600, beats=())
    assert house.running() == [FIRST]


async def test_a_planned_stop_of_a_worker_suspends_its_leases_even_over_a_restart_of_task_manager(
    house: House,
) -> None:
    await two_machines(house)
    await house.beat("n1", stopping=True)
    await house.restart()
    await house.nodes(a_node("n1"), a_node("n2"))
    await pass_time(house, 600)
    assert house.running() == [FIRST]
    await house.nodes(a_node("n1", health=NodeHealth.DOWN), a_node("n2"))
    await house.engine.submit(NodeDeclaredLost(a_node("n1").id, "root"))
    await house.settle()
    assert house.running() == [SECOND]


async def test_after_its_own_start_task_manager_expires_nothing_for_a_whole_lease(house: House) -> None:
    await two_machines(house)
    house.clock.tick(1000)
    await house.restart()
    await house.nodes(a_node("n1"), a_node("n2"))
    await pass_time(house, 110)
    assert house.running() == [FIRST]
    assert (await house.beat("n1")).discard == ()  # taken back
    await pass_time(house, 120)
    assert house.running() == [FIRST]
    await pass_time(house, 20)
    assert house.running() == [SECOND]


async def test_a_planned_stop_of_task_manager_suspends_all_leases_on_disk_first(house: House) -> None:
    await two_machines(house)
    await house.engine.submit(StopPlanned())
    await house.dispatcher.suspend_leases(1.0)
    assert sorted(house.workers.suspended) == ["n1:7004", "n2:7004"]
    house.clock.tick(5000)
    await house.restart()
    await house.nodes(a_node("n1"), a_node("n2"))
    assert all(lease.suspended for lease in house.engine.state.leases.values())
    await pass_time(house, 1000)
    assert house.running() == [FIRST]
    # Heard again and confirmed, they count again.
    await house.beat("n1", files_suspended=True)
    await house.beat("n1")
    await pass_time(house, 140)
    assert house.running() == [SECOND]


async def test_a_heartbeat_during_a_planned_stop_is_answered_with_suspension(house: House) -> None:
    await two_machines(house)
    await house.engine.submit(StopPlanned())
    assert not (await house.beat("n1")).enforced


async def test_a_machine_that_came_back_without_the_attempt_has_lost_it(house: House) -> None:
    """Rebooted with suspended leases: its own heartbeat tells, after a grace for a report that is on its way."""
    await house.nodes(a_node("n1"))
    await house.enqueue(a_task())
    await house.beat("n1")
    house.workers.has.clear()
    await house.beat("n1", incarnation=2, live=())
    assert house.running() == [FIRST]
    house.clock.tick(10)
    await house.beat("n1", incarnation=2, live=())
    assert house.running() == [SECOND]


async def test_two_machines_of_one_name_never_run_a_task_both(house: House) -> None:
    """The second one's heartbeats don't list what the first one still runs until it is told that it is superseded."""
    await house.nodes(a_node("n1"))
    await house.enqueue(a_task())
    await house.beat("n1")
    house.workers.has.clear()
    for _ in range(12):
        await house.beat("n1", incarnation=2, live=(), address="elsewhere:7004")
        assert house.running() == [FIRST]
        house.clock.tick(10)
    house.clock.tick(10)
    await house.beat("n1", incarnation=2, live=(), address="elsewhere:7004")
    assert house.running() == [SECOND]


async def test_an_end_that_is_reported_within_the_grace_counts(house: House) -> None:
    await house.nodes(a_node("n1"))
    await house.enqueue(a_task())
    await house.beat("n1", incarnation=2, live=())
    await house.end(FIRST, exited(0))
    house.clock.tick(10)
    await house.beat("n1", incarnation=2, live=())
    assert (await house.told())[-1] == ("t", "SUCCEEDED", 1, "exited")


async def test_a_launch_on_its_way_is_not_missing_from_a_heartbeat(house: House) -> None:
    await house.nodes(a_node("n1"))
    house.workers.away.add("n1:7004")
    await house.enqueue(a_task())
    for _ in range(3):
        house.clock.tick(10)
        await house.beat("n1", live=())
    assert house.running() == [FIRST]
    house.workers.away.clear()
    await house.advance(6)
    assert house.workers.launched == [FIRST]


async def test_a_launch_without_an_answer_to_a_worker_that_was_started_anew_is_never_run_twice(house: House) -> None:
    """Accepted by the Worker's last life, unknown here: only its next heartbeat can tell."""
    await house.nodes(a_node("n1"), a_node("n2"))
    house.workers.mute.add("n1:7004")
    await house.enqueue(a_task())
    assert house.engine.state.attempts[tid("t")].node_id == "n1"
    house.workers.mute.clear()
    house.workers.refuse["n1:7004"] = Fenced.slug
    house.workers.again_later = True
    await house.nodes(a_node("n1", incarnation=2), reset=False)
    await house.advance(8)
    assert house.running() == [FIRST]
    await house.beat("n1", incarnation=2, live=(FIRST,))
    assert house.engine.state.attempts[tid("t")].answered_at is not None
    await house.end(FIRST)
    assert (await house.told())[-1] == ("t", "SUCCEEDED", 1, "exited")


async def test_what_the_workers_last_life_did_not_take_is_sent_to_this_one(house: House) -> None:
    await house.nodes(a_node("n1"), a_node("n2"))
    house.workers.away.add("n1:7004")
    await house.enqueue(a_task())
    await house.nodes(a_node("n1", incarnation=2), reset=False)
    house.workers.away.clear()
    await house.beat("n1", incarnation=2, live=())
    assert house.running() == [FIRST]
    assert house.workers.launched == [FIRST]
    assert house.workers.has["n1:7004"][FIRST].attempt.incarnation == 2
    assert [kind for _, kind, _, _ in await house.told()] == ["ATTEMPT_STARTED"]


async def test_a_cancel_of_what_the_workers_last_life_did_not_take_ends_with_its_heartbeat(house: House) -> None:
    await house.nodes(a_node("n1"))
    house.workers.away.add("n1:7004")
    await house.enqueue(a_task())
    await house.cancel(tid("t"))
    await house.beat("n1", incarnation=2, live=())
    assert (await house.told())[-1] == ("t", "CANCELLED", 1, "cancelled")


async def test_a_superseded_worker_is_refused(house: House) -> None:
    await house.nodes(a_node("n1"))
    await house.beat("n1", incarnation=2)
    with pytest.raises(Fenced):
        await house.beat("n1", incarnation=1)


async def test_a_cancel_on_a_dead_machine_says_so_and_ends_with_the_lease(house: House) -> None:
    await two_machines(house)
    house.workers.away.add("n1:7004")
    await house.cancel(tid("t"))
    await pass_time(house, 40)
    view = (await house.queries.locate(tid("t"), 0)).attempt
    assert view.state == "STOPPING"
    assert "does not answer" in view.sentence
    await pass_time(house, 100)
    assert (await house.told())[-1][1] == "CANCELLED"
    assert house.running() == []


async def test_a_silent_machine_gets_no_new_work(house: House) -> None:
    await house.nodes(a_node("n1"), a_node("n2"))
    await pass_time(house, 40)
    await house.enqueue(a_task())
    assert [a.node_id for a in house.engine.state.attempts.values()] == ["n2"]


async def test_a_task_that_brings_down_every_machine_ends_some_day(house: House) -> None:
    await house.nodes(a_node("n1"))
    await house.enqueue(a_task(retries=0))
    for number in range(1, 20):
        if house.state(tid("t")) == "gone":
            break
        for _ in range(70):
            if tid("t") in house.engine.state.attempts:
                break
            house.clock.tick(1)
            await house.beat("n1")
        lost = EndReason(EndWord.NODE_LOST)
        await house.end(AttemptId(tid("t"), number), lost)
    assert (await house.told())[-1] == ("t", "FAILED", 11, "node_lost")


async def test_a_machine_that_is_heard_again_gets_work_at_once(house: House) -> None:
    await house.nodes(a_node("n1"))
    await house.beat("n1")
    house.clock.tick(50)
    await house.enqueue(a_task())
    assert house.running() == []
    await house.beat("n1")
    assert house.running() == [FIRST]
