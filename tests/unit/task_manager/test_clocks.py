"""A wall clock that is set while TaskManager runs or is away: order, ages, bookings and promises."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from headway.rpc.v1 import task_manager_pb2 as pb
from task_manager import clocks
from task_manager.answers.decision_log import DecisionLog
from task_manager.clocks import ClockReading, SteadyOffset
from task_manager.engine.events import TimePassed
from task_manager.order.policy_registry import by_name
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import SETTINGS, TaskManagerRig, a_node, a_task, a_task_manager, tid

BARE = replace(SETTINGS, start_limit_s=0.0, stop_limit_s=0.0)
HOUR_S = 3_600.0


def test_what_a_slow_message_tells_is_mended_by_a_quicker_one() -> None:
    here = ClockReading(1_000.0, 50.0, "mine")
    slow = clocks.updated_offset(None, "theirs", 8_190.0, here)
    assert slow == SteadyOffset("theirs", "mine", 8_140.0)
    assert clocks.updated_offset(slow, "theirs", 8_200.0, here) == SteadyOffset("theirs", "mine", 8_150.0)
    assert clocks.updated_offset(slow, "theirs", 8_190.2, here) is slow, "as good: nothing to write down"
    assert clocks.updated_offset(slow, "theirs", 8_180.0, here) is slow, "a slower one tells nothing"
    assert clocks.updated_offset(slow, "", 0.0, here) is slow
    assert clocks.updated_offset(slow, "another", 900.0, here) == SteadyOffset("another", "mine", 850.0), (
        "its machine started anew"
    )
    assert clocks.updated_offset(slow, "theirs", 900.0, replace(here, boot_id="next")) == SteadyOffset(
        "theirs", "next", 850.0
    )


def test_clocks_that_nobody_set_are_taken_for_one() -> None:
    here = ClockReading(1_000.0, 50.0, "mine")
    assert clocks.ahead_s(None, here) == 0
    assert clocks.ahead_s(SteadyOffset("theirs", "mine", 951.0), here) == 0
    assert clocks.ahead_s(SteadyOffset("theirs", "mine", 8_150.0), here) == 7_200
    assert clocks.ahead_s(SteadyOffset("theirs", "mine", -6_250.0), here) == -7_200
    assert clocks.ahead_s(SteadyOffset("theirs", "before", 8_150.0), here) == 0, "of another life of this machine"


async def entry(rig: TaskManagerRig, name: str) -> pb.QueueEntry:
    return await rig.queries.explain(tid(name))


@pytest.mark.parametrize("step_s", [2 * HOUR_S, -2 * HOUR_S])
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("order", ["aging_sjf", "hrrn", "fair"])
async def test_who_waits_keeps_turn_age_and_window(
    tmp_path: Path, clock: FakeClock, step_s: float, restarted: bool, order: str
) -> None:
    """JobManager's clock was not set with the wall clock: what it tells is by that of before."""
    began, before = clock.now(), clock.monotonic()

    async with a_task_manager(tmp_path, clock, settings=BARE, order=by_name(order)) as rig:

        async def enqueue(name: str) -> None:
            steady = began + clock.monotonic() - before
            rig.steady = ("theirs", steady)
            await rig.enqueue(a_task(name, gpus=1, at=steady, timeout=60))

        await rig.nodes(a_node(gpus=1))
        await rig.enqueue(a_task("runs", gpus=1, at=began, timeout=600))
        await enqueue("first")
        await rig.advance(20, beats=("n1",))
        clock.step_wall(step_s)
        if restarted:
            await rig.restart()
            await rig.nodes(a_node(gpus=1))
        await enqueue("second")
        first, second = await entry(rig, "first"), await entry(rig, "second")
        assert (first.position, second.position) == (1, 2)
        assert first.submitted_at == pytest.approx(began + step_s), "as the wall clock would have it now"
        assert first.terms["waited_s"] == pytest.approx(20, abs=1)
        assert second.terms["waited_s"] == pytest.approx(0, abs=1)
        assert not first.HasField("promised_start")
        await rig.advance(41, beats=("n1",))
        first, second = await entry(rig, "first"), await entry(rig, "second")
        assert first.HasField("promised_start") == (order == "aging_sjf"), "it has waited as long as its own timeout"
        assert not second.HasField("promised_start")
        log = DecisionLog(rig.db, clock, 7)
        assert len((await log.of_task(tid("first"), limit=9, before=0)).passes) == 0
        await rig.end(rig.only_attempt(tid("runs")))
        assert [attempt.task.name for attempt in rig.running()] == ["first"]
        for name in ("first", "second"):  # of which one waits still
            (kept,) = (await log.of_task(tid(name), limit=9, before=0)).passes
            assert [started.task.name for started in kept.started] == ["first"], name


@pytest.mark.parametrize("step_s", [2 * HOUR_S, -2 * HOUR_S])
async def test_promises_and_bookings_stand_though_the_clock_was_set_while_task_manager_was_away(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture, step_s: float
) -> None:
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        await rig.nodes(a_node(gpus=1))
        await rig.enqueue(a_task("runs", gpus=1, at=now, timeout=600))
        await rig.report(rig.only_attempt(tid("runs")), "PROCESS_STARTED", process_started_at=clock.now())
        await rig.enqueue(a_task("waits", gpus=1, at=now, timeout=60))
        await rig.advance(61, beats=("n1",))
        promised = (await entry(rig, "waits")).promised_start
        assert promised == pytest.approx(now + 600, abs=2)
        await rig.kill()
        clock.step_wall(step_s)
        clock.tick(10)
        await rig.start()
        await rig.nodes(a_node(gpus=1))
        again = await entry(rig, "waits")
        assert again.promised_start == pytest.approx(promised + step_s, abs=1)
        assert again.estimated_start == pytest.approx(now + 600 + step_s, abs=2)
        assert not {"promise.moved", "promise.missed"} & {record.getMessage() for record in caplog.records}


async def test_after_a_boot_the_wall_clock_tells_again(tmp_path: Path, clock: FakeClock) -> None:
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        await rig.nodes(a_node(gpus=1))
        rig.steady = ("theirs", now + HOUR_S)
        await rig.enqueue(a_task("runs", gpus=1, at=now + HOUR_S, timeout=600))
        await rig.enqueue(a_task("waits", gpus=1, at=now + HOUR_S, timeout=60))
        assert (await entry(rig, "waits")).submitted_at == pytest.approx(now)
        await rig.advance(61, beats=("n1",))
        promised = (await entry(rig, "waits")).promised_start
        await rig.kill()
        clock.reboot()
        clock.tick(100)
        await rig.start()
        await rig.nodes(a_node(gpus=1))
        again = await entry(rig, "waits")
        assert again.promised_start == pytest.approx(promised, abs=1)
        assert again.submitted_at == now + HOUR_S, "until JobManager tells its clock"
        rig.steady = ("theirs", now + HOUR_S + 161)
        await rig.enqueue(a_task("more", gpus=1, at=now + HOUR_S + 161, timeout=60))
        assert (await entry(rig, "waits")).submitted_at == pytest.approx(now, abs=1)


async def test_a_task_manager_that_was_stopped_for_a_while_takes_nobody_for_silent(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It was told nothing meanwhile; a start that was due is late for that, and no machine's fault."""
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        ticks = asyncio.create_task(rig.engine.run())
        await rig.nodes(a_node(gpus=1), a_node("n2", gpus=2))
        await rig.enqueue(a_task("runs", gpus=1, at=now, timeout=600))
        await rig.report(rig.only_attempt(tid("runs")), "PROCESS_STARTED", process_started_at=clock.now())
        await rig.enqueue(a_task("large", gpus=2, at=now, timeout=900))
        await rig.enqueue(a_task("waits", gpus=1, at=now, timeout=60))
        await rig.advance(590, beats=("n1", "n2"))
        assert (await entry(rig, "waits")).HasField("promised_start")
        clock.tick(60)
        await rig.engine.submit(TimePassed())
        await rig.end(rig.only_attempt(tid("runs")))
        assert {attempt.task.name for attempt in rig.running()} == {"large", "waits"}
        found = [record for record in caplog.records if record.getMessage().startswith(("promise.", "turn."))]
        assert [record.getMessage() for record in found] == ["turn.asleep", "promise.missed"]
        assert "Headway's scheduler was not running when it was due" in str(vars(found[1]))
        ticks.cancel()
