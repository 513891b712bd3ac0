"""Invitations, joining, certificates."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from .. import schemas as s
from ..audit.current import note, nothing_changes
from .common import AnAdmin, TheParts

router = APIRouter(tags=["trust"])


@router.post("/invitations", status_code=201)
async def create_invitation(body: s.InvitationCreate, by: AnAdmin, parts: TheParts) -> s.InvitationCreated:
    """Makes a token by which one machine joins, once. The answer is the only place where it is ever shown."""
    note(f"node {body.name}" if body.name else f"any {body.role}", role=body.role)
    made = await parts.trust.invite(body, by=by.name)
    note(invitation=made.id)  # the machine that joins by it leaves a line with this id
    return made


@router.get("/invitations")
async def list_invitations(_: AnAdmin, parts: TheParts) -> s.InvitationList:
    """Tokens of the last weeks, the newest first, without their values."""
    return await parts.trust.invitations()


@router.delete("/invitations/{id}", status_code=204)
async def delete_invitation(id: str, by: AnAdmin, parts: TheParts) -> Response:
    """Nobody joins by it any more. Deleting one that is gone already is harmless."""
    await parts.trust.delete_invitation(id, by=by.name)
    return Response(status_code=204)


@router.post("/join")
async def join(body: s.MachineJoin, request: Request, parts: TheParts) -> s.MachineJoined:
    """For `headway join`: a machine proves that it has a token, and gets its certificate. Needs no sign-in."""
    if body.look:
        nothing_changes()
    note(f"invitation {body.token_id}", name=body.name or body.host, renew=body.renew)
    await parts.audit.begin()
    return await parts.trust.join(body, client=request.scope["headway.client"])


@router.get("/certificates")
async def list_certificates(_: AnAdmin, parts: TheParts) -> s.CertificateList:
    """Certificates of all services, of those that expired only those of the last weeks."""
    return await parts.trust.certificates()


@router.post("/certificates/revoke")
async def revoke_certificates(body: s.CertificatesRevoke, by: AnAdmin, parts: TheParts) -> s.CertificatesRevoked:
    """These certificates count no more, from now on and for good. Their nodes get no new work."""
    note(body.which)
    return await parts.trust.revoke(body.which, by=by.name)
