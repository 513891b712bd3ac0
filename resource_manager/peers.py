"""Workers over gRPC, one connection each."""

from __future__ import annotations

from typing import Any

from headway.clock import Clock
from headway.rpc.channel import Peer
from headway.rpc.v1 import resource_manager_pb2, worker_pb2
from headway.rpc.v1.worker_pb2_grpc import WorkerStub


class WorkerPeers:
    """A :class:`resource_manager.ports.WorkersPort`."""

    def __init__(self, token: str, clock: Clock) -> None:
        self._token = token
        self._clock = clock
        self._known: dict[str, tuple[Peer, Any]] = {}

    async def get_status(self, address: str, deadline_s: float) -> resource_manager_pb2.NodeStatus:
        peer, stub = self._of(address)
        status: resource_manager_pb2.NodeStatus = await peer.call(
            stub.GetStatus, worker_pb2.GetStatusRequest(), deadline_s=deadline_s
        )
        return status

    async def return_gpu(
        self, address: str, request: resource_manager_pb2.ReturnGpuRequest, deadline_s: float
    ) -> resource_manager_pb2.ReturnGpuReply:
        peer, stub = self._of(address)
        reply: resource_manager_pb2.ReturnGpuReply = await peer.call(stub.ReturnGpu, request, deadline_s=deadline_s)
        return reply

    def _of(self, address: str) -> tuple[Peer, Any]:
        known = self._known.get(address)
        if known is None:
            peer = Peer("Worker", address, token=self._token, clock=self._clock)
            known = self._known[address] = (peer, WorkerStub(peer.channel))  # type: ignore[no-untyped-call]
        return known

    async def forget(self, address: str) -> None:
        known = self._known.pop(address, None)
        if known is not None:
            await known[0].close()

    async def close(self) -> None:
        for address in list(self._known):
            await self.forget(address)
