from __future__ import annotations

import asyncio

import pytest

from headway.clock import Clock
from tests.support.clock import FakeClock
from tests.support.waiting import eventually


async def test_a_loop_wakes_once_for_each_of_its_periods(clock: FakeClock) -> None:
    woke_at: list[float] = []

    async def loop() -> None:
        while True:
            await clock.sleep(10)
            woke_at.append(clock.monotonic())

    start = clock.monotonic()
    task = asyncio.create_task(loop())
    await clock.advance(60)
    assert [at - start for at in woke_at] == [10, 20, 30, 40, 50, 60]
    task.cancel()


async def test_sleepers_wake_in_the_order_of_their_deadlines(clock: FakeClock) -> None:
    order: list[str] = []

    async def wait(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        order.append(name)

    tasks = [asyncio.create_task(wait("late", 5)), asyncio.create_task(wait("early", 1))]
    await clock.advance(4)
    assert order == ["early"]
    await clock.advance(1)
    assert order == ["early", "late"]
    await asyncio.gather(*tasks)


async def test_a_cancelled_sleeper_is_forgotten(clock: FakeClock) -> None:
    task = asyncio.create_task(clock.sleep(5))
    await clock.settle()
    assert clock.sleeping == 1
    task.cancel()
    await clock.settle()
    assert clock.sleeping == 0
    await clock.advance(10)


async def test_the_wall_clock_steps_without_waking_anybody(clock: FakeClock) -> None:
    as_protocol: Clock = clock
    task = asyncio.create_task(as_protocol.sleep(60))
    before = clock.now(), clock.monotonic()
    clock.step_wall(3600)
    await clock.settle()
    assert not task.done()
    assert (clock.now(), clock.monotonic()) == (before[0] + 3600, before[1])
    task.cancel()


async def test_eventually_shows_the_assertion_that_never_held() -> None:
    def check() -> bool:
        assert 1 + 1 == 3, "still two"
        return True

    with pytest.raises(AssertionError, match="not within") as caught:
        await eventually(check, within_s=0.05)
    assert "still two" in str(caught.value.__cause__)
