"""What a service has accepted is done before it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headway.store.batcher import Batcher


async def test_a_close_waits_for_what_is_at_work() -> None:
    """The database behind it is closed next: the commit that is under way would fail."""
    gate = asyncio.Event()

    async def handler(items: list[int]) -> Sequence[int]:
        await gate.wait()
        return items

    batcher: Batcher[int, int] = Batcher(handler, name="test")
    answer = asyncio.create_task(batcher.submit(1))
    await asyncio.sleep(0.01)
    closing = asyncio.create_task(batcher.close())
    await asyncio.sleep(0.05)
    assert not closing.done()
    gate.set()
    await closing
    assert await answer == 1
