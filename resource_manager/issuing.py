"""Signs certificates for those who may have one, and keeps what was signed.

A token counts once: it is marked as used in the transaction that keeps the certificate. So a kill at any moment
leaves either both or neither, and a request that is sent again gets the same certificate.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from headway.clock import Clock
from headway.errors import Conflict, NotFound, TooMany
from headway.logs import get_logger
from headway.plugins import own_version
from headway.store import Database
from headway.trust import joining
from headway.trust.authority import Authority, issued, key_digest
from headway.trust.files import TrustFiles, write_private
from headway.trust.identity import Identity, Role
from headway.trust.joining import JoinAnswer, JoinRequest, JoinToken

from . import enrolment, trust_store
from .enrolment import KeptToken, Signed

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AuthoritySettings:
    """Where the authority lies, and what a machine that joins is told. ``shared`` are keys of headway.toml."""

    cluster: str
    folder: Path
    shared: Mapping[str, Any]


class Issuer:
    """The one place that uses the authority's key. Belongs to the event loop."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        settings: AuthoritySettings | None,
        *,
        cordon: Callable[[str, str, str], Awaitable[bool]],
        version: str | None = None,
    ) -> None:
        self._db = db
        self._clock = clock
        self._settings = settings
        self._cordon = cordon
        self._version = version or own_version()
        self._authority: Authority | None = None
        # One list after the other: an older one must not be written last.
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """At start: takes up what `headway init` signed, and writes down once more what was revoked.

        Raises:
            ConfigInvalid: the authority's files can't be used.
        """
        if self._settings is None:
            return
        files = TrustFiles(self._settings.folder)
        self._authority = Authority.read(files, self._clock.now)
        found = []
        for role in Role:
            try:
                pem = files.certificate(role).read_bytes()
                issued(pem)
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                # Another service's affair: it must not keep this one from starting.
                log.error("trust.certificate_unreadable", file=str(files.certificate(role)), reason=str(error))
                continue
            found.append(pem)
        authority, now = self._authority, self._clock.now()
        revoked = _written(files.revoked)

        def take_up(conn: Connection) -> None:
            for pem in found:
                one = issued(pem)
                if one.identity.cluster == authority.cluster and trust_store.find_certificate(conn, one.serial) is None:
                    trust_store.add_certificate(conn, _signed(pem, origin="init", invitation="", digest=""))
            # An old database was restored: there is no way to make a certificate count again, so these still don't.
            trust_store.revoke(conn, revoked, "the list in revoked.json", now)
            trust_store.forget_old(conn, now)

        await self._db.write(take_up)
        await self._write_revoked()

    # -- tokens ---------------------------------------------------------------------------------

    async def invite(self, role: str, name: str, for_s: float, by: str) -> tuple[KeptToken, JoinToken]:
        """A new token; only its key is kept.

        Raises:
            InvalidInput: as `enrolment.checked_invitation` says.
            Conflict: this cluster has no authority.
            TooMany: very many tokens wait to be used.
        """
        authority = self._required()
        checked = enrolment.checked_invitation(role, name, for_s)
        now = self._clock.now()
        token = joining.new_token(authority.cluster, authority.fingerprint)
        made = KeptToken(token.id, token.key, checked, name, by, now, now + for_s)

        def write(conn: Connection) -> None:
            trust_store.forget_old(conn, now)
            if trust_store.open_invitations(conn, now) >= enrolment.MOST_OPEN:
                raise TooMany(f"There are {enrolment.MOST_OPEN} tokens that nobody has used yet: delete some first.")
            trust_store.add_invitation(conn, made)

        await self._db.write(write)
        log.info("trust.invited", token=made.id, role=role, name=name, by=by, until=made.until_at)
        return made, token

    async def invitations(self) -> list[tuple[KeptToken, str]]:
        """All that are kept, the newest first, each with the name under which its machine joined, if one did."""

        def read(conn: Connection) -> list[tuple[KeptToken, str]]:
            names = {one.serial: one.name for one in trust_store.certificates(conn)}
            return [(one, names.get(one.serial, "")) for one in trust_store.invitations(conn)]

        return await self._db.read(read)

    async def delete_invitation(self, token_id: str) -> None:
        """Nobody joins by it any more. One that is gone is fine; what it gave already stays."""
        if token_id.isalnum():
            await self._db.write(lambda conn: trust_store.delete_invitation(conn, token_id))

    # -- joining --------------------------------------------------------------------------------

    async def enroll(self, request: JoinRequest, proof: str) -> tuple[JoinAnswer, str]:
        """The answer to a machine, with the cluster's proof.

        Raises:
            NotSignedIn, NotAllowed, Conflict, InvalidInput: it can't join; the sentence says why. Nothing has changed.
        """
        authority = self._required()
        assert self._settings is not None
        ca = (TrustFiles(self._settings.folder).ca).read_text("ascii")
        now = self._clock.now()

        def decide(conn: Connection) -> tuple[Identity, str, bytes]:
            known = request.token_id.isalnum()  # PostgreSQL takes not every sign
            invitation = enrolment.check_request(
                request,
                proof,
                trust_store.find_invitation(conn, request.token_id) if known else None,
                cluster=authority.cluster,
                version=self._version,
                now=now,
            )
            digest = key_digest(request.csr.encode())
            before = trust_store.find_certificate(conn, invitation.serial) if invitation.serial else None
            given = enrolment.given_before(invitation, before, digest, now=now)
            if given is not None:
                return Identity(authority.cluster, given.role, given.name), given.pem, invitation.key
            identity = enrolment.identity_for(request, invitation, authority.cluster)
            others = trust_store.certificates_of(conn, identity.role, identity.name)
            enrolment.check_free(identity, request, invitation, others, now=now)
            if request.look:
                return identity, "", invitation.key
            signed = _signed(
                authority.sign(request.csr.encode(), identity), origin="join", invitation=invitation.id, digest=digest
            )
            trust_store.add_certificate(conn, signed)
            trust_store.mark_used(conn, invitation.id, signed.serial, now)
            return identity, signed.pem, invitation.key

        identity, pem, key = await (self._db.read(decide) if request.look else self._db.write(decide))
        if not request.look:
            log.info("trust.joined", role=identity.role, name=identity.name, token=request.token_id)
        shared = dict(self._settings.shared)
        settings = {"role": identity.role, "name": identity.name, "at": now, "settings": shared}
        answer = JoinAnswer("" if request.look else pem, ca, json.dumps(settings), self._version)
        return answer, answer.proof(key, request)

    async def renew(self, csr_pem: bytes, identity: Identity, *, shown: int | None = None) -> bytes:
        """Another certificate for the same service, which has shown the one with the serial number ``shown``.

        Raises:
            InvalidInput: the request can't be read.
            NotAllowed: the shown one was revoked, perhaps just now.
            TooMany: the service has had very many lately.
            Conflict: this cluster has no authority.
        """
        authority = self._required()
        digest = key_digest(csr_pem)
        pem = authority.sign(csr_pem, identity)
        signed = _signed(pem, origin="renew", invitation="", digest=digest)
        now = self._clock.now()

        def write(conn: Connection) -> None:
            before = trust_store.find_certificate(conn, f"{shown:x}") if shown is not None else None
            lately = trust_store.renewed_since(conn, identity.role, identity.name, now - enrolment.RENEWALS_IN_S)
            enrolment.check_renewal(identity, before, lately)
            trust_store.add_certificate(conn, signed)

        await self._db.write(write)
        log.info("trust.renewed", role=identity.role, name=identity.name, until=signed.until_at)
        return pem

    def renew_page(self, certificate_pem: bytes) -> bytes | None:
        """Another certificate for the page's key and host, in the last third of this one's life; None: not yet.

        None also where this authority did not sign it.

        Raises:
            Conflict: this cluster has no authority.
        """
        authority = self._required()
        found = authority.page_of(certificate_pem)
        if found is None or found.until_at - self._clock.now() >= (found.until_at - found.from_at) / 3:
            return None
        return authority.sign_page(found.key, found.host)

    # -- certificates ---------------------------------------------------------------------------

    async def certificates(self) -> list[Signed]:
        """All that are kept, by role and name."""
        return await self._db.read(trust_store.certificates)

    async def is_revoked(self, serial: str) -> bool:
        """Whether it was revoked, also where it has ended by now."""
        found = await self._db.read(lambda conn: trust_store.find_certificate(conn, serial))
        return found is not None and found.revoked_at is not None

    async def revoke(self, which: str, by: str) -> tuple[list[Signed], list[str]]:
        """Certificates of a serial, a node or a role count no more; the nodes among them are cordoned.

        Safe to say again. Answers what was meant, and which nodes were cordoned.

        Raises:
            NotFound: nothing is called so.
            Conflict: it would end ResourceManager itself, which nobody could undo.
        """
        self._required()
        assert self._settings is not None
        own = TrustFiles(self._settings.folder).certificate(Role.RESOURCE_MANAGER)
        own_serial = issued(own.read_bytes()).serial if own.exists() else ""
        now = self._clock.now()

        def write(conn: Connection) -> list[Signed]:
            found = trust_store.meant(conn, which) if which.isprintable() else []
            if not found:
                raise NotFound(f"No certificate has the serial {which[:80]!r}, and no node or role is called so.")
            if any(one.serial == own_serial for one in found):
                raise Conflict(
                    "That is the certificate of the service that keeps the list of those that count no more. Without "
                    "it nobody could be told."
                )
            trust_store.revoke(conn, [one.serial for one in found], by, now)
            return [one for one in (trust_store.find_certificate(conn, each.serial) for each in found) if one]

        found = await self._db.write(write)
        await self._write_revoked()
        log.warning("trust.revoked", which=which, by=by, serials=[one.serial for one in found])
        names = sorted({one.name for one in found if one.role is Role.WORKER})
        return found, [name for name in names if await self._cordon(name, "its certificate was revoked", by)]

    async def _write_revoked(self) -> None:
        assert self._settings is not None
        now = self._clock.now()
        file = TrustFiles(self._settings.folder).revoked
        async with self._writing:
            serials = set(await self._db.read(lambda conn: trust_store.revoked_serials(conn, now)))
            known = {one.serial for one in await self._db.read(trust_store.certificates)}
            # After a database was lost, what was revoked before stays so.
            serials |= {one for one in _written(file) if one not in known}
            write_private(file, f"{json.dumps(sorted(serials))}\n".encode(), mode=0o644)

    def _required(self) -> Authority:
        if self._authority is None:
            raise Conflict(
                "This cluster has no authority, so no machine can join by a token: `headway init` sets one up, before "
                "the first start."
            )
        return self._authority


def _written(file: Path) -> list[str]:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _signed(pem: bytes, *, origin: str, invitation: str, digest: str) -> Signed:
    one = issued(pem)
    return Signed(
        serial=one.serial,
        role=one.identity.role,
        name=one.identity.name,
        from_at=one.from_at,
        until_at=one.until_at,
        origin=origin,
        invitation=invitation,
        key_digest=digest,
        pem=one.pem,
    )
