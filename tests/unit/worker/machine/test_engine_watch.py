"""What the engine's answers mean for the node."""

from __future__ import annotations

from tests.support.clock import FakeClock
from tests.unit.worker.fakes import FakeRuntime
from worker.machine.conditions import Conditions
from worker.machine.engine_watch import EngineWatch
from worker.ports import EngineFacts


async def test_an_engine_without_live_restore_is_a_condition_that_blocks_no_work(clock: FakeClock) -> None:
    """An engine that was stopped ended all tasks of the machine, and nothing had told that it would."""
    runtime, conditions = FakeRuntime(clock), Conditions(clock)
    watch = EngineWatch(runtime, conditions, clock)
    runtime.facts = EngineFacts("20.10", keeps_containers=False)
    assert await watch.look()
    (condition,) = conditions.now
    assert (condition.word, condition.blocks_work) == ("live_restore_off", False)
    assert '"live-restore": true' in condition.sentence
    runtime.facts = EngineFacts("20.10", keeps_containers=True)
    await watch.look()
    assert conditions.now == []


async def test_an_engine_that_does_not_answer_blocks_work_until_it_does(clock: FakeClock) -> None:
    runtime, conditions = FakeRuntime(clock), Conditions(clock)
    watch = EngineWatch(runtime, conditions, clock)
    runtime.away = True
    assert not await watch.look()
    (condition,) = conditions.now
    assert (condition.word, condition.blocks_work) == ("engine_unavailable", True)
    runtime.away = False
    assert await watch.look()
    assert conditions.now == []
