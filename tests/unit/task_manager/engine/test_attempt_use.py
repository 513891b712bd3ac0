"""What an attempt used and what its owner has to know while it runs, as its Worker tells it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.errors import InvalidInput
from headway.ids import AttemptId, JobId
from headway.rpc.v1 import task_manager_pb2 as pb
from headway.states import AttemptState
from task_manager import wire
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import JOB, TaskManagerRig, a_node, a_task, a_task_manager, exited, tid

FIRST = AttemptId(tid("t"), 1)
USE = pb.AttemptUse(measured_s=10, cpu_s=20, gpus=[pb.GpuUse(uuid="GPU-1", energy_j=7, idle_s=0)])


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock) as made:
        await made.nodes(a_node("n1"))
        await made.enqueue(a_task(retries=1))
        await made.beat(incarnation=7)
        yield made


async def shown(rig: TaskManagerRig) -> pb.AttemptView:
    views = [view async for part in rig.queries.attempts(JobId(JOB), []) for view in part.attempts]
    return next(view for view in views if view.attempt.number == 1)


async def test_the_sums_stay_with_the_attempt(rig: TaskManagerRig) -> None:
    assert not (await shown(rig)).HasField("use")
    data = USE.SerializeToString()
    for _ in range(2):  # the answer to the first report got lost
        await rig.report(FIRST, "SUCCEEDED", reason=exited(0), use=data)
        assert (await shown(rig)).use == USE
    told = await rig.told()
    await rig.restart()
    assert (await shown(rig)).use == USE
    await rig.report(FIRST, "SUCCEEDED", reason=exited(0), use=b"")
    assert (await shown(rig)).use == USE
    assert await rig.told() == told


async def test_an_end_without_sums_was_not_measured(rig: TaskManagerRig) -> None:
    await rig.report(FIRST, "SUCCEEDED", reason=exited(0))
    assert not (await shown(rig)).HasField("use")


async def test_sums_come_over_the_wire() -> None:
    report = pb.AttemptReport(kind="SUCCEEDED", use=USE, notice="Idle.")
    report.attempt.task.job_id, report.attempt.task.name, report.attempt.number = JOB, "t", 1
    (taken,) = wire.reports(pb.ReportAttemptsRequest(reports=[report])).reports
    assert (pb.AttemptUse.FromString(taken.use), taken.notice) == (USE, "Idle.")
    report.ClearField("use")
    (taken,) = wire.reports(pb.ReportAttemptsRequest(reports=[report])).reports
    assert taken.use == b""


async def test_a_notice_is_told_once_however_often_it_is_reported(rig: TaskManagerRig) -> None:
    await rig.report(FIRST, "PROCESS_STARTED", process_started_at=1.0)
    for _ in range(3):
        await rig.report(FIRST, "PROCESS_STARTED", process_started_at=1.0, notice="Idle for 30m.")
    await rig.report(FIRST, "PROCESS_STARTED", process_started_at=1.0, notice="Idle for 45m.")
    events = await rig.events()
    assert [event.notice for event in events if event.notice] == ["Idle for 30m.", "Idle for 45m."]
    assert len({event.seq for event in events}) == len(events)
    attempt = rig.engine.state.attempt(FIRST)
    assert attempt is not None
    assert attempt.state is AttemptState.RUNNING


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_heartbeat_with_a_time_that_is_none_is_refused_in_words(odd: float) -> None:
    for live in (pb.LiveAttempt(placed_at=odd), pb.LiveAttempt(process_started_at=odd)):
        live.attempt.task.job_id, live.attempt.task.name, live.attempt.number = JOB, "t", 1
        with pytest.raises(InvalidInput, match="must be a finite number"):
            wire.heartbeat(pb.HeartbeatRequest(node_id="n1", incarnation=1, attempts=[live]))
