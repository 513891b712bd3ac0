"""Requests under way, by the session or token that they came with: they end together with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


class LiveRequests:
    """Who lets a request in enters it here; who ends a session or token calls :meth:`end`."""

    def __init__(self) -> None:
        self._ends: dict[str, dict[int, tuple[Callable[[bool], None], asyncio.Task[object] | None]]] = {}
        self._number = 0

    @contextmanager
    def entered(self, hash: str, end: Callable[[bool], None]) -> Iterator[None]:
        """While this lasts, ``end`` is called when the session or token of that hash ends.

        It is told whether its account is shut out: then what it still sends is not taken any more.
        """
        self._number += 1
        number = self._number
        self._ends.setdefault(hash, {})[number] = (end, asyncio.current_task())
        try:
            yield
        finally:
            of_hash = self._ends[hash]
            del of_hash[number]
            if not of_hash:
                del self._ends[hash]

    def end(self, hashes: Iterable[str], *, shut_out: bool) -> None:
        """Ends what came with these, but for the request that asks for it: that one still gets its answer."""
        asking = asyncio.current_task()
        for hash in hashes:
            for end, task in list(self._ends.get(hash, {}).values()):
                if task is None or task is not asking:
                    end(shut_out)

    def hashes(self) -> list[str]:
        """Of all that are under way."""
        return list(self._ends)
