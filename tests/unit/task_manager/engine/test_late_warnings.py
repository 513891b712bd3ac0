"""Warnings that come after an attempt's end change nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.ids import AttemptId, JobId, NodeId
from task_manager.engine.events import AttemptReports, LateWarnings
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import JOB, TaskManagerRig, a_node, a_task, a_task_manager, exited, tid

FIRST = AttemptId(tid("t"), 1)
SECOND = AttemptId(tid("t"), 2)


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock) as made:
        await made.nodes(a_node("n1"))
        await made.enqueue(a_task(retries=1))
        await made.beat(incarnation=7)
        yield made


async def tell(rig: TaskManagerRig, *warnings: str, attempt: AttemptId = FIRST, **other: object) -> None:
    facts: dict[str, object] = {"node_id": NodeId("n1"), "incarnation": 7, "generation": 1, **other}
    told = LateWarnings(attempt, warnings=warnings, **facts)  # type: ignore[arg-type]
    assert await rig.engine.submit(AttemptReports((), (told,))) == []


async def shown(rig: TaskManagerRig, number: int = 1) -> list[str]:
    views = [view async for part in rig.queries.attempts(JobId(JOB), []) for view in part.attempts]
    return next(list(view.warnings) for view in views if view.attempt.number == number)


async def test_a_warning_after_the_end_is_shown_changes_and_goes(rig: TaskManagerRig) -> None:
    await rig.report(FIRST, "SUCCEEDED", reason=exited(0), warnings=("of the end",))
    assert rig.state(tid("t")) == "gone"
    told = await rig.told()
    for warnings in (["full"], ["full", "no log"], []):
        await tell(rig, *warnings)
        assert await shown(rig) == ["of the end", *warnings]
    assert await rig.told() == told
    await tell(rig, "full")
    await rig.restart()
    assert await shown(rig) == ["of the end", "full"]


async def test_a_warning_about_an_earlier_attempt_leaves_the_running_one_alone(rig: TaskManagerRig) -> None:
    """The task of an attempt that has ended may run again, with its GPUs booked."""
    await rig.end(FIRST, exited(1))
    assert rig.running() == [SECOND]
    await tell(rig, "full")
    assert rig.running() == [SECOND]
    assert await shown(rig) == ["full"]
    assert await shown(rig, 2) == []


async def test_one_that_comes_before_its_end_is_kept(rig: TaskManagerRig) -> None:
    await tell(rig, "full")
    assert rig.running() == [FIRST]
    await rig.end(FIRST)
    assert await shown(rig) == ["full"]


@pytest.mark.parametrize(
    "other",
    [
        {"node_id": NodeId("n2")},
        {"generation": 2},
        {"incarnation": 6},
        {"attempt": SECOND},
        {"attempt": AttemptId(tid("no-such"), 1)},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_who_did_not_run_it_can_say_nothing_of_it(rig: TaskManagerRig, other: dict[str, object]) -> None:
    await rig.end(FIRST)
    await tell(rig, "false", **other)  # type: ignore[arg-type]
    assert await shown(rig) == []


async def test_warnings_are_few_and_short(rig: TaskManagerRig) -> None:
    await rig.end(FIRST)
    await tell(rig, *["x" * 5_000] * 50)
    assert [len(one) for one in await shown(rig)] == [1_000] * 8
