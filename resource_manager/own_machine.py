"""Certificates on the authority's own machine that nobody else can renew.

A service renews its own certificate by showing it. That fails for one that has ended, such as after a month without
power, or in an old backup. A machine elsewhere then joins again by a token. Tokens come through HttpServer, which
stands on this machine and can't call either. So ResourceManager signs anew in its own folder: what has ended there, is
damaged or missing. It also renews the page's certificate, which no service shows to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from headway.clock import Clock
from headway.errors import ConfigInvalid, HeadwayError
from headway.logs import get_logger
from headway.trust import pairs
from headway.trust.authority import Authority, issued
from headway.trust.files import TrustFiles, write_private
from headway.trust.identity import Identity, Role

from .issuing import AuthoritySettings, Issuer

log = get_logger(__name__)

_EVERY_S = 60.0


def make_own(files: TrustFiles, cluster: str) -> None:
    """Gives ResourceManager a certificate where its own is damaged or missing: without one it could not start.

    So too `ca.pem`, which is the authority's certificate.

    Raises:
        HeadwayError: the authority can't be used.
        OSError: the folder can't be written.
    """
    identity = Identity(cluster, Role.RESOURCE_MANAGER)
    key = files.key(identity.role)
    try:
        pairs.read(files, identity)
        return
    except ConfigInvalid as error:
        others_read_it = key.exists() and key.stat().st_mode & 0o077
        if others_read_it or not files.authority.is_dir():
            return  # `open_trust` says what is wrong
        log.warning("certificate.made_anew", who=str(identity), reason=str(error))
    authority = Authority.read(files)
    try:
        pairs.certificates_in(files.ca.read_bytes())
    except (FileNotFoundError, ValueError):
        write_private(files.ca, authority.certificate_pem, mode=0o644)
    key_pem, csr_pem = pairs.new_request(identity)
    cert_pem = authority.sign(csr_pem, identity)
    key.parent.mkdir(mode=0o700, exist_ok=True)
    pairs.install(files, identity, key_pem=key_pem, cert_pem=cert_pem)


class OwnMachine:
    """Keeps the certificates in the folder good in which the authority lies."""

    def __init__(self, settings: AuthoritySettings, issuer: Issuer, clock: Clock) -> None:
        self._cluster = settings.cluster
        self._files = TrustFiles(settings.folder)
        self._issuer = issuer
        self._clock = clock
        self._told: dict[str, str] = {}

    async def run(self) -> None:
        """Looks once a minute, until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(_EVERY_S)

    async def look(self) -> None:
        """One round. What fails is told in the log once, and tried in each round."""
        # ResourceManager's own is kept by `keep_own`.
        looks: dict[str, Callable[[], Awaitable[None]]] = {"page": self._look_at_page}
        looks |= {role.value: partial(self._look_at, role) for role in sorted(set(Role) - {Role.RESOURCE_MANAGER})}
        for name, look in looks.items():
            said = ""
            try:
                await look()
            except (HeadwayError, OSError, ValueError) as error:
                said = str(error)
            if said and said != self._told.get(name):
                log.error("certificate.not_made_anew", of=name, reason=said)
            self._told[name] = said

    async def _look_at(self, role: Role) -> None:
        identity = await self._lacking(role)
        if identity is None:
            return
        key_pem, csr_pem = pairs.new_request(identity)
        cert_pem = await self._issuer.renew(csr_pem, identity)
        await asyncio.to_thread(pairs.install, self._files, identity, key_pem=key_pem, cert_pem=cert_pem)
        log.warning("certificate.made_anew", who=str(identity))

    async def _lacking(self, role: Role) -> Identity | None:
        """Who needs a certificate that nobody else can make; None: nobody does."""
        file = self._files.certificate(role)
        if not file.parent.is_dir():
            return None  # that service stands elsewhere
        try:
            found = issued(file.read_bytes())
        except (FileNotFoundError, ValueError):
            if role is Role.WORKER:
                raise  # its name is not known
            return Identity(self._cluster, role)
        if found.until_at > self._clock.now() or found.identity.role is not role:
            return None
        return None if await self._issuer.is_revoked(found.serial) else found.identity

    async def _look_at_page(self) -> None:
        file = self._files.page / "cert.pem"
        if not file.exists():
            return  # none was made by `headway init`
        # The key stays, so that one file changes at one moment.
        pem = self._issuer.renew_page(file.read_bytes())
        if pem is not None:
            await asyncio.to_thread(write_private, file, pem, mode=0o644)
            log.info("certificate.page_renewed", file=str(file))
