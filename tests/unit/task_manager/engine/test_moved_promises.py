"""Promises that no longer hold: who had one is told what it was and why; others' promises are no reason where they
took nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headway.rpc.v1 import task_manager_pb2 as pb
from task_manager.engine.events import ExtendTask
from task_manager.order.policy_registry import by_name
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import SETTINGS, TaskManagerRig, a_node, a_task, a_task_manager, tid

BARE = replace(SETTINGS, start_limit_s=0.0, stop_limit_s=0.0)


async def entry(rig: TaskManagerRig, name: str) -> pb.QueueEntry:
    return await rig.queries.explain(tid(name))


async def moved(rig: TaskManagerRig, name: str) -> list[str]:
    return [reason.sentence for reason in (await entry(rig, name)).reasons if reason.word == "promise_moved"]


async def runs_and_waits(rig: TaskManagerRig, clock: FakeClock) -> None:
    """Two of one GPU run, one of two waits, and one of a day behind it; those that wait are promised."""
    now = clock.now()
    await rig.nodes(a_node(gpus=2))
    rows = (("one", 3600, 1), ("another", 1800, 1), ("two", 600, 2), ("day", 86_400, 1))
    for number, (name, timeout, gpus) in enumerate(rows):
        await rig.enqueue(a_task(name, gpus=gpus, at=now - 10 + number, timeout=timeout))
    for name in ("one", "another"):
        await rig.report(rig.only_attempt(tid(name)), "PROCESS_STARTED", process_started_at=clock.now())
    for name in ("two", "day"):
        assert (await entry(rig, name)).HasField("promised_start")
        assert await moved(rig, name) == []


async def test_who_loses_a_promise_is_told_by_how_much_and_why(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_task_manager(tmp_path, clock, settings=BARE, order=by_name("fifo")) as rig:
        await runs_and_waits(rig, clock)
        before = (await entry(rig, "two")).promised_start
        await rig.engine.submit(ExtendTask(tid("one"), 120.0, by="root", request_id="r", force=True))
        await rig.settle()
        assert (await entry(rig, "two")).promised_start - before == pytest.approx(120, abs=1)
        cause = f"{tid('one')} on n1 was given more time"
        for name in ("two", "day"):
            assert await moved(rig, name) == [f"Its promised start has moved by 2m: {cause}."]
        assert [record.getMessage() for record in caplog.records].count("promise.moved") == 2
        await rig.restart()
        await rig.nodes(a_node(gpus=2))
        await rig.beat()
        assert len(await moved(rig, "two")) == 1, "it is remembered"
        await rig.end(rig.only_attempt(tid("another")))
        await rig.end(rig.only_attempt(tid("one")))
        assert [attempt.task.name for attempt in rig.running()] == ["two"]
        assert await moved(rig, "day") == [], "as good as it was, and better"
        assert rig.engine.state.moved_promises == {}


async def test_a_promise_that_was_given_after_another_task_came_is_no_reason(tmp_path: Path, clock: FakeClock) -> None:
    """It fills a gap before the other one, and takes nothing from it."""
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=BARE, order=by_name("fifo")) as rig:
        await rig.nodes(a_node(gpus=4))
        await rig.enqueue(a_task("long", gpus=1, at=now - 9, timeout=600))
        await rig.enqueue(a_task("short", gpus=3, at=now - 8, timeout=100))
        await rig.enqueue(a_task("all", gpus=4, at=now - 7, timeout=60))
        assert (await entry(rig, "all")).HasField("promised_start")
        await rig.advance(1)
        await rig.enqueue(a_task("fills", gpus=3, at=now, timeout=400))
        fills, late = await entry(rig, "fills"), await entry(rig, "all")
        assert fills.promised_start < late.promised_start
        assert "behind_promised_start" not in {reason.word for reason in late.reasons}
        await rig.advance(1)
        await rig.enqueue(replace(a_task("urgent", gpus=4, at=now, timeout=60), priority=1))
        assert "behind_promised_start" in {reason.word for reason in (await entry(rig, "urgent")).reasons}
