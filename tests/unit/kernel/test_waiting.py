"""Waiting by the injected clock, and pauses that grow."""

from __future__ import annotations

import asyncio

import pytest

from headway.backoff import Backoff, grown_s
from headway.waiting import wait
from tests.support.clock import FakeClock


async def test_a_wait_ends_when_its_time_is_over(clock: FakeClock) -> None:
    waiting = asyncio.ensure_future(wait(asyncio.Event(), 10.0, clock))
    await clock.advance(9.9)
    assert not waiting.done()
    await clock.advance(0.1)
    assert await waiting is False


async def test_a_wait_ends_as_soon_as_the_event_is_set(clock: FakeClock) -> None:
    event = asyncio.Event()
    waiting = asyncio.ensure_future(wait(event, 10.0, clock))
    await clock.advance(1.0)
    event.set()
    await clock.settle()
    assert await waiting is True
    assert clock.sleeping == 0, "nothing goes on sleeping for it"


async def test_a_wait_for_what_is_set_already_lets_others_run_and_ends(clock: FakeClock) -> None:
    event = asyncio.Event()
    event.set()
    assert await wait(event, 10.0, clock) is True


async def test_a_cancelled_wait_ends_also_when_the_event_comes_in_the_same_turn(clock: FakeClock) -> None:
    event = asyncio.Event()
    waiting = asyncio.ensure_future(wait(event, 10.0, clock))
    await clock.settle()
    event.set()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await clock.settle()
    assert clock.sleeping == 0


def test_pauses_double_up_to_the_longest_and_begin_anew_after_a_reset() -> None:
    pauses = Backoff(0.5, 3.0)
    assert [pauses.next_s() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    pauses.reset()
    assert pauses.next_s() == 0.5


def test_pauses_can_grow_by_another_factor() -> None:
    pauses = Backoff(1.0, 256.0, factor=4.0)
    assert [pauses.next_s() for _ in range(6)] == [1.0, 4.0, 16.0, 64.0, 256.0, 256.0]


@pytest.mark.parametrize(("times", "want_s"), [(0, 0.1), (1, 0.2), (5, 3.2), (6, 5.0), (10_000, 5.0)])
def test_a_pause_has_grown_so_many_times(times: int, want_s: float) -> None:
    assert grown_s(times, first_s=0.1, most_s=5.0) == pytest.approx(want_s)
