"""The fixture's start times through the live queue: engine, book, database and passes, on a clock that is advanced."""

from __future__ import annotations

import heapq
from dataclasses import replace
from pathlib import Path

import pytest

from headway.ids import NodeId
from task_manager.engine.events import AttemptReport, AttemptReports
from task_manager.engine.leases import LeaseSettings
from task_manager.order import policy_registry
from task_manager.planning.pass_model import Discipline
from task_manager.settings import TaskManagerSettings
from tests.support.clock import FakeClock
from tests.support.scheduling import fixture_rows
from tests.unit.task_manager.rig import TaskManagerRig, a_node, a_task, a_task_manager, exited, tid

# Nobody needs to be heard. The end of a run is heard of in the instant in which it must have come, but behind the pass
# that is due then: a hundredth of a second keeps that from being called late.
EXACT = TaskManagerSettings(
    LeaseSettings(lease_s=1e9, heartbeat_s=1e9), start_limit_s=1e9, booked_start_s=0.0, booked_stop_s=0.01
)


STARTS = fixture_rows("table2_like_starts.csv")


async def _lived(rig: TaskManagerRig, rows: list[dict[str, float]]) -> dict[int, float]:
    """When each task was placed, by the clock that began at 0."""
    clock, starts = rig.clock, {}
    instants: list[tuple[float, int, int]] = [(row["submit_s"], 1, i) for i, row in enumerate(rows)]
    heapq.heapify(instants)
    while instants:
        at, arrives, i = heapq.heappop(instants)
        await clock.advance(max(0.0, at - clock.monotonic()))
        if arrives:
            row = rows[i]
            task = a_task(f"t{i:02d}", at=at, timeout=row["timeout_s"], gpus=int(row["gpus"]), cpu=1)
            await rig.enqueue(task)
        else:
            await rig.end(rig.only_attempt(tid(f"t{i:02d}")))
        for attempt in rig.engine.state.attempts.values():
            number = int(attempt.id.task.name[1:])
            if number not in starts:
                starts[number] = attempt.placed_at
                heapq.heappush(instants, (attempt.placed_at + rows[number]["runtime_s"], 0, number))
    return starts


@pytest.mark.parametrize("discipline", [Discipline.CONSERVATIVE, Discipline.EASY])
@pytest.mark.parametrize("name", [name for name in STARTS[0] if name != "id"])
async def test_twenty_tasks_start_when_the_fixture_says(name: str, discipline: Discipline, tmp_path: Path) -> None:
    clock = FakeClock(now=0.0, monotonic=0.0)
    settings = replace(EXACT, discipline=discipline)
    async with a_task_manager(tmp_path, clock, settings=settings, order=policy_registry.by_name(name)) as rig:
        await rig.nodes(a_node(gpus=2, cpu=10_000))
        starts = await _lived(rig, fixture_rows("table2_like.csv"))
    assert starts == pytest.approx({int(row["id"]): row[name] for row in STARTS}, abs=1e-6)


async def test_two_hundred_tasks_of_a_second_keep_eight_slots_busy(tmp_path: Path, clock: FakeClock) -> None:
    """Each slot has its next task at the very moment at which it comes free."""
    async with a_task_manager(tmp_path, clock, settings=EXACT) as rig:
        await rig.nodes(a_node(gpus=8))
        began = clock.now()
        await rig.enqueue(*(a_task(f"t{number}", gpus=1, at=began, timeout=1) for number in range(200)))
        left = 200
        while left:
            running = rig.running()
            assert len(running) == min(8, left)
            assert {attempt.placed_at for attempt in rig.engine.state.attempts.values()} == {clock.now()}
            assert set(running) <= set(rig.workers.launched)
            await clock.advance(1)
            ends = tuple(
                AttemptReport(attempt, NodeId("n1"), "SUCCEEDED", clock.now(), reason=exited()) for attempt in running
            )
            await rig.engine.submit(AttemptReports(ends))
            await rig.settle()
            left -= len(running)
        assert clock.now() - began == 25
