"""Groups what has piled up into one piece of work.

    events = Batcher(apply_all, name="attempt-reports")        # async apply_all(list[Event]) -> list[Answer]
    answer = await events.submit(event)
    answers = await events.submit_many(request.events)
    await events.close()                                       # drains

An idle batcher hands a lone item on at once; while a batch is at work, newcomers wait for the next. So latency
stays that of one commit, and a burst of a thousand events costs a few commits instead of a thousand.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from ..errors import Stopping, StoreFull, Unavailable
from ..logs import get_logger

log = get_logger(__name__)
T = TypeVar("T")
R = TypeVar("R")

# Trying the items one by one can't help against these: the fault is not in an item.
_NOT_AN_ITEMS_FAULT = (Unavailable, StoreFull)


class Batcher(Generic[T, R]):
    """Calls `handler` with everything queued, one call at a time, in order of arrival.

    The handler answers one result per item; an exception as a result fails that item's submitter alone. If the
    handler raises, the items are tried one by one, so that a poisonous one fails alone. So a handler must have no
    effect when it raises (one transaction). Past `max_queued` waiting items `submit` waits.
    """

    def __init__(
        self,
        handler: Callable[[list[T]], Awaitable[Sequence[R | BaseException]]],
        *,
        name: str,
        max_batch: int = 1_000,
        max_queued: int = 10_000,
    ) -> None:
        self._handler = handler
        self._name = name
        self._max_batch = max_batch
        self._max_queued = max_queued
        self.on_batch: Callable[[int], None] = lambda items: None  # told how much one call of the handler gets
        self._queue: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def waiting(self) -> int:
        """Number of items not yet handed to the handler."""
        return len(self._queue)

    async def submit(self, item: T) -> R:
        """Hands one item in and waits for its result.

        A cancelled caller gives up the answer, not the work.

        Raises:
            Stopping: the batcher is closed.
            Exception: what the handler raised or answered for this item.
        """
        return await asyncio.shield(await self._enqueue(item))

    async def submit_many(self, items: Sequence[T]) -> list[R]:
        """Hands items in, in order, and waits for all; raises the first error after all have ended."""
        futures = [await self._enqueue(item) for item in items]
        if not futures:
            return []
        await asyncio.wait(futures)
        return [future.result() for future in futures]

    async def close(self) -> None:
        """Takes no more items and waits until all accepted ones have their results. Safe to call twice."""
        self._closed = True
        self._room.set()
        if self._worker is not None:
            await asyncio.shield(self._worker)

    async def _enqueue(self, item: T) -> asyncio.Future[R]:
        while len(self._queue) >= self._max_queued and not self._closed:
            self._room.clear()
            await self._room.wait()
        if self._closed:
            raise Stopping(f"{self._name} takes no more work: the service is stopping.")
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        # A submitter that went away must not leave "exception was never retrieved" behind.
        future.add_done_callback(_retrieve)
        self._queue.append((item, future))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name=f"batcher {self._name}")
        return future

    async def _work(self) -> None:
        try:
            while self._queue:
                size = min(len(self._queue), self._max_batch)
                batch = [self._queue.popleft() for _ in range(size)]
                self._room.set()
                self.on_batch(size)
                await self._handle(batch)
        finally:
            self._worker = None

    async def _handle(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await self._handler([item for item, _ in batch])
            if len(results) != len(batch):
                raise RuntimeError(f"{self._name}: {len(results)} results for {len(batch)} items")
        except Exception as error:
            if len(batch) == 1 or isinstance(error, _NOT_AN_ITEMS_FAULT):
                for _, future in batch:
                    _fail(future, error)
                return
            log.warning("batch.retried_singly", batcher=self._name, items=len(batch), reason=repr(error))
            for entry in batch:
                await self._handle([entry])
            return
        except BaseException:
            for _, future in batch:
                future.cancel()
            raise
        for (_, future), result in zip(batch, results, strict=True):
            if isinstance(result, BaseException):
                _fail(future, result)
            elif not future.done():
                future.set_result(result)


def _fail(future: asyncio.Future[R], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _retrieve(future: asyncio.Future[R]) -> None:
    if not future.cancelled():
        future.exception()
