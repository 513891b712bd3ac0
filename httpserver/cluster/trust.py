"""Who may join and who counts no more: asked of ResourceManager, which owns the authority."""

from __future__ import annotations

from headway.clock import Clock
from headway.errors import NotSignedIn, TooMany
from headway.logs import get_logger
from headway.rpc.v1 import resource_manager_pb2 as rm

from .. import schemas as s
from ..auth.sign_in_limits import SignInLimits, place_of
from ..peers.clients import ACT_S, ServiceClients

log = get_logger(__name__)


class Trust:
    """See the module. Guesses at tokens are limited as those at passwords are."""

    def __init__(self, services: ServiceClients, clock: Clock) -> None:
        self._services = services
        self._clock = clock
        self._limits = SignInLimits()

    async def invite(self, wanted: s.InvitationCreate, *, by: str) -> s.InvitationCreated:
        """A token for one machine.

        Raises:
            InvalidInput: a role or name that can't be.
            Conflict: this cluster has no authority.
        """
        request = rm.InviteRequest(role=wanted.role, name=wanted.name, for_s=wanted.expires_in_s, by=by)
        # Sent again it would make a second token, which nobody would see.
        reply = await self._services.nodes.call("Invite", request, deadline_s=ACT_S, again=False)
        log.info("trust.invited", token=reply.invitation.id, role=wanted.role, node=wanted.name, by=by)
        return s.InvitationCreated(**_invitation(reply.invitation).model_dump(), token=reply.token)

    async def invitations(self) -> s.InvitationList:
        """All that are kept, the newest first."""
        reply = await self._services.nodes.call("ListInvitations", rm.ListInvitationsRequest())
        return s.InvitationList(invitations=[_invitation(one) for one in reply.invitations])

    async def delete_invitation(self, token_id: str, *, by: str) -> None:
        """Nobody joins by it any more; idempotent."""
        await self._services.nodes.call("DeleteInvitation", rm.DeleteInvitationRequest(id=token_id), deadline_s=ACT_S)
        log.info("trust.invitation_deleted", token=token_id, by=by)

    async def join(self, wanted: s.MachineJoin, *, client: str) -> s.MachineJoined:
        """Passes a machine's request on.

        Raises:
            NotSignedIn: the token is not known, or the proof is wrong.
            NotAllowed, Conflict, InvalidInput: the machine can't join; the sentence says why.
            TooMany: too many wrong ones came from there lately.
        """
        place, now = place_of(client), self._clock.monotonic()
        wait_s = self._limits.wait_s(wanted.token_id, place, now)
        if wait_s > 0:
            raise TooMany(
                "Too many wrong tokens came from this address: wait a while, then join again.",
                extra={"retry_after_s": wait_s},
            )
        self._limits.failed(wanted.token_id, place, now)
        try:
            reply = await self._services.nodes.call("Enroll", rm.EnrollRequest(**wanted.model_dump()), deadline_s=ACT_S)
        except NotSignedIn:
            log.warning("trust.join_refused", client=client, token=wanted.token_id)
            raise
        except Exception:
            self._limits.succeeded(wanted.token_id, place)
            raise
        self._limits.succeeded(wanted.token_id, place)
        return s.MachineJoined(
            certificate=reply.certificate,
            ca=reply.ca,
            settings=reply.settings,
            version=reply.version,
            proof=reply.proof,
        )

    async def certificates(self) -> s.CertificateList:
        """All that are kept, by role and name."""
        reply = await self._services.nodes.call("ListCertificates", rm.ListCertificatesRequest())
        return s.CertificateList(certificates=[_certificate(one) for one in reply.certificates])

    async def revoke(self, which: str, *, by: str) -> s.CertificatesRevoked:
        """They count no more, and their nodes get no new work; idempotent.

        Raises:
            NotFound: nothing is called so.
            Conflict: it is ResourceManager's own.
        """
        request = rm.RevokeCertificatesRequest(which=which, by=by)
        reply = await self._services.nodes.call("RevokeCertificates", request, deadline_s=ACT_S)
        log.warning("trust.revoked", which=which, by=by, nodes=list(reply.cordoned))
        return s.CertificatesRevoked(
            certificates=[_certificate(one) for one in reply.certificates], cordoned=list(reply.cordoned)
        )


def _invitation(one: rm.Invitation) -> s.Invitation:
    return s.Invitation(
        id=one.id,
        role=one.role,
        name=one.name,
        by=one.by,
        made_at=one.made_at,
        expires_at=one.until_at,
        used_at=one.used_at or None,
        used_as=one.used_as,
    )


def _certificate(one: rm.Certificate) -> s.Certificate:
    return s.Certificate(
        serial=one.serial,
        role=one.role,
        name=one.name,
        valid_from_at=one.from_at,
        expires_at=one.until_at,
        origin=one.origin,
        invitation=one.invitation,
        revoked_at=one.revoked_at or None,
        revoked_by=one.revoked_by,
    )
