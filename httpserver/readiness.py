"""Whether the service can serve: the shared mount and the other services are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from grpc_health.v1 import health_pb2, health_pb2_grpc

from headway.errors import HeadwayError
from headway.lifecycle import Health
from headway.mount import MountProbe

from . import schemas as s
from .peers.clients import ServiceClient, ServiceClients

_LOOK_S = 2.0


class Readiness:
    """Checks when asked; nothing runs in the background."""

    def __init__(
        self,
        health: Health,
        services: ServiceClients,
        mount: MountProbe,
        mount_rights: Callable[[], str] = lambda: "",
    ) -> None:
        self._health = health
        self._services = services
        self._mount = mount
        self._mount_rights = mount_rights
        self.restored = ""  # what a restore has lost, for some days

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
        if refused := self._mount_rights():
            conditions["mount_rights"] = refused  # it serves all the same: who has a home can work
        if self.restored:
            conditions["restored"] = self.restored  # so does a cluster that has lost some hours
        return s.Ready(ready=ready, services=services, conditions=conditions)

    async def _ask(self, remote: ServiceClient) -> str:
        try:
            reply = await remote.check(health_pb2_grpc.HealthStub, health_pb2.HealthCheckRequest(), deadline_s=_LOOK_S)
        except HeadwayError as error:
            return error.message
        serving = reply.status == health_pb2.HealthCheckResponse.SERVING
        return "ok" if serving else f"{remote.name} is not ready."
