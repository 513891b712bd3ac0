"""ResourceManager's gRPC service: messages in, answers out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from headway.errors import InvalidInput
from headway.rpc.v1 import resource_manager_pb2 as pb
from headway.rpc.v1.resource_manager_pb2_grpc import ResourceManagerServicer

from .drain import DrainWish
from .hub import NodeEventHub
from .node_admission import AdmissionEvent
from .nodes import Nodes

_POINTS = 500
_POINTS_AT_MOST = 5_000

_ACTIONS = {
    pb.SetAdmissionRequest.ACTION_CORDON: AdmissionEvent.CORDON,
    pb.SetAdmissionRequest.ACTION_UNCORDON: AdmissionEvent.UNCORDON,
    pb.SetAdmissionRequest.ACTION_DRAIN: AdmissionEvent.DRAIN,
}


class ResourceManagerService(ResourceManagerServicer):
    """See proto/headway/rpc/v1/resource_manager.proto for what each call promises."""

    def __init__(
        self,
        nodes: Nodes,
        hub: NodeEventHub,
        *,
        poll_s: float,
        return_gpu: Callable[[pb.ReturnGpuRequest], Awaitable[pb.ReturnGpuReply]],
    ) -> None:
        self._nodes = nodes
        self._return_gpu = return_gpu
        self._hub = hub
        self._poll_s = poll_s

    async def RegisterNode(self, request: pb.RegisterNodeRequest, context: Any) -> pb.RegisterNodeReply:
        await self._nodes.register(request)
        return pb.RegisterNodeReply(poll_s=self._poll_s)

    async def ReportStatus(self, request: pb.ReportStatusRequest, context: Any) -> pb.ReportStatusReply:
        return pb.ReportStatusReply(known=await self._nodes.report(request.status))

    async def ListNodes(self, request: pb.ListNodesRequest, context: Any) -> pb.ListNodesReply:
        return pb.ListNodesReply(nodes=self._nodes.view(request.node_id))

    async def GetNodeUsage(self, request: pb.GetNodeUsageRequest, context: Any) -> pb.GetNodeUsageReply:
        limit = min(request.max_points or _POINTS, _POINTS_AT_MOST)
        points, level = await self._nodes.usage(request.node_id, request.since, request.until, limit)
        return pb.GetNodeUsageReply(points=points, span_s=level.span_s)

    async def SetAdmission(self, request: pb.SetAdmissionRequest, context: Any) -> pb.SetAdmissionReply:
        event = _ACTIONS.get(request.action)
        if event is None:
            raise InvalidInput(f"ResourceManager knows no action number {request.action}.")
        wish = DrainWish(
            until_at=request.until_at if request.HasField("until_at") else None,
            return_when_back=request.return_when_back if request.HasField("return_when_back") else None,
            return_at=request.return_at if request.HasField("return_at") else None,
        )
        return await self._nodes.set_admission(request.node_id, event, request.note, request.by, wish)

    async def ReplaceNode(self, request: pb.ReplaceNodeRequest, context: Any) -> pb.ReplaceNodeReply:
        await self._nodes.allow_replacement(request.node_id, request.by)
        return pb.ReplaceNodeReply()

    async def ReturnGpu(self, request: pb.ReturnGpuRequest, context: Any) -> pb.ReturnGpuReply:
        return await self._return_gpu(request)

    async def ForgetNode(self, request: pb.ForgetNodeRequest, context: Any) -> pb.ForgetNodeReply:
        await self._nodes.forget(request.node_id)
        return pb.ForgetNodeReply()

    async def WatchNodes(self, request: pb.WatchNodesRequest, context: Any) -> AsyncIterator[pb.NodesChanged]:
        with self._hub.watch(self._nodes.view()) as watch:
            for message in watch.first():
                yield message
            while True:
                for message in await watch.next():
                    yield message
