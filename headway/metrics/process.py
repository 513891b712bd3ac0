"""One registry for one process, and its text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from prometheus_client import CollectorRegistry, Gauge, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ..logs import get_logger
from ..plugins import own_version
from .shared import DatabaseNumbers, LoopLag, RpcNumbers

if TYPE_CHECKING:
    from ..lifecycle import Service

log = get_logger(__name__)

_BATCH_BUCKETS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0)
_LOOK_S = 2.0  # for all that is asked of a database together
_FRESH_S = 1.0  # it is not asked more often


class Inbox(Protocol):
    """What collects work into batches: ``headway.store.Batcher``."""

    on_batch: Callable[[int], None]

    @property
    def waiting(self) -> int: ...


class Pump(Protocol):
    """What delivers an outbox: ``headway.store.outbox.OutboxPump``."""

    target: str

    async def backlog(self) -> tuple[int, float]:
        """How many rows wait, and for how many seconds the oldest does."""
        ...


class Metrics:
    """All numbers of one process. Made once, and handed to whoever counts; belongs to the event loop."""

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        about = Gauge("headway_info", "Always 1", ["service", "version"], registry=self.registry)
        about.labels(service.name, own_version()).set(1)
        ready = Gauge("headway_ready", "1 while the service takes work", registry=self.registry)
        ready.set_function(lambda: float(service.health.ready))
        self._lag = LoopLag(self.registry)
        self.rpc = RpcNumbers(self.registry)
        self.database = DatabaseNumbers(self.registry)
        self._inboxes: tuple[Gauge, Histogram] | None = None
        self._outboxes: tuple[Gauge, Gauge] | None = None
        self._hooks: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        self._looked_s = float("-inf")
        self._looking = asyncio.Lock()
        self._hanging: dict[str, asyncio.Future[None]] = {}
        service.on_stop(self._lag.close)

    def watch_inbox(self, name: str, inbox: Inbox) -> None:
        """Counts how much waits there, and how much goes into one transaction."""
        if self._inboxes is None:
            self._inboxes = (
                Gauge("headway_inbox_items", "Work that waits for a transaction", ["inbox"], registry=self.registry),
                Histogram(
                    "headway_inbox_batch_items",
                    "Pieces of work in one transaction",
                    ["inbox"],
                    buckets=_BATCH_BUCKETS,
                    registry=self.registry,
                ),
            )
        waiting, batches = self._inboxes
        waiting.labels(name).set_function(lambda: inbox.waiting)
        inbox.on_batch = batches.labels(name).observe

    def watch_outbox(self, pump: Pump) -> None:
        """Asks at each scrape how much waits for delivery."""
        if self._outboxes is None:
            self._outboxes = (
                Gauge("headway_outbox_rows", "Events that wait for delivery", ["target"], registry=self.registry),
                Gauge(
                    "headway_outbox_oldest_age_seconds",
                    "For how long the oldest event has waited; 0: none waits",
                    ["target"],
                    registry=self.registry,
                ),
            )
        rows, age = (gauge.labels(pump.target) for gauge in self._outboxes)

        async def look() -> None:
            waiting, oldest_s = await pump.backlog()
            rows.set(waiting)
            age.set(oldest_s)

        self.before_scrape(f"outbox {pump.target}", look)

    def before_scrape(self, name: str, look: Callable[[], Awaitable[None]]) -> None:
        """Calls ``look`` before a scrape, at most once a second. Where it fails, the old values stay."""
        self._hooks.append((name, look))

    async def as_text(self) -> tuple[bytes, str]:
        """Prometheus text and its media type."""
        self._lag.asked()
        async with self._looking:
            if time.monotonic() - self._looked_s >= _FRESH_S:
                await self._look_at_all()
                self._looked_s = time.monotonic()
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    async def _look_at_all(self) -> None:
        # Side by side, and no longer than that in all: a database that hangs makes each of them hang.
        looks = {name: asyncio.ensure_future(self._look(name, look)) for name, look in self._hooks
                 if name not in self._hanging}  # fmt: skip
        if looks:
            await asyncio.wait(looks.values(), timeout=_LOOK_S)
        for name, task in looks.items():
            if not task.done():
                log.warning("metrics.not_read", metric=name, reason=f"no answer in {_LOOK_S:g} s")
                # It may take its time to end. Until then nobody asks again.
                self._hanging[name] = task
                task.add_done_callback(lambda _, name=name: self._hanging.pop(name, None))  # type: ignore[misc]
                task.cancel()

    async def _look(self, name: str, look: Callable[[], Awaitable[None]]) -> None:
        try:
            await look()
        except Exception as error:
            # One number that can't be had must not take all others away.
            log.warning("metrics.not_read", metric=name, reason=repr(error))
