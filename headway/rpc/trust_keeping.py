"""Keeps a service's certificates good: it fetches whom to believe, and renews its own certificate in time.

    token = open_trust(service, config, Role.JOB_MANAGER)      # the cluster's token, or certificates

ResourceManager owns the list of what was revoked, and its machine's authority signs. On that machine the folder is the
source itself, so nothing there is written over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from ..clock import Clock, SystemClock
from ..errors import HeadwayError
from ..lifecycle import Health, Service
from ..logs import get_logger
from ..trust.files import TrustFiles
from ..trust.identity import Identity, Role
from ..trust.revoked import written
from .channel import Peer
from .v1 import resource_manager_pb2 as rm
from .v1.resource_manager_pb2_grpc import ResourceManagerStub

if TYPE_CHECKING:
    from pathlib import Path

    from ..config import HeadwayConfig
    from ..trust.certificates import Certificates

log = get_logger(__name__)

_EVERY_S = 60.0
_AGAIN_S = 3_600.0
_DEADLINE_S = 10.0

Fetch = Callable[[], Awaitable[rm.GetTrustReply]]
Sign = Callable[[bytes], Awaitable[bytes]]


class CertificateSigner(Protocol):
    """Who signs."""

    async def renew(self, csr_pem: bytes, identity: Identity) -> bytes:
        """A certificate (PEM) for this service."""
        ...


def open_trust(service: Service, config: HeadwayConfig, role: Role) -> str | Certificates:
    """What this process shows to others: the cluster's token, or with `cluster.trust_dir` its certificates.

    Those are kept good for as long as ``service`` runs; ResourceManager does that by `keep_own`.

    Raises:
        ConfigInvalid: `cluster.trust_dir` lacks files, or they are not this service's.
    """
    if not config.cluster.trust_dir:
        return config.cluster.token
    from pathlib import Path

    from ..trust.certificates import Certificates

    clock = SystemClock()
    name = config.worker.node_id if role is Role.WORKER else "main"
    files = TrustFiles(Path(config.cluster.trust_dir))
    certificates = Certificates(files, Identity(config.cluster.name, role, name), clock)
    if role is not Role.RESOURCE_MANAGER:
        keeper = _asking(service, certificates, config.peers.resource_manager, clock)
        service.side_task("certificates", keeper.run)
    return certificates


def keep_own(service: Service, certificates: Certificates, authority: CertificateSigner | None, clock: Clock) -> None:
    """Keeps ResourceManager's own certificate good: it asks nobody but the authority on its machine."""
    sign: Sign | None = None
    if authority is not None:
        known = authority

        async def own(csr_pem: bytes) -> bytes:
            return await known.renew(csr_pem, certificates.identity)

        sign = own
    keeper = TrustKeeper(certificates, service.health, clock, fetch=None, sign=sign)
    service.side_task("certificates", keeper.run)


def _asking(service: Service, certificates: Certificates, address: str, clock: Clock) -> TrustKeeper:
    peer = Peer("ResourceManager", address, token=certificates, role=Role.RESOURCE_MANAGER, clock=clock)
    service.on_stop(peer.close)
    stub = ResourceManagerStub(peer.channel)  # type: ignore[no-untyped-call]

    async def fetch() -> rm.GetTrustReply:
        reply: rm.GetTrustReply = await peer.call(
            stub.GetTrust, rm.GetTrustRequest(), deadline_s=_DEADLINE_S, wait_for_ready=True
        )
        return reply

    async def renew(csr_pem: bytes) -> bytes:
        reply = await peer.call(stub.Renew, rm.RenewRequest(csr_pem=csr_pem), deadline_s=_DEADLINE_S)
        return bytes(reply.cert_pem)

    return TrustKeeper(certificates, service.health, clock, fetch=fetch, sign=renew)


class TrustKeeper:
    """Looks once a minute. ``fetch`` asks ResourceManager whom to believe, ``sign`` gets a new certificate."""

    def __init__(
        self, certificates: Certificates, health: Health, clock: Clock, *, fetch: Fetch | None, sign: Sign | None
    ) -> None:
        self._certificates = certificates
        self._health = health
        self._clock = clock
        self._fetch = fetch
        self._sign = sign
        self._not_before_s = float("-inf")
        self._told = ""

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(_EVERY_S)

    async def look(self) -> None:
        """One round: fetch, renew if it is time, and say what is wrong."""
        await self._fetch_trust()
        _number, pair = self._certificates.pair()
        life_s, left_s = pair.ends_at - pair.begins_at, pair.ends_at - self._clock.now()
        can = left_s > 0 or self._fetch is None  # the authority's own machine needs no certificate to sign
        if self._sign is not None and can and left_s < life_s / 3 and self._clock.monotonic() >= self._not_before_s:
            await self._renew(self._sign, left_s)
        self._judge()

    async def _fetch_trust(self) -> None:
        files = self._certificates.files
        if self._fetch is None:
            return
        try:
            reply = await self._fetch()
            revoked = frozenset(int(one, 16) for one in reply.revoked)
        except (HeadwayError, ValueError) as error:
            log.info("trust.not_fetched", reason=str(error))
            return
        self._certificates.tell_revoked(revoked)
        if files.authority.exists():
            return
        try:
            await asyncio.to_thread(_keep, files, bytes(reply.ca_pem), written(revoked).encode())
        except (OSError, ValueError) as error:
            log.warning("trust.not_stored", folder=str(files.folder), reason=str(error))

    async def _renew(self, sign: Sign, left_s: float) -> None:
        from ..trust import pairs

        certificates = self._certificates
        try:
            key_pem, csr_pem = pairs.new_request(certificates.identity)
            cert_pem = await sign(csr_pem)
            await asyncio.to_thread(
                pairs.install, certificates.files, certificates.identity, key_pem=key_pem, cert_pem=cert_pem
            )
        except (HeadwayError, OSError) as error:
            self._not_before_s = self._clock.monotonic() + min(_AGAIN_S, max(_EVERY_S, left_s / 10))
            log.error("certificate.not_renewed", left_s=round(left_s), reason=str(error))
            return
        certificates.look_now()
        log.info("certificate.renewed", ends_at=certificates.pair()[1].ends_at)

    def _judge(self) -> None:
        """A certificate that doesn't count makes the service useless, and says so in one sentence, once."""
        certificates, now = self._certificates, self._clock.now()
        _number, pair = certificates.pair()
        whose, sentence = f"The certificate of {certificates.identity}", ""
        if certificates.is_revoked(pair.serial):
            sentence = f"{whose} was revoked: let this machine join again with `headway join`."
        elif pair.ends_at <= now:
            remedy = (
                "ResourceManager, which stands on this machine, makes a new one within a minute"
                if certificates.files.authority.exists()
                else "make a new one with `headway join --renew`"
            )
            sentence = f"{whose} ended at {_utc(pair.ends_at)}: {remedy}. It is taken without a restart."
        elif pair.begins_at > now:
            sentence = f"{whose} begins at {_utc(pair.begins_at)}: set this machine's clock right."
        if sentence and sentence != self._told:
            log.error("certificate.useless", reason=sentence)
        self._told = sentence
        self._health.set("certificate", not sentence, sentence)


def _keep(files: TrustFiles, ca_pem: bytes, revoked: bytes) -> None:
    from ..trust import pairs

    pairs.certificates_in(ca_pem)  # never write what nobody could read
    for path, data in ((files.ca, ca_pem), (files.revoked, revoked)):
        if _now(path) != data:
            pairs.write(path, data, 0o644)


def _now(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
