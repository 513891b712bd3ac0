"""What ResourceManager answers about trust: whom to believe, what was revoked, and new certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.errors import Unavailable
from headway.logs import get_logger
from headway.plugins import own_version
from headway.rpc.v1 import resource_manager_pb2 as pb
from headway.trust.caller import caller

from .ports import Signer

if TYPE_CHECKING:
    from headway.clock import Clock
    from headway.trust.certificates import Certificates

log = get_logger(__name__)

_PLAIN = "This cluster has no certificates: its services show each other a token. `headway init` makes an authority."


class TrustAnswers:
    """``certificates`` is None where services show each other a token; ``signer`` where the authority is not here."""

    def __init__(self, certificates: Certificates | None, signer: Signer | None, clock: Clock) -> None:
        self._certificates = certificates
        self._signer = signer
        self._clock = clock
        self._version = own_version()

    def trust(self) -> pb.GetTrustReply:
        """Whom to believe now.

        Raises:
            Unavailable: this cluster has no certificates.
        """
        if self._certificates is None:
            raise Unavailable(_PLAIN)
        _number, pair = self._certificates.pair()
        return pb.GetTrustReply(
            ca_pem=pair.ca_pem,
            revoked=[f"{one:x}" for one in sorted(self._certificates.revoked())],
            at=self._clock.now(),
            version=self._version,
        )

    async def renew(self, request: pb.RenewRequest) -> pb.RenewReply:
        """A new certificate for the caller, and for nobody else.

        Raises:
            Unavailable: this cluster has no certificates, or no authority here.
            HeadwayError: the request is broken.
        """
        who = caller()
        if who is None:
            raise Unavailable(_PLAIN)
        if self._signer is None:
            raise Unavailable("The cluster's authority is not on this machine, so no certificate is renewed.")
        cert_pem = await self._signer.renew(request.csr_pem, who.identity, shown=who.serial)
        log.info("certificate.signed", who=str(who.identity), before=f"{who.serial:x}")
        return pb.RenewReply(cert_pem=cert_pem)
