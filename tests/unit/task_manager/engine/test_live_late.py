"""Promises with slack in the live queue: given at once, stored, kept over restarts and set clocks, and moved last."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from headway.errors import PromisesMove
from headway.rpc.v1 import task_manager_pb2 as pb
from task_manager.engine.events import ExtendTask, SetScheduling
from task_manager.planning.pass_model import PromiseRule
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import SETTINGS, TaskManagerRig, a_node, a_task, a_task_manager, tid

LATE = replace(SETTINGS, start_limit_s=0.0, stop_limit_s=0.0, promises=PromiseRule.LATE)


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    """One of ten minutes runs on the only GPU; one of five minutes waits, and one of a minute behind it."""
    async with a_task_manager(tmp_path, clock, settings=LATE) as made:
        now = clock.now()
        await made.nodes(a_node(gpus=1))
        await made.enqueue(a_task("runs", gpus=1, at=now, timeout=600.0))
        await made.report(made.only_attempt(tid("runs")), "PROCESS_STARTED", process_started_at=now)
        await made.enqueue(a_task("waits", gpus=1, at=now, timeout=300.0))
        await made.enqueue(a_task("behind", gpus=1, at=now + 400.0, timeout=60.0))
        yield made


async def entry(rig: TaskManagerRig, name: str) -> pb.QueueEntry:
    return await rig.queries.explain(tid(name))


async def promised(rig: TaskManagerRig, name: str) -> float:
    found = await entry(rig, name)
    assert found.HasField("promised_start"), name
    return found.promised_start


async def extend(rig: TaskManagerRig, seconds: float, **more: bool) -> None:
    await rig.engine.submit(ExtendTask(tid("runs"), seconds, "ann", request_id=f"r{seconds}", **more))
    await rig.settle()


async def test_every_task_is_promised_a_start_in_the_pass_of_its_submission(rig: TaskManagerRig) -> None:
    now = rig.clock.now()
    assert await promised(rig, "waits") == pytest.approx(now + 600 + 300, abs=2)
    assert await promised(rig, "behind") == pytest.approx(now + 900 + 60, abs=2)
    assert (await entry(rig, "behind")).estimated_start == pytest.approx(now + 900, abs=1)


async def test_it_is_told_how_a_promise_fell(rig: TaskManagerRig) -> None:
    first = await promised(rig, "waits")
    assert not (await entry(rig, "waits")).HasField("first_promised_start")
    await rig.advance(300, beats=("n1",))
    await rig.enqueue(a_task("other", gpus=1, timeout=30.0, at=rig.clock.now()))
    found = await entry(rig, "waits")
    assert found.promised_start < first - 60, "half of the wait is over, and half of the slack is gone"
    assert found.first_promised_start == pytest.approx(first, abs=1)
    view = await rig.queries.scheduling()
    assert (view.promises, view.promised) == ("late", 3)
    assert 60 < view.slack_s < 300


async def test_the_rule_is_told_as_configured_whatever_overtakes_now(rig: TaskManagerRig) -> None:
    """Used to tell `settled` under `greedy`: the page then said that `fair` would promise nothing if set with
    `conservative`."""
    await rig.engine.submit(SetScheduling(None, "greedy", "root"))
    await rig.settle()
    view = await rig.queries.scheduling()
    assert (view.discipline, view.promises) == ("greedy", "late")


@pytest.mark.parametrize("reboot", [False, True], ids=["restart", "reboot"])
async def test_promises_survive_restarts_and_clocks_that_are_set(rig: TaskManagerRig, reboot: bool) -> None:
    told = {name: await promised(rig, name) for name in ("waits", "behind")}
    places = dict(rig.engine.state.reservations)
    if reboot:
        rig.clock.reboot()
    else:
        rig.clock.step_wall(7_200.0)
    await rig.restart()
    await rig.nodes(a_node(gpus=1))
    kept, later_s = rig.engine.state.reservations, 0.0 if reboot else 7_200.0
    assert kept.keys() == places.keys()
    for task_id, place in places.items():
        assert kept[task_id].first_wait_s == place.first_wait_s
        assert place.first_promised_s is not None
        assert await promised(rig, task_id.name) <= told[task_id.name] + later_s + 1
    await rig.end(rig.only_attempt(tid("runs")))
    assert [attempt.task.name for attempt in rig.running()] == ["waits"]


async def test_more_time_is_granted_where_slack_absorbs_it(rig: TaskManagerRig) -> None:
    before = await promised(rig, "waits"), await promised(rig, "behind")
    await extend(rig, 50.0)
    assert (await promised(rig, "waits"), await promised(rig, "behind")) <= before
    assert rig.engine.state.moved_promises == {}
    with pytest.raises(PromisesMove, match="2 tasks would start later than promised"):
        await extend(rig, 1_000.0)
    await extend(rig, 1_000.0, force=True)
    moved = [reason.sentence for reason in (await entry(rig, "waits")).reasons if reason.word == "promise_moved"]
    assert len(moved) == 1
    assert moved[0].endswith(f": {tid('runs')} on n1 was given more time.")
    assert await promised(rig, "waits") - before[0] <= 1_000.0


async def test_a_place_that_this_pass_did_not_search_is_told_as_a_rough_estimate(
    tmp_path: Path, clock: FakeClock
) -> None:
    """It is the latest start that keeps the promise, so it was once told as if the task would start then."""
    async with a_task_manager(tmp_path, clock, settings=replace(LATE, reserved=1)) as made:
        now = clock.now()
        await made.nodes(a_node(gpus=1))
        await made.enqueue(a_task("runs", gpus=1, at=now, timeout=600.0))
        await made.report(made.only_attempt(tid("runs")), "PROCESS_STARTED", process_started_at=now)
        for number in range(4):
            await made.enqueue(a_task(f"w{number}", gpus=1, at=now, timeout=300.0 + number))
        told = {name: await entry(made, name) for name in ("w0", "w2", "w3")}
        assert all(one.HasField("promised_start") for one in told.values())
        assert [told[name].estimate_rough for name in ("w0", "w2", "w3")] == [False, True, False]


async def test_when_a_crowd_moves_most_of_it_is_told_in_one_line(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_task_manager(tmp_path, clock, settings=LATE) as made:
        now = clock.now()
        await made.nodes(a_node(gpus=1))
        await made.enqueue(a_task("runs", gpus=1, at=now, timeout=600.0))
        await made.report(made.only_attempt(tid("runs")), "PROCESS_STARTED", process_started_at=now)
        for number in range(25):
            await made.enqueue(a_task(f"w{number}", gpus=1, at=now, timeout=10.0))
        await extend(made, 86_400.0, force=True)
        lines = [record.getMessage() for record in caplog.records]
        assert lines.count("promise.moved") == 10
        (rest,) = [record for record in caplog.records if record.getMessage() == "promises.moved_too"]
        assert "15" in str(vars(rest))
