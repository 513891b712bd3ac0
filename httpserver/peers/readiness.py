"""Whether the service can serve, and its numbers for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from headway.errors import HeadwayError
from headway.lifecycle import Health
from headway.mount import MountProbe

from .. import schemas as s
from .clients import ServiceClient, ServiceClients

_LOOK_S = 2.0
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Readiness:
    """Checks when asked; nothing runs in the background."""

    def __init__(self, health: Health, services: ServiceClients, mount: MountProbe, streams: Callable[[], int]) -> None:
        self._health = health
        self._services = services
        self._mount = mount
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
        live.set_function(streams)

    async def look(self) -> s.Ready:
        """Everything it needs, each with `ok` or a sentence."""
        looking = asyncio.gather(*(self._ask(remote) for remote in self._services.all()))
        mount = await self._mount.check()
        peers = await looking
        conditions = dict(self._health.reasons)
        if not mount.ok:
            conditions["mount"] = mount.sentence
        services = dict(zip((remote.name for remote in self._services.all()), peers, strict=True))
        ready = not conditions and all(state == "ok" for state in services.values())
        return s.Ready(ready=ready, services=services, conditions=conditions)

    async def _ask(self, remote: ServiceClient) -> str:
        try:
            reply = await remote.check(health_pb2_grpc.HealthStub, health_pb2.HealthCheckRequest(), deadline_s=_LOOK_S)
        except HeadwayError as error:
            return error.message
        serving = reply.status == health_pb2.HealthCheckResponse.SERVING
        return "ok" if serving else f"{remote.name} is not ready."

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request; ``route`` is the template, never the path, so that names don't become series."""
        self._requests.labels(method, route, str(status or 499)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def metrics(self) -> tuple[bytes, str]:
        """Prometheus text and its media type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
