"""Many alarms on one clock that tests move."""

from __future__ import annotations

import asyncio

from tests.support.clock import FakeClock
from worker.alarms import Alarms


async def test_alarms_ring_in_order_and_not_when_cancelled(clock: FakeClock) -> None:
    alarms, rung = Alarms(clock), list[str]()
    run = asyncio.create_task(alarms.run())
    now = clock.monotonic()
    alarms.set(now + 20, lambda: rung.append("late"))
    await clock.settle()
    alarms.set(now + 10, lambda: rung.append("early"))
    cancelled = alarms.set(now + 15, lambda: rung.append("never"))
    alarms.cancel(cancelled)
    alarms.cancel(cancelled)
    await clock.advance(12)
    assert rung == ["early"]
    await clock.advance(10)
    assert rung == ["early", "late"]
    run.cancel()


async def test_cancelled_alarms_hold_nothing_in_memory(clock: FakeClock) -> None:
    alarms = Alarms(clock)
    for _ in range(10_000):
        alarms.cancel(alarms.set(clock.monotonic() + 86_400, lambda: None))
    assert len(alarms._heap) < 200
