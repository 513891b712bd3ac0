"""ResourceManager's gRPC service: messages in, answers out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from headway.errors import InvalidInput
from headway.rpc.v1 import resource_manager_pb2 as pb
from headway.rpc.v1.resource_manager_pb2_grpc import ResourceManagerServicer
from headway.trust.caller import require_node
from headway.trust.joining import JoinRequest

from .drain import DrainWish
from .enrolment import KeptToken, Signed
from .hub import NodeEventHub
from .issuing import Issuer
from .node_admission import AdmissionEvent
from .nodes import Nodes
from .trust_answers import TrustAnswers

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
        issuer: Issuer,
        trust: TrustAnswers,
    ) -> None:
        self._issuer = issuer
        self._trust = trust
        self._nodes = nodes
        self._return_gpu = return_gpu
        self._hub = hub
        self._poll_s = poll_s

    async def RegisterNode(self, request: pb.RegisterNodeRequest, context: Any) -> pb.RegisterNodeReply:
        require_node(request.node_id, request.status.node_id or request.node_id)
        await self._nodes.register(request)
        return pb.RegisterNodeReply(poll_s=self._poll_s)

    async def ReportStatus(self, request: pb.ReportStatusRequest, context: Any) -> pb.ReportStatusReply:
        require_node(request.status.node_id)
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

    async def GetTrust(self, request: pb.GetTrustRequest, context: Any) -> pb.GetTrustReply:
        return self._trust.trust()

    async def Renew(self, request: pb.RenewRequest, context: Any) -> pb.RenewReply:
        return await self._trust.renew(request)

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

    # -- trust ----------------------------------------------------------------------------------

    async def Invite(self, request: pb.InviteRequest, context: Any) -> pb.InviteReply:
        made, token = await self._issuer.invite(request.role, request.name, request.for_s, request.by)
        return pb.InviteReply(invitation=_invitation(made, ""), token=token.text)

    async def ListInvitations(self, request: pb.ListInvitationsRequest, context: Any) -> pb.ListInvitationsReply:
        found = await self._issuer.invitations()
        return pb.ListInvitationsReply(invitations=[_invitation(one, used_as) for one, used_as in found])

    async def DeleteInvitation(self, request: pb.DeleteInvitationRequest, context: Any) -> pb.DeleteInvitationReply:
        await self._issuer.delete_invitation(request.id)
        return pb.DeleteInvitationReply()

    async def Enroll(self, request: pb.EnrollRequest, context: Any) -> pb.EnrollReply:
        asked = JoinRequest(
            cluster=request.cluster,
            token_id=request.token_id,
            csr=request.csr,
            nonce=request.nonce,
            at=request.at,
            version=request.version,
            name=request.name,
            host=request.host,
            renew=request.renew,
            look=request.look,
        )
        answer, proof = await self._issuer.enroll(asked, request.proof)
        return pb.EnrollReply(
            certificate=answer.certificate,
            ca=answer.ca,
            settings=answer.settings,
            version=answer.version,
            proof=proof,
        )

    async def ListCertificates(self, request: pb.ListCertificatesRequest, context: Any) -> pb.ListCertificatesReply:
        return pb.ListCertificatesReply(certificates=[_certificate(one) for one in await self._issuer.certificates()])

    async def RevokeCertificates(
        self, request: pb.RevokeCertificatesRequest, context: Any
    ) -> pb.RevokeCertificatesReply:
        revoked, cordoned = await self._issuer.revoke(request.which, request.by)
        return pb.RevokeCertificatesReply(certificates=[_certificate(one) for one in revoked], cordoned=cordoned)


def _invitation(one: KeptToken, used_as: str) -> pb.Invitation:
    return pb.Invitation(
        id=one.id,
        role=one.role,
        name=one.name,
        by=one.by,
        made_at=one.made_at,
        until_at=one.until_at,
        used_at=one.used_at or 0.0,
        used_as=used_as,
    )


def _certificate(one: Signed) -> pb.Certificate:
    return pb.Certificate(
        serial=one.serial,
        role=one.role,
        name=one.name,
        from_at=one.from_at,
        until_at=one.until_at,
        origin=one.origin,
        invitation=one.invitation,
        revoked_at=one.revoked_at or 0.0,
        revoked_by=one.revoked_by,
    )
