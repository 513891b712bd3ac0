"""Turns among accounts: so many at a time, and who waits gets the next place by turns, whoever asked how often.

:class:`FairQueue` is pure and decides; :class:`Turns` lets tasks of asyncio wait for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """``places`` are held at a time, at most ``each`` of them by one account.

    Where there are several places, one is by default kept from each account for the others. So nobody waits for the end
    of another's long work, however much of it there is.
    """

    def __init__(self, places: int, each: int | None = None) -> None:
        self._free = places
        self._each = each if each is not None else max(1, places - 1)
        self._held: Counter[str] = Counter()
        # In the order of their turns: whoever gets a place goes to the end.
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()

    def put(self, account: str, item: T) -> None:
        """Lines up ``item`` behind the others of its account."""
        self._waiting.setdefault(account, deque()).append(item)

    def take(self) -> T | None:
        """The next item that gets a place; None while none can."""
        if self._free <= 0:
            return None
        account = next((name for name in self._waiting if self._held[name] < self._each), None)
        if account is None:
            return None
        own = self._waiting[account]
        item = own.popleft()
        if own:
            self._waiting.move_to_end(account)
        else:
            del self._waiting[account]
        self._free -= 1
        self._held[account] += 1
        return item

    def give_back(self, account: str) -> None:
        """A place of this account is free again."""
        self._free += 1
        self._held[account] -= 1
        if not self._held[account]:
            del self._held[account]

    def waiting(self) -> int:
        """How many items have no place yet."""
        return sum(len(own) for own in self._waiting.values())

    def drop(self, account: str, item: T) -> None:
        """``item`` no longer waits; fine if it doesn't."""
        own = self._waiting.get(account)
        if own is None or item not in own:
            return
        own.remove(item)
        if not own:
            del self._waiting[account]


class Turns:
    """A fair queue to wait in: ``async with turns.of("ann"): …``."""

    def __init__(self, places: int, each: int | None = None) -> None:
        self._queue: FairQueue[tuple[str, asyncio.Future[None]]] = FairQueue(places, each)

    def waiting(self) -> int:
        """How many wait for a place."""
        return self._queue.waiting()

    @asynccontextmanager
    async def of(self, account: str) -> AsyncIterator[None]:
        """A place, once it is this account's turn."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put(account, (account, turn))
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._queue.give_back(account)  # the place came together with the end
            self._queue.drop(account, (account, turn))
            self._serve()
            raise
        try:
            yield
        finally:
            self._queue.give_back(account)
            self._serve()

    def _serve(self) -> None:
        while (taken := self._queue.take()) is not None:
            account, turn = taken
            if turn.done():
                # Cancelled, and its task has not come to run since: it can't say that it waits no longer.
                self._queue.give_back(account)
            else:
                turn.set_result(None)
