"""The Prometheus metrics of HttpServer, as ``GET /metrics`` shows them. No other service has metrics."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class HttpMetrics:
    """Counts in this process alone. ``event_streams`` says how many event streams are open."""

    def __init__(self, event_streams: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._requests = Counter(
            "headway_http_requests", "Requests answered", ["method", "route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "headway_http_request_seconds",
            "From the first byte of a request to the last of its answer",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        live = Gauge("headway_http_event_streams", "Event streams that are open", registry=self._registry)
        live.set_function(event_streams)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request; ``route`` is the template, never the path, so that names don't become series."""
        self._requests.labels(method, route, str(status or 499)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def as_text(self) -> tuple[bytes, str]:
        """Prometheus text and its media type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
