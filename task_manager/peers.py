"""Calls to the other services."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

from headway.clock import Clock
from headway.ids import NodeId
from headway.rpc.channel import Peer
from headway.rpc.v1 import resource_manager_pb2, worker_pb2
from headway.rpc.v1.job_manager_pb2_grpc import JobManagerStub
from headway.rpc.v1.resource_manager_pb2_grpc import ResourceManagerStub
from headway.rpc.v1.worker_pb2_grpc import WorkerStub
from headway.store import OutboxRow
from headway.trust.identity import Role

from . import wire
from .engine.events import AcceptedLaunch, ExtendOrder, NodesChanged, RefusedLaunch, StopOrder
from .planning.image_forecast import ForecastImage
from .ports import LaunchOrder

if TYPE_CHECKING:
    from headway.trust.certificates import Certificates

_LAUNCH_DEADLINE_S = 20.0
_STOP_DEADLINE_S = 10.0
_SUSPEND_DEADLINE_S = 3.0
_PREPARE_DEADLINE_S = 5.0
_EVENTS_DEADLINE_S = 20.0


class WorkerConnections:
    """``ports.Workers`` over gRPC; connections are kept by node and address."""

    def __init__(self, token: str | Certificates, clock: Clock) -> None:
        self._token = token
        self._clock = clock
        self._peers: dict[tuple[NodeId, str], tuple[Peer, WorkerStub]] = {}

    async def launch(
        self, node_id: NodeId, address: str, launches: Sequence[LaunchOrder]
    ) -> list[AcceptedLaunch | RefusedLaunch]:
        peer, stub = self._peer(node_id, address)
        reply = await peer.call(stub.Launch, wire.launch_request(launches), deadline_s=_LAUNCH_DEADLINE_S)
        return wire.verdicts(reply)

    async def stop(self, node_id: NodeId, address: str, orders: Sequence[StopOrder]) -> None:
        peer, stub = self._peer(node_id, address)
        request = worker_pb2.StopRequest(orders=wire.stop_orders(orders))
        await peer.call(stub.Stop, request, deadline_s=_STOP_DEADLINE_S)

    async def extend(self, node_id: NodeId, address: str, orders: Sequence[ExtendOrder]) -> None:
        peer, stub = self._peer(node_id, address)
        request = worker_pb2.ExtendRequest(orders=wire.extend_orders(orders))
        await peer.call(stub.Extend, request, deadline_s=_STOP_DEADLINE_S)

    async def suspend_leases(self, node_id: NodeId, address: str) -> None:
        peer, stub = self._peer(node_id, address)
        request = worker_pb2.StopRequest(suspend_leases=True)
        await peer.call(stub.Stop, request, deadline_s=_SUSPEND_DEADLINE_S, idempotent=True)

    async def prepare_images(self, node_id: NodeId, address: str, images: Sequence[ForecastImage]) -> None:
        peer, stub = self._peer(node_id, address)
        await peer.call(stub.PrepareImages, wire.prepare_request(images), deadline_s=_PREPARE_DEADLINE_S)

    async def close(self) -> None:
        for peer, _stub in self._peers.values():
            await peer.close()

    def _peer(self, node_id: NodeId, address: str) -> tuple[Peer, WorkerStub]:
        known = self._peers.get((node_id, address))
        if known is None:
            peer = Peer("Worker", address, token=self._token, role=Role.WORKER, node=node_id, clock=self._clock)
            known = (peer, WorkerStub(peer.channel))  # type: ignore[no-untyped-call]
            self._peers[node_id, address] = known
        return known


class NodeSourcePeer:
    """``ports.NodeSource`` over gRPC."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stub = ResourceManagerStub(peer.channel)  # type: ignore[no-untyped-call]

    async def watch(self) -> AsyncGenerator[NodesChanged, None]:
        request = resource_manager_pb2.WatchNodesRequest()
        stream = self._peer.stream(self._stub.WatchNodes, request, deadline_s=None, wait_for_ready=True)
        async with contextlib.aclosing(stream) as messages:  # type: ignore[type-var]
            async for message in messages:
                yield wire.nodes_changed(message)


class JobManagerPeer:
    """Sends TaskManager's events to JobManager."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stub = JobManagerStub(peer.channel)  # type: ignore[no-untyped-call]

    async def send(self, rows: list[OutboxRow]) -> None:
        """Returns once JobManager has stored them."""
        request = wire.task_events(row.payload for row in rows)
        await self._peer.call(self._stub.ReportTaskEvents, request, deadline_s=_EVENTS_DEADLINE_S, wait_for_ready=True)
