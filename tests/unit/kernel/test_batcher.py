"""Batches: grouped, ordered, bounded, and no item can hurt another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headway.errors import Stopping, StoreFull
from headway.store import Batcher


class Handler:
    """Answers ten times the number; stands still while its gate is shut; refuses the poisonous."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.poison: dict[int, Exception] = {}
        self.answers: dict[int, Exception] = {}

    async def __call__(self, items: list[int]) -> Sequence[int | BaseException]:
        self.batches.append(items)
        await self.gate.wait()
        for item in items:
            if item in self.poison:
                raise self.poison[item]
        return [self.answers.get(item, item * 10) for item in items]


@pytest.fixture
async def handler() -> Handler:
    return Handler()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_lone_item_goes_at_once(handler: Handler) -> None:
    assert await Batcher(handler, name="t").submit(1) == 10
    assert handler.batches == [[1]]


async def test_what_piles_up_meanwhile_is_one_batch_in_order(handler: Handler) -> None:
    batcher = Batcher(handler, name="t")
    handler.gate.clear()
    first = asyncio.create_task(batcher.submit(0))
    await settle()
    rest = [asyncio.create_task(batcher.submit(i)) for i in range(1, 6)]
    await settle()
    handler.gate.set()
    assert await asyncio.gather(first, *rest) == [0, 10, 20, 30, 40, 50]
    assert handler.batches == [[0], [1, 2, 3, 4, 5]]


async def test_many_are_handed_in_together(handler: Handler) -> None:
    batcher = Batcher(handler, name="t", max_batch=3)
    assert await batcher.submit_many([1, 2, 3, 4]) == [10, 20, 30, 40]
    assert handler.batches == [[1, 2, 3], [4]]
    assert await batcher.submit_many([]) == []


async def test_a_poisonous_item_fails_alone(handler: Handler) -> None:
    batcher = Batcher(handler, name="t")
    handler.poison[2] = ValueError("bad")
    results = await asyncio.gather(*(batcher.submit(i) for i in range(4)), return_exceptions=True)
    assert [r if isinstance(r, int) else str(r) for r in results] == [0, 10, "bad", 30]
    assert handler.batches == [[0, 1, 2, 3], [0], [1], [2], [3]]


async def test_a_full_disk_fails_all_without_trying_each(handler: Handler) -> None:
    batcher = Batcher(handler, name="t")
    handler.poison[0] = StoreFull()
    results = await asyncio.gather(*(batcher.submit(i) for i in range(3)), return_exceptions=True)
    assert all(isinstance(r, StoreFull) for r in results)
    assert handler.batches == [[0, 1, 2]]


async def test_an_answer_may_be_an_error_for_one(handler: Handler) -> None:
    batcher = Batcher(handler, name="t")
    handler.answers[1] = KeyError("no")
    assert await batcher.submit(0) == 0
    with pytest.raises(KeyError):
        await batcher.submit(1)
    with pytest.raises(KeyError):
        await batcher.submit_many([0, 1, 2])


async def test_a_wrong_number_of_answers_is_a_bug_that_raises() -> None:
    async def short(items: list[int]) -> list[int]:
        return []

    with pytest.raises(RuntimeError, match="0 results for 1 items"):
        await Batcher(short, name="t").submit(1)


async def test_past_the_bound_submitters_wait(handler: Handler) -> None:
    batcher = Batcher(handler, name="t", max_queued=2)
    handler.gate.clear()
    tasks = [asyncio.create_task(batcher.submit(i)) for i in range(6)]
    await settle()
    assert batcher.waiting <= 2
    handler.gate.set()
    assert await asyncio.gather(*tasks) == [0, 10, 20, 30, 40, 50]
    assert [i for batch in handler.batches for i in batch] == [0, 1, 2, 3, 4, 5]


async def test_a_cancelled_submitter_gives_up_the_answer_not_the_work(handler: Handler) -> None:
    batcher = Batcher(handler, name="t")
    handler.gate.clear()
    task = asyncio.create_task(batcher.submit(1))
    await settle()
    task.cancel()
    await settle()
    handler.gate.set()
    assert await batcher.submit(2) == 20
    assert handler.batches == [[1], [2]]


async def test_close_drains_and_then_refuses(handler: Handler) -> None:
    batcher = Batcher(handler, name="t")
    tasks = [asyncio.create_task(batcher.submit(i)) for i in range(3)]
    await settle()
    await batcher.close()
    assert await asyncio.gather(*tasks) == [0, 10, 20]
    with pytest.raises(Stopping):
        await batcher.submit(9)
    await batcher.close()
