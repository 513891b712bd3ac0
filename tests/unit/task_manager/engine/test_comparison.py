"""What differs between JobManager's tasks and TaskManager's, and what TaskManager does about it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.errors import Unavailable
from headway.ids import AttemptId, NodeId
from headway.model.reasons import EndReason, EndWord
from headway.states import TaskState
from task_manager.answers.comparison_queries import ComparisonQueries
from task_manager.engine.comparing.comparison import Difference, difference
from task_manager.engine.events import (
    AttemptReport,
    AttemptReports,
    EnqueueTask,
    HeartbeatReceived,
    HeartbeatReply,
    HeldTask,
    LiveAttempt,
    MendTasks,
    NodeDeclaredLost,
    ServicesAgree,
    TaskCommands,
)
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import SETTINGS, TaskManagerRig, a_node, a_task, a_task_manager, exited, tid

D = Difference
T = tid("t")
FIRST, SECOND = AttemptId(T, 1), AttemptId(T, 2)


def held(**fields: Any) -> HeldTask:
    facts: dict[str, Any] = {
        "generation": 1, "state": "QUEUED", "event_seq": 0, "attempt": 0, "node_id": "", "held": False,
    }  # fmt: skip
    return HeldTask(T, **{**facts, **fields})


WAITS = a_task()
RUNS = replace(WAITS, state=TaskState.RUNNING, attempt=1, event_seq=1)


@pytest.mark.parametrize(
    ("job_manager", "task", "word"),
    [
        (held(), WAITS, None),
        (held(state="RUNNING", attempt=1, event_seq=1), RUNS, None),
        # After a manual retry JobManager counts events from 0.
        (held(generation=2, attempt=1), replace(WAITS, generation=2, attempt=1, event_seq=4), None),
        (held(), None, D.UNKNOWN),
        (held(generation=2), replace(WAITS, state=TaskState.FAILED), D.UNKNOWN),
        (held(generation=2), WAITS, D.OLD_RUN),
        (held(generation=2), RUNS, D.OLD_RUN),
        (held(), replace(WAITS, generation=2), D.NEW_RUN),
        (held(), replace(WAITS, generation=2, state=TaskState.SUCCEEDED), D.NEW_RUN),
        (held(state="RUNNING", attempt=1, event_seq=1), WAITS, D.BEHIND),
        (held(state="RUNNING", attempt=2, event_seq=1), RUNS, D.BEHIND),
        (held(state="QUEUED", attempt=1, event_seq=2), RUNS, D.BEHIND),
        (held(), RUNS, D.AHEAD),
        (held(attempt=1, event_seq=1), RUNS, D.AHEAD),
        (held(state="RUNNING", attempt=1, event_seq=1), replace(RUNS, state=TaskState.QUEUED, event_seq=2), D.AHEAD),
        (held(state="RUNNING", attempt=1, event_seq=1), replace(RUNS, state=TaskState.SUCCEEDED), D.AHEAD),
        (held(state="STOPPING", attempt=1, event_seq=1), replace(RUNS, state=TaskState.CANCELLED), D.AHEAD),
        (held(state="STOPPING"), WAITS, D.CANCEL_UNTOLD),
        (held(state="STOPPING", attempt=1, event_seq=1), RUNS, D.CANCEL_UNTOLD),
        (held(state="STOPPING", attempt=1, event_seq=1), replace(RUNS, state=TaskState.STOPPING, cancel_by="x"), None),
        # JobManager has lost the cancel: the end will come.
        (held(state="RUNNING", attempt=1, event_seq=1), replace(RUNS, state=TaskState.STOPPING, cancel_by="x"), None),
        (held(held=True), WAITS, D.HOLD_UNTOLD),
        (held(), replace(WAITS, held=True), D.HOLD_UNTOLD),
        (held(held=True, state="RUNNING", attempt=1, event_seq=1), RUNS, None),
    ],
)  # fmt: skip
def test_how_a_task_differs(job_manager: HeldTask, task: Any, word: Difference | None) -> None:
    assert difference(job_manager, task) is word


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock) as made:
        yield made


@pytest.fixture
async def careful(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    """As TaskManager runs in a cluster: it compares at its start."""
    async with a_task_manager(tmp_path, clock, settings=replace(SETTINGS, compare_at_start=True)) as made:
        yield made


async def mend(rig: TaskManagerRig, *tasks: HeldTask) -> list[Any]:
    mended: list[Any] = await rig.engine.submit(MendTasks(tasks))
    await rig.settle()
    return mended


async def test_an_end_that_job_manager_has_lost_is_told_again(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    await rig.enqueue(a_task())
    await rig.end(FIRST, exited(3))
    assert await mend(rig, held(state="RUNNING", attempt=1, event_seq=1)) == [T]
    last = (await rig.events())[-1]
    assert (last.kind, last.attempt, last.seq, last.reason.exit_code) == ("FAILED", 1, 3, 3)
    assert rig.state(T) == "gone"
    # It counts above whatever JobManager has.
    assert await mend(rig, held(state="RUNNING", attempt=1, event_seq=20)) == [T]
    assert (await rig.events())[-1].seq == 21


async def test_a_start_that_job_manager_has_lost_is_told_again(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    await rig.enqueue(a_task())
    assert await mend(rig, held()) == [T]
    last = (await rig.events())[-1]
    assert (last.kind, last.attempt, last.seq, last.node_id) == ("ATTEMPT_STARTED", 1, 2, "n1")
    assert await mend(rig, held(state="RUNNING", attempt=1, event_seq=2)) == []
    assert rig.running() == [FIRST]


async def test_numbers_that_task_manager_has_lost_are_not_used_twice(rig: TaskManagerRig) -> None:
    await rig.enqueue(a_task())
    assert await mend(rig, held(state="RUNNING", attempt=3, event_seq=7, node_id="n9")) == [T]
    last = (await rig.events())[-1]
    assert (last.kind, last.attempt, last.seq) == ("REQUEUED", 3, 8)
    await rig.nodes(a_node())
    assert rig.running() == [], "it may run on n9"
    (reason,) = [r for r in (await rig.queries.explain(T)).reasons if r.word == "may_still_run"]
    assert "n9" in reason.sentence
    await rig.beat("n1")
    assert rig.running() == []
    await rig.beat("n9")
    assert rig.running() == [AttemptId(T, 4)]
    assert (await rig.events())[-1].seq == 9


async def test_a_machine_that_may_have_the_task_blocks_it_until_it_is_declared_lost(rig: TaskManagerRig) -> None:
    await rig.enqueue(a_task())
    await mend(rig, held(state="RUNNING", attempt=1, event_seq=1, node_id="n9"))
    await rig.nodes(a_node())
    await rig.advance(200, beats=["n1"])
    assert rig.running() == [], "its leases may be suspended: silence proves nothing"
    await rig.engine.submit(NodeDeclaredLost(NodeId("n9"), "root"))
    await rig.settle()
    assert rig.running() == [SECOND]


async def test_an_old_run_is_cancelled(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    await rig.enqueue(a_task())
    assert await mend(rig, held(generation=2)) == [T]
    assert rig.state(T) == "STOPPING"
    await rig.end(FIRST, EndReason(EndWord.CANCELLED))
    assert rig.state(T) == "gone"


async def test_a_task_that_was_lost_is_queued_again_behind_what_may_run(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1"), a_node("n2"))
    await rig.beat("n1")
    again = replace(a_task(), attempt=2, event_seq=5)
    await rig.engine.submit(TaskCommands((EnqueueTask(again, b"", lost=True, suspect=NodeId("n2")),)))
    await rig.settle()
    assert rig.running() == []
    await rig.beat("n2")
    assert rig.running() == [AttemptId(T, 3)]
    assert [e.seq for e in await rig.events()] == [6]


async def beat(rig: TaskManagerRig, node: str, *attempts: LiveAttempt) -> HeartbeatReply:
    live = tuple(one.id for one in attempts)
    heartbeat = HeartbeatReceived(NodeId(node), 1, f"{node}:7004", live, False, False, attempts)
    answer: HeartbeatReply = await rig.engine.submit(heartbeat)
    await rig.settle()
    return answer


async def test_an_attempt_that_was_lost_is_taken_back(careful: TaskManagerRig) -> None:
    rig = careful
    await rig.nodes(a_node("n1", gpus=2), a_node("n2", gpus=2))
    await rig.enqueue(a_task(gpus=1))
    assert rig.running() == [], "nobody has been heard yet"
    runs = LiveAttempt(FIRST, 1, ("GPU-n1-1",), rig.clock.now(), rig.clock.now())
    assert (await beat(rig, "n1", runs)).discard == ()
    assert rig.running() == [FIRST]
    attempt = rig.engine.state.attempts[T]
    assert (attempt.node_id, attempt.gpu_uuids, attempt.state.value) == ("n1", ("GPU-n1-1",), "RUNNING")
    assert [(e.kind, e.attempt, e.node_id) for e in await rig.events()] == [("ATTEMPT_STARTED", 1, "n1")]
    await rig.restart()
    assert rig.running() == [FIRST]
    assert await rig.end(FIRST) == []
    assert rig.state(T) == "gone"


async def test_an_attempt_whose_gpu_was_given_to_another_is_discarded_and_waited_for(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1", gpus=1))
    await rig.enqueue(a_task("other", gpus=1))
    await rig.enqueue(a_task(gpus=1))
    runs = LiveAttempt(FIRST, 1, ("GPU-n1-0",))
    other = LiveAttempt(AttemptId(tid("other"), 1), 1, ("GPU-n1-0",))
    assert (await beat(rig, "n1", other, runs)).discard == (FIRST,)
    await rig.end(other.id)
    assert rig.running() == []
    await beat(rig, "n1")
    assert rig.running() == [FIRST]


async def test_after_a_start_nothing_starts_before_all_were_heard_and_job_manager_agrees(
    careful: TaskManagerRig,
) -> None:
    rig = careful
    await rig.nodes(a_node("n1"), a_node("n2"))
    await rig.beat("n1")
    await rig.beat("n2")
    await rig.enqueue(a_task("fresh"))
    assert len(rig.running()) == 1, "what came after the start was never run before"
    await rig.nodes(a_node("n1", cpu=100), a_node("n2", cpu=0))
    await rig.enqueue(a_task())
    await rig.restart()
    await rig.nodes(a_node("n1"), a_node("n2"))
    await rig.beat("n1")
    await rig.engine.submit(ServicesAgree())
    await rig.settle()
    assert T not in {attempt.task for attempt in rig.running()}
    (reason,) = [r for r in (await rig.queries.explain(T)).reasons if r.word == "may_still_run"]
    assert "n2" in reason.sentence
    await rig.beat("n2")
    assert FIRST in rig.running()


async def test_neither_a_dead_node_nor_a_job_manager_that_is_away_blocks_for_ever(careful: TaskManagerRig) -> None:
    rig = careful
    await rig.nodes(a_node("n1", cpu=0), a_node("n2"))
    await rig.enqueue(a_task())
    await rig.restart()
    await rig.nodes(a_node("n1"), a_node("n2"))
    await rig.advance(100, beats=["n1"])
    assert rig.running() == []
    await rig.advance(30, beats=["n1"])
    assert rig.running() == [FIRST]


async def test_an_unknown_attempt_is_spared_until_job_manager_has_been_asked(careful: TaskManagerRig) -> None:
    rig = careful
    await rig.nodes(a_node("n1"))
    runs = LiveAttempt(FIRST, 1)
    assert (await beat(rig, "n1", runs)).discard == ()
    assert "does not know" in rig.engine.state.unconfirmed[NodeId("n1")]
    end = AttemptReport(FIRST, NodeId("n1"), "SUCCEEDED", rig.clock.now(), exited(0), generation=1)
    with pytest.raises(Unavailable, match="first checks"):
        await rig.engine.submit(AttemptReports((end,)))
    # JobManager tells of the task: its end counts.
    await rig.engine.submit(TaskCommands((EnqueueTask(replace(a_task(), event_seq=3), b"", lost=True),)))
    assert await rig.engine.submit(AttemptReports((end,))) == []
    await rig.settle()
    assert (await rig.told())[-1] == ("t", "SUCCEEDED", 1, "exited")
    assert rig.state(T) == "gone"
    other = LiveAttempt(AttemptId(tid("other"), 1), 1)
    await rig.engine.submit(ServicesAgree())
    assert (await beat(rig, "n1", other)).discard == (other.id,)


async def test_what_is_on_its_way_is_no_difference(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    await rig.enqueue(a_task())
    queries = ComparisonQueries(rig.engine, rig.db)
    found, _seq = await queries._differences({T: held()})
    assert found[T][0] is D.AHEAD

    async def nothing() -> AsyncIterator[Any]:
        return
        yield

    reply = await queries.compare(nothing())
    assert not reply.differences, "its start has not been delivered yet"
    assert reply.command_seq == rig.seq


async def test_a_task_does_not_start_beside_an_unknown_attempt_that_could_not_be_taken_back(
    rig: TaskManagerRig,
) -> None:
    """It runs there until it has been discarded, though another node is free."""
    await rig.nodes(a_node("n1", gpus=1))
    await rig.enqueue(a_task("other", gpus=1))
    await rig.enqueue(a_task(gpus=1))
    runs = LiveAttempt(FIRST, 1, ("GPU-n1-0",))
    other = LiveAttempt(AttemptId(tid("other"), 1), 1, ("GPU-n1-0",))
    await beat(rig, "n1", other, runs)
    await rig.nodes(a_node("n2", gpus=1), reset=False)
    await rig.beat("n2")
    assert rig.running() == [other.id]
    await beat(rig, "n1", other)
    assert rig.running() == [other.id, FIRST]


async def test_an_unknown_attempt_that_is_older_than_the_task_is_not_taken_back(rig: TaskManagerRig) -> None:
    await rig.enqueue(replace(a_task(gpus=1), attempt=2))
    await rig.nodes(a_node("n1", gpus=1, cpu=0))
    runs = LiveAttempt(FIRST, 1, ("GPU-n1-0",), rig.clock.now(), rig.clock.now())
    assert (await beat(rig, "n1", runs)).discard == (FIRST,)
    assert rig.running() == []
