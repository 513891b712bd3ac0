"""When a pass is due: whenever it could say something else than the last one did, and not for each task of a burst."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from task_manager.engine import pass_input, queue_pass
from task_manager.engine.events import HoldTask, TaskCommands
from task_manager.order.policy_registry import by_name
from task_manager.planning.pass_model import Discipline
from task_manager.planning.scheduling_pass import plan_pass
from tests.support.clock import FakeClock
from tests.support.waiting import eventually
from tests.unit.task_manager.rig import SETTINGS, GiB, TaskManagerRig, a_node, a_task, a_task_manager, tid

FEW = replace(SETTINGS, reserved=3)


def passes(rig: TaskManagerRig, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by the number of waiting tasks with each pass."""
    made: list[int] = []

    def counted(seen: Any) -> Any:
        made.append(len(seen.queue))
        return plan_pass(seen)

    monkeypatch.setattr(queue_pass, "plan_pass", counted)
    return made


@pytest.mark.parametrize("how", ["cancelled", "held"])
async def test_what_was_kept_for_a_task_that_goes_starts_others_at_once(
    tmp_path: Path, clock: FakeClock, how: str
) -> None:
    """The card used to idle until something else happened."""
    async with a_task_manager(tmp_path, clock) as rig:
        await rig.nodes(a_node(gpus=2))
        now = clock.now()
        await rig.enqueue(a_task("runs", gpus=1, at=now, timeout=3_600))
        await rig.enqueue(a_task("large", gpus=2, at=now, timeout=60))
        await rig.enqueue(a_task("long", gpus=1, at=now, timeout=36_000))
        assert [attempt.task.name for attempt in rig.running()] == ["runs"]
        if how == "cancelled":
            await rig.cancel(tid("large"))
        else:
            await rig.engine.submit(TaskCommands((HoldTask(tid("large"), 1, 99),)))
        assert [attempt.task.name for attempt in rig.running()] == ["runs", "long"]


async def test_what_one_pass_leaves_is_started_by_the_next_one_at_once(tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock) as rig:
        await rig.nodes(a_node(cpu=100_000, memory=1_000 * GiB))
        await rig.enqueue(*(a_task(f"t{i}", at=clock.now()) for i in range(600)))
        for _ in range(10):
            await rig.settle()
        assert len(rig.running()) == 600
        assert len(set(rig.workers.launched)) == 600


async def test_a_task_that_can_neither_start_nor_be_reserved_for_takes_no_pass(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_task_manager(tmp_path, clock, settings=FEW) as rig:
        await rig.nodes(a_node(gpus=1, cpu=400))
        now = clock.now()
        await rig.enqueue(a_task("runs", gpus=1, at=now, timeout=100))
        await rig.enqueue(*(a_task(f"t{i}", gpus=1, at=now, timeout=100 + i) for i in range(4)))
        made = passes(rig, monkeypatch)
        await rig.enqueue(a_task("behind", gpus=1, at=now, timeout=1_000))
        assert made == []
        entry = await rig.queries.explain(tid("behind"))
        assert (entry.position, entry.estimate_rough) == (5, True)
        fifth = plan_now(rig).rough.at(5, a_task(gpus=1).shape)
        assert entry.estimated_start == pytest.approx(fifth.start_s - rig.engine.mono() + now)
        await rig.enqueue(a_task("ahead", gpus=1, at=now, timeout=10))
        assert made == [6], "it has a reservation"
        await rig.enqueue(a_task("other", gpus=0, at=now, timeout=2_000))
        assert made == [6, 7]
        assert tid("other") in rig.engine.state.attempts, "it could start"
        await rig.enqueue(a_task("shape", gpus=1, cpu=200, at=now, timeout=2_000))
        assert made == [6, 7, 7], "nobody knows yet whether there is room for such a one"


async def test_tasks_that_can_not_start_share_a_pass_where_many_come(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_task_manager(tmp_path, clock, settings=replace(FEW, arrivals_s=0.2)) as rig:
        await rig.nodes(a_node(gpus=1, cpu=400))
        now = clock.now()
        await rig.enqueue(a_task("runs", gpus=1, at=now, timeout=100))
        await rig.enqueue(*(a_task(f"t{i}", gpus=1, at=now, timeout=100 + i) for i in range(4)))
        made = passes(rig, monkeypatch)
        for number in range(3):
            await rig.enqueue(a_task(f"ahead{number}", gpus=1, at=now, timeout=50 + number))
        assert made == [], "none of them can start, and the last pass has only just been"
        entry = await rig.queries.explain(tid("ahead0"))
        assert (entry.position, entry.estimate_rough) == (1, True)
        await rig.enqueue(a_task("other", gpus=0, at=now, timeout=2_000))
        assert made == [8], "it could start"
        assert tid("other") in rig.engine.state.attempts
        await rig.enqueue(a_task("next", gpus=1, at=now, timeout=45))
        assert made == [8, 8], "a pass that started something may have left something out"
        await rig.enqueue(a_task("last", gpus=1, at=now, timeout=40))
        assert made == [8, 8]
        await clock.advance(0.2)
        await eventually(lambda: made == [8, 8, 9])
        entry = await rig.queries.explain(tid("last"))
        assert (entry.position, entry.estimate_rough) == (1, False)
        await clock.advance(1.0)
        await rig.enqueue(a_task("late", gpus=1, at=now, timeout=30))
        assert made == [8, 8, 9, 10], "nothing came for a while: at once"


async def test_under_a_rule_that_sorts_again_each_task_takes_a_pass(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_task_manager(tmp_path, clock, settings=FEW, order=by_name("hrrn")) as rig:
        await rig.nodes(a_node(gpus=1))
        now = clock.now()
        await rig.enqueue(a_task("runs", gpus=1, at=now, timeout=100))
        await rig.enqueue(*(a_task(f"t{i}", gpus=1, at=now, timeout=100 + i) for i in range(4)))
        made = passes(rig, monkeypatch)
        await rig.enqueue(a_task("behind", gpus=1, at=now, timeout=1_000))
        assert made == [5]


def plan_now(rig: TaskManagerRig) -> Any:
    """What a pass would say at this moment."""
    return plan_pass(pass_input.current_pass_input(rig.engine.state, rig.settings))


@pytest.mark.parametrize("discipline", list(Discipline))
async def test_a_pass_that_was_left_out_would_have_said_nothing_new(
    tmp_path: Path, clock: FakeClock, discipline: Discipline
) -> None:
    """After each of two hundred random events a pass made now starts nothing, and where a task came without one, it
    reserves and explains as the last one did."""
    rng = random.Random(str(discipline))
    settings = replace(SETTINGS, reserved=4, discipline=discipline)
    async with a_task_manager(tmp_path, clock, settings=settings) as rig:
        await rig.nodes(a_node("n1", gpus=4, cpu=400), a_node("n2", gpus=2, cpu=400), a_node("n3", cpu=200))
        left_out = 0
        for number in range(200):
            before = rig.engine.state.plan
            act = rng.random()
            came = False
            waiting = list(rig.engine.state.queue.in_order())
            if act < 0.25 and rig.running():
                attempt = rng.choice(rig.running())
                await rig.end(attempt, node=rig.engine.state.attempts[attempt.task].node_id)
            elif act < 0.35 and waiting:
                await rig.cancel(rng.choice(waiting[:6]))
            elif act < 0.4 and waiting:
                rig.seq += 1
                await rig.engine.submit(TaskCommands((HoldTask(rng.choice(waiting[:6]), 1, rig.seq),)))
            else:
                came = True
                await rig.enqueue(
                    a_task(
                        f"t{number}", at=clock.now(), timeout=rng.uniform(60, 6_000), gpus=rng.choice([0, 1, 1, 2, 4]),
                        cpu=rng.choice([100, 200]),
                    )
                )  # fmt: skip
            state = rig.engine.state
            now = plan_now(rig)
            assert now.placements == ()
            if state.plan is not None and came and before is not None and state.plan.waits is before.waits:
                left_out += 1
                assert dict(now.reservations) == {t: p for t, p in before.reservations.items() if t in state.queue}
                assert dict(now.waits) == {t: w for t, w in before.waits.items() if t in state.queue}
                assert now.rough == state.plan.rough
        assert left_out
