"""HttpServer's own numbers, as ``GET /metrics`` shows them."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Whatever else a client sends as a method is one series.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class HttpNumbers:
    """Requests and streams. ``event_streams`` and ``log_streams`` say how many are open."""

    def __init__(
        self, registry: CollectorRegistry, event_streams: Callable[[], int], log_streams: Callable[[], int]
    ) -> None:
        self._requests = Counter(
            "headway_http_requests", "Requests answered", ["method", "route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "headway_http_request_seconds",
            "From the first byte of a request to the last of its answer",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=registry,
        )
        live = Gauge("headway_http_event_streams", "Event streams that are open", registry=registry)
        live.set_function(event_streams)
        logs = Gauge("headway_http_log_streams", "Answers that follow several logs and are open", registry=registry)
        logs.set_function(log_streams)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request; ``route`` is the template, never the path, so that names don't become series."""
        method = method if method in _METHODS else "other"
        self._requests.labels(method, route, str(status or 499)).inc()
        self._seconds.labels(method, route).observe(seconds)
