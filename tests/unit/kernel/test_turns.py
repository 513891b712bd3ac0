"""Turns among accounts."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.turns import FairQueue, Turns


def test_whoever_asks_often_does_not_go_first_each_time() -> None:
    queue: FairQueue[str] = FairQueue(1)
    for number in range(5):
        queue.put("ann", f"ann {number}")
    queue.put("bob", "bob 0")
    order = []
    while (item := queue.take()) is not None:
        order.append(item)
        queue.give_back(item.split()[0])
    assert order == ["ann 0", "bob 0", "ann 1", "ann 2", "ann 3", "ann 4"]


def test_one_place_is_kept_for_others() -> None:
    queue: FairQueue[str] = FairQueue(2)
    for _ in range(5):
        queue.put("ann", "ann")
    assert queue.take() == "ann"
    assert queue.take() is None
    assert queue.waiting() == 4
    queue.put("bob", "bob")
    assert queue.take() == "bob"


def test_who_goes_away_leaves_nothing() -> None:
    queue: FairQueue[str] = FairQueue(1)
    queue.put("ann", "a")
    queue.drop("ann", "a")
    queue.drop("ann", "a")
    assert queue.take() is None


@given(
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60),
    places=st.integers(1, 4),
)
def test_never_more_than_there_are_and_nobody_is_left_out(steps: list[tuple[str, bool]], places: int) -> None:
    queue: FairQueue[str] = FairQueue(places)
    held: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    served: Counter[str] = Counter()

    def serve() -> None:
        while (item := queue.take()) is not None:
            held[item] += 1
            served[item] += 1
        assert held.total() <= places
        assert all(number <= max(1, places - 1) for number in held.values())

    for account, asks in steps:
        if asks:
            queue.put(account, account)
            asked[account] += 1
        elif held[account]:
            held[account] -= 1
            queue.give_back(account)
        serve()
    while held.total():
        account = next(iter(held.elements()))
        held[account] -= 1
        queue.give_back(account)
        serve()
    assert served == asked


async def test_five_of_one_do_not_hold_up_another() -> None:
    turns = Turns(2)
    gate, done = asyncio.Event(), []

    async def work(account: str) -> None:
        async with turns.of(account):
            if account == "ann":
                await gate.wait()
            done.append(account)

    tasks = [asyncio.create_task(work("ann")) for _ in range(5)]
    await asyncio.sleep(0)
    await asyncio.create_task(work("bob"))
    assert done == ["bob"]
    gate.set()
    await asyncio.gather(*tasks)
    assert done == ["bob"] + 5 * ["ann"]


async def test_a_place_is_not_lost_to_one_whose_end_is_under_way() -> None:
    """Streams of one session are cut together: those that hold a place and those that wait for one."""
    turns = Turns(1)
    gate, told = asyncio.Event(), []

    async def work(name: str) -> None:
        async with turns.of(name):
            await gate.wait()
            told.append(name)

    holder, waiter = asyncio.create_task(work("a")), asyncio.create_task(work("b"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gate.set()
    waiter.cancel()  # its future is cancelled at once; its task runs behind the holder's
    await holder
    with pytest.raises(asyncio.CancelledError):
        await waiter
    async with asyncio.timeout(5):
        await work("c")
    assert told == ["a", "c"]


@pytest.mark.parametrize("got_it", [False, True])
async def test_a_place_is_not_lost_with_who_waited_for_it(got_it: bool) -> None:
    turns = Turns(1)
    gate = asyncio.Event()

    async def hold() -> None:
        async with turns.of("ann"):
            await gate.wait()

    first = asyncio.create_task(hold())
    await asyncio.sleep(0)
    second = asyncio.create_task(hold())
    await asyncio.sleep(0)
    if got_it:
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.set()
    await asyncio.wait_for(hold(), 1)
