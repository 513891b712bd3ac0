"""Gives watchers the attempts that changed, after the commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field

from headway.clock import Clock, SystemClock
from headway.errors import Stopping, Unavailable
from headway.ids import AttemptId

from .model import Attempt

_MOST_PENDING = 20_000


@dataclass(slots=True)
class _Watcher:
    pending: dict[AttemptId, Attempt] = field(default_factory=dict)
    queue_changed: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    behind: bool = False


class QueueEventHub:
    """Each watcher gets the latest state of each attempt that changed since its last look; no history piles up."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._watchers: list[_Watcher] = []
        self._closed = False
        self._closing = asyncio.Event()

    def publish(self, attempts: Iterable[Attempt], *, queue_changed: bool) -> None:
        """Gives changes to all watchers; it ends the watch of a watcher that is too slow."""
        if not self._watchers:
            return
        changed = {attempt.id: attempt for attempt in attempts}
        for watcher in self._watchers:
            watcher.pending.update(changed)
            watcher.queue_changed |= queue_changed
            if len(watcher.pending) > _MOST_PENDING:
                watcher.behind = True
                watcher.pending.clear()
            watcher.wake.set()

    def close(self) -> None:
        """Ends all watches."""
        self._closed = True
        self._closing.set()
        for watcher in self._watchers:
            watcher.wake.set()

    async def wait_closed(self) -> None:
        """Returns when all watches end."""
        await self._closing.wait()

    async def watch(self, *, every_s: float = 0.0) -> AsyncGenerator[tuple[list[Attempt], bool], None]:
        """Changes from now on: attempts as they are now, and whether the queue changed. The first item is empty.

        Changes come at most once in ``every_s``: of an attempt that changes faster, only the latest state is told.

        Raises:
            Unavailable: the watcher was too slow; it has to start anew.
            Stopping: the service stops.
        """
        watcher = _Watcher()
        self._watchers.append(watcher)
        try:
            yield [], False
            while True:
                if self._closed:
                    raise Stopping
                if watcher.behind:
                    raise Unavailable("This watcher fell behind; start anew.")
                if watcher.pending or watcher.queue_changed:
                    pending, changed = watcher.pending, watcher.queue_changed
                    watcher.pending, watcher.queue_changed = {}, False
                    yield list(pending.values()), changed
                    if every_s:
                        await self._clock.sleep(every_s)
                    continue
                watcher.wake.clear()
                await watcher.wake.wait()
        finally:
            self._watchers.remove(watcher)
