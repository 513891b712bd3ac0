"""The nodes as they are now, asked of their workers. ResourceManager's reports may be some seconds old."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from headway.errors import HeadwayError
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.rpc.v1 import worker_pb2 as wk

from .clients import ServiceClients

_WITHIN_S = 2.0


class FreshNodes:
    """See the module. ``known`` answers the nodes as ResourceManager reported them."""

    def __init__(self, services: ServiceClients, known: Callable[[], Sequence[rm.Node]]) -> None:
        self._services = services
        self._known = known

    async def fetch(self) -> Sequence[rm.Node]:
        """All nodes at once. One that does not answer in time stays as it was reported."""
        return await asyncio.gather(*(self._fetch(node) for node in self._known()))

    async def _fetch(self, node: rm.Node) -> rm.Node:
        try:
            worker = await self._services.worker(node.id, node.address)
            status = await worker.call("GetStatus", wk.GetStatusRequest(), deadline_s=_WITHIN_S, again=False)
        except HeadwayError:
            return node
        fresh = rm.Node()
        fresh.CopyFrom(node)
        fresh.status.CopyFrom(status)
        return fresh
