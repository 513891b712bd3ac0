"""The model's time: nobody can wait without time passing."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.interleavings.stage import MachineClock, TrueTime
from tests.support.interleavings.walk import one_thread


def test_whoever_waits_for_an_instant_comes_there() -> None:
    """Seed 1155 turned for ever: what was left to the instant was less than the smallest step of the true time."""
    instant = 11.30930698234329

    async def wait_for_it() -> None:
        time = TrueTime(monotonic=64.1111)
        clock = MachineClock(time, "n1", speed=0.96, wall_s=0.0)

        async def run() -> None:
            while clock.monotonic() < instant:
                await clock.sleep(min(instant - clock.monotonic(), 1e-15))

        clock._booted_at = time.monotonic() - (instant - 1e-15) / 0.96
        waiting = asyncio.get_running_loop().create_task(run())
        await time.advance(0.01)
        assert waiting.done()

    with one_thread() as loop:
        loop.run_until_complete(wait_for_it())


def test_a_loop_that_lets_no_time_pass_is_told() -> None:
    async def turn() -> None:
        time = TrueTime(monotonic=0.0)

        async def run() -> None:
            while True:
                await time.sleep(1e-9)

        spinning = asyncio.get_running_loop().create_task(run())
        try:
            await time.advance(1.0)
        finally:
            spinning.cancel()

    with one_thread() as loop, pytest.raises(AssertionError, match="again and again"):
        loop.run_until_complete(turn())
