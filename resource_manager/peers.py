"""Workers over gRPC, one connection each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headway.clock import Clock
from headway.rpc.channel import Peer
from headway.rpc.v1 import resource_manager_pb2, worker_pb2
from headway.rpc.v1.worker_pb2_grpc import WorkerStub
from headway.trust.identity import Role

if TYPE_CHECKING:
    from headway.trust.certificates import Certificates


class WorkerPeers:
    """A :class:`resource_manager.ports.WorkersPort`."""

    def __init__(self, token: str | Certificates, clock: Clock) -> None:
        self._token = token
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[Peer, Any]] = {}

    async def get_status(self, node_id: str, address: str, deadline_s: float) -> resource_manager_pb2.NodeStatus:
        peer, stub = self._of(node_id, address)
        status: resource_manager_pb2.NodeStatus = await peer.call(
            stub.GetStatus, worker_pb2.GetStatusRequest(), deadline_s=deadline_s
        )
        return status

    async def return_gpu(
        self, node_id: str, address: str, request: resource_manager_pb2.ReturnGpuRequest, deadline_s: float
    ) -> resource_manager_pb2.ReturnGpuReply:
        peer, stub = self._of(node_id, address)
        reply: resource_manager_pb2.ReturnGpuReply = await peer.call(stub.ReturnGpu, request, deadline_s=deadline_s)
        return reply

    def _of(self, node_id: str, address: str) -> tuple[Peer, Any]:
        known = self._known.get((node_id, address))
        if known is None:
            peer = Peer("Worker", address, token=self._token, role=Role.WORKER, node=node_id, clock=self._clock)
            known = (peer, WorkerStub(peer.channel))  # type: ignore[no-untyped-call]
            self._known[node_id, address] = known
        return known

    async def forget(self, address: str) -> None:
        for place in [place for place in self._known if place[1] == address]:
            await self._known.pop(place)[0].close()

    async def close(self) -> None:
        for _node_id, address in list(self._known):
            await self.forget(address)
