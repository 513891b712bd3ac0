"""The hook for growth beside a real queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from headway.errors import Unavailable
from headway.states import Admission
from task_manager.autoscale.decision import Rules
from task_manager.autoscale.scaler import Autoscaler, Growth
from tests.support.clock import FakeClock

from ..rig import TaskManagerRig, a_node, a_task, a_task_manager, gpus_of, tid

RULES = Rules(waits_s=60, idle_s=900, cooldown_s=300, min_nodes=0, max_nodes=3)


class Told:
    def __init__(self) -> None:
        self.messages: list[Mapping[str, Any]] = []
        self.failure = ""

    async def tell(self, message: Mapping[str, Any]) -> None:
        self.messages.append(message)
        if self.failure:
            raise Unavailable(self.failure)


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock) as rig:
        yield rig


def scaler_of(rig: TaskManagerRig, told: Told | None) -> Autoscaler:
    return Autoscaler(rig.engine, rig.db, rig.clock, Growth(RULES, told, "lab"))


async def a_full_machine(rig: TaskManagerRig, *names: str) -> None:
    await rig.nodes(a_node("n1", gpus=gpus_of("n1", 1)))
    at = rig.clock.now()
    await rig.enqueue(*(a_task(name, at=at, gpus=1, timeout=7200.0) for name in ("runs", *names)))


async def later(rig: TaskManagerRig, seconds: float) -> None:
    for _ in range(int(seconds // 10)):
        rig.clock.tick(10)
        await rig.beat("n1")


async def test_it_is_told_once_in_a_cooldown_also_over_a_restart(rig: TaskManagerRig) -> None:
    told = Told()
    scaler = scaler_of(rig, told)
    await a_full_machine(rig, "a", "b")
    assert await scaler.look() is None
    await later(rig, 70)
    assert await scaler.look() is not None
    assert [(m["want"], m["lacks"][0]["count"]) for m in told.messages] == [("grow", 2)]
    await later(rig, 100)
    assert await scaler.look() is None
    again = scaler_of(rig, told)
    assert await again.look() is None
    await later(rig, 210)
    assert await again.look() is not None
    assert len(told.messages) == 2


async def test_a_wall_clock_that_is_set_back_does_not_lengthen_the_cooldown(rig: TaskManagerRig) -> None:
    told = Told()
    await a_full_machine(rig, "a")
    await later(rig, 70)
    await scaler_of(rig, told).look()
    rig.clock.step_wall(-86_400)
    again = scaler_of(rig, told)
    assert await again.look() is None
    await later(rig, 300)
    assert await again.look() is not None
    assert len(told.messages) == 2


async def test_held_tasks_are_not_asked_for(rig: TaskManagerRig) -> None:
    told = Told()
    await a_full_machine(rig)
    await rig.enqueue(a_task("held", at=rig.clock.now(), gpus=1, held=True))
    await later(rig, 100)
    assert await scaler_of(rig, told).look() is None


async def test_a_failure_is_counted_and_shown_until_a_call_works(rig: TaskManagerRig) -> None:
    told = Told()
    told.failure = "no quota left"
    scaler = scaler_of(rig, told)
    rig.engine.scheduling_choice.growth_failure = lambda: scaler.failure
    await a_full_machine(rig, "a")
    await later(rig, 70)
    await scaler.look()
    assert (scaler.calls, (await rig.queries.scheduling()).growth_failure) == ({"ok": 0, "failed": 1}, "no quota left")
    told.failure = ""
    await later(rig, 310)
    await scaler.look()
    assert (scaler.calls, (await rig.queries.scheduling()).growth_failure) == ({"ok": 1, "failed": 1}, "")


async def test_a_call_that_hangs_holds_up_no_pass(rig: TaskManagerRig) -> None:
    class Hangs:
        def __init__(self) -> None:
            self.called, self.go = asyncio.Event(), asyncio.Event()

        async def tell(self, message: Mapping[str, Any]) -> None:
            self.called.set()
            await self.go.wait()

    hook = Hangs()
    scaler = Autoscaler(rig.engine, rig.db, rig.clock, Growth(RULES, hook, "lab"))
    await a_full_machine(rig, "a")
    await later(rig, 70)
    looking = asyncio.create_task(scaler.look())
    await hook.called.wait()
    await rig.nodes(a_node("n1", gpus=gpus_of("n1", 1)), a_node("n2", gpus=gpus_of("n2", 1)))
    assert rig.state(tid("a")) == "RUNNING"
    hook.go.set()
    await looking


async def test_a_machine_that_was_idle_for_long_may_leave_and_one_that_works_may_not(rig: TaskManagerRig) -> None:
    told = Told()
    scaler = scaler_of(rig, told)
    await rig.nodes(a_node("n1", gpus=gpus_of("n1", 1)), a_node("n2", gpus=gpus_of("n2", 1)))
    await rig.enqueue(a_task("runs", at=rig.clock.now(), gpus=1, timeout=7200.0))
    await scaler.look()
    rig.clock.tick(890)
    assert await scaler.look() is None
    rig.clock.tick(20)
    await scaler.look()
    (busy,) = {str(a.node_id) for a in rig.engine.state.attempts.values()}
    (message,) = told.messages
    assert (message["want"], [one["node"] for one in message["idle"]]) == ("shrink", [{"n1": "n2", "n2": "n1"}[busy]])


async def test_a_hook_that_failed_half_way_is_told_of_the_same_machines_again(rig: TaskManagerRig) -> None:
    told = Told()
    scaler = scaler_of(rig, told)
    await rig.nodes(a_node("n1"))
    await scaler.look()
    rig.clock.tick(910)
    told.failure = "the machine does not stop"
    await scaler.look()
    await rig.nodes(a_node("n1", admission=Admission.DRAINED))
    told.failure = ""
    rig.clock.tick(310)
    await scaler.look()
    assert [[one["node"] for one in message["idle"]] for message in told.messages] == [["n1"], ["n1"]]
    rig.clock.tick(310)
    assert await scaler.look() is None


async def test_a_dry_run_tells_nobody(rig: TaskManagerRig) -> None:
    await a_full_machine(rig, "a")
    await later(rig, 70)
    scaler = scaler_of(rig, None)
    assert await scaler.look() is not None
    assert scaler.calls == {"ok": 0, "failed": 0}
