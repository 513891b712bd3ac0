"""What every service counts alike: gRPC calls, the database's writer, the lag of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_CALL_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_WRITE_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_TICK_S = 0.25
# Who has not looked for so long does not look any more: an idle process then has no timer.
_WATCHED_S = 300.0


class RpcNumbers:
    """Calls that a gRPC server has answered."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = Counter(
            "headway_grpc_calls", "gRPC calls answered, streams at their end", ["method", "code"], registry=registry
        )
        self._seconds = Histogram(
            "headway_grpc_call_seconds",
            "From a gRPC call to its answer; streams are left out",
            ["method"],
            buckets=_CALL_BUCKETS,
            registry=registry,
        )
        self._streams = Gauge("headway_grpc_streams", "gRPC streams that are open", ["method"], registry=registry)
        self._registry = registry
        self._counters: dict[tuple[str, str], Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def watch_certificate(self, ends_at: Callable[[], float]) -> None:
        """Shows when the service's own certificate ends; asked at each scrape."""
        Gauge(
            "headway_certificate_expires_seconds",
            "When the certificate of this service ends, in epoch seconds; there with cluster.trust_dir alone",
            registry=self._registry,
        ).set_function(ends_at)

    def answered(self, method: str, code: str, seconds: float) -> None:
        """One call with one answer. ``method`` is SERVICE/METHOD of the contract, ``code`` the name of its status."""
        histogram = self._histograms.get(method)
        if histogram is None:
            histogram = self._histograms[method] = self._seconds.labels(method)
        histogram.observe(seconds)
        self._count(method, code)

    def opened(self, method: str) -> None:
        """A stream of answers begins."""
        self._streams.labels(method).inc()

    def closed(self, method: str, code: str) -> None:
        """A stream of answers has ended."""
        self._streams.labels(method).dec()
        self._count(method, code)

    def _count(self, method: str, code: str) -> None:
        counter = self._counters.get((method, code))
        if counter is None:
            counter = self._counters[method, code] = self._calls.labels(method, code)
        counter.inc()


class DatabaseNumbers:
    """Transactions of a database's writer. Any thread may count."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._write = Histogram(
            "headway_db_write_seconds",
            "One transaction, from its begin to the end of its commit",
            buckets=_WRITE_BUCKETS,
            registry=registry,
        )
        self._commit = Histogram(
            "headway_db_commit_seconds", "The commit of one transaction", buckets=_WRITE_BUCKETS, registry=registry
        )
        self._waiting = Gauge(
            "headway_db_writes_waiting", "Transactions handed to the writer that have not ended", registry=registry
        )

    def watch(self, waiting: Callable[[], int]) -> None:
        """Asks this function at each scrape how many transactions wait."""
        self._waiting.set_function(waiting)

    def written(self, write_s: float, commit_s: float) -> None:
        """One transaction is durable."""
        self._write.observe(write_s)
        self._commit.observe(commit_s)


class LoopLag:
    """How late the event loop comes to what is due. It looks four times a second, as long as somebody scrapes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "headway_event_loop_lag_seconds",
            "By how much the event loop is late, looked at four times a second",
            buckets=_LAG_BUCKETS,
            registry=registry,
        )
        self._due_s = 0.0
        self._until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def asked(self) -> None:
        """Somebody scrapes: look for the next five minutes."""
        loop = asyncio.get_running_loop()
        self._until_s = loop.time() + _WATCHED_S
        if self._timer is None:
            self._arm(loop)

    def close(self) -> None:
        """Look no more. Safe twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due_s = loop.time() + _TICK_S
        self._timer = loop.call_at(self._due_s, self._tick)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._seconds.observe(max(0.0, loop.time() - self._due_s))
        self._timer = None
        if loop.time() < self._until_s:
            self._arm(loop)
