"""Whether a machine may join, and as whom. Pure: rows and instants go in, a decision or a refusal comes out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from headway.errors import Conflict, InvalidInput, NotAllowed, NotSignedIn, TooMany
from headway.trust import joining
from headway.trust.identity import Identity, Role

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_ANOTHER = "`headway nodes invite` makes another one."
LONGEST_S = 7 * 86_400.0
SHORTEST_S = 60.0
MOST_OPEN = 1_000
MOST_RENEWALS = 20  # of one service, within RENEWALS_IN_S; one in some weeks is needed
RENEWALS_IN_S = 3_600.0


@dataclass(frozen=True, slots=True)
class KeptToken:
    """A token as it is kept. ``serial``: of the certificate that it gave; empty: none yet."""

    id: str
    key: bytes
    role: Role
    name: str
    by: str
    made_at: float
    until_at: float
    used_at: float | None = None
    serial: str = ""


@dataclass(frozen=True, slots=True)
class Signed:
    """A certificate as it is kept. ``key_digest`` is of its public key."""

    serial: str
    role: Role
    name: str
    from_at: float
    until_at: float
    origin: str
    invitation: str
    key_digest: str
    pem: str
    revoked_at: float | None = None
    revoked_by: str = ""


def checked_invitation(role: str, name: str, for_s: float) -> Role:
    """What an admin asks for.

    Raises:
        InvalidInput: no such role, a name that can't be, or a time that is too short or too long.
    """
    if role not in set(Role):
        raise InvalidInput(f"There is no role {role[:64]!r}: choose one of {', '.join(sorted(Role))}.")
    if role in (Role.RESOURCE_MANAGER, Role.HTTP_SERVER):
        raise InvalidInput(
            f"{role} runs where `headway init` ran, since machines join through it: choose worker, job_manager or "
            "task_manager."
        )
    if name and role != Role.WORKER:
        raise InvalidInput(f"There is one {role} in a cluster, so it takes no name.")
    if name:
        check_name(name)
    if not SHORTEST_S <= for_s <= LONGEST_S:
        raise InvalidInput("A token to join with is good for at least a minute and at most 7 days.")
    return Role(role)


def check_name(name: str) -> None:
    """Raises InvalidInput for what can't be a node's name."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:80]!r} can't name a node: use up to 63 small letters, digits, points, `_` and `-`, "
            "with a letter or digit first."
        )


def check_request(
    request: joining.JoinRequest, proof: str, invitation: KeptToken | None, *, cluster: str, version: str, now: float
) -> KeptToken:
    """Looks at all but what was signed before, from which `decide` goes on.

    Raises:
        NotSignedIn: the token is not known, or the proof is wrong; both are told alike.
        NotAllowed: it is of another cluster, or the machine can't join as it is.
    """
    if request.cluster != cluster:
        raise NotAllowed(
            f"The token is one of the cluster {request.cluster[:64]!r}, and this is the cluster {cluster!r}: use the "
            "address of the page where the token was made."
        )
    if invitation is None or not joining.same(proof, request.proof(invitation.key)):
        raise NotSignedIn(f"This cluster knows no such token to join with, or no more. {_ANOTHER}")
    for refusal in (
        joining.clock_refusal(request.at, now),
        joining.version_refusal(version, request.version),
    ):
        if refusal:
            raise NotAllowed(refusal)
    return invitation


def identity_for(request: joining.JoinRequest, invitation: KeptToken, cluster: str) -> Identity:
    """Who joins. What a token names counts before what the machine wishes.

    Raises:
        InvalidInput: nobody said the name, or it can't be one.
        NotAllowed: the token is for another name.
    """
    if invitation.role is not Role.WORKER:
        return Identity(cluster, invitation.role)
    if invitation.name and request.name and request.name != invitation.name:
        raise NotAllowed(f"The token is for the node {invitation.name!r} alone, and not for {request.name[:64]!r}.")
    name = invitation.name or request.name or request.host
    if not name:
        raise InvalidInput("Say the node's name with --name.")
    check_name(name)
    return Identity(cluster, invitation.role, name)


def given_before(invitation: KeptToken, signed: Signed | None, key_digest: str, *, now: float) -> Signed | None:
    """The certificate that this very request got before, if its answer was lost; None: the token is fresh.

    Raises:
        Conflict: another machine has used the token.
        NotAllowed: it has expired, or what it gave was revoked.
    """
    if invitation.used_at is not None:
        if signed is None or signed.key_digest != key_digest:
            raise Conflict(f"This token was used already, on {utc_text(invitation.used_at)}. {_ANOTHER}")
        if signed.revoked_at is not None:
            raise NotAllowed(
                f"The certificate that this token gave was revoked by {signed.revoked_by} on "
                f"{utc_text(signed.revoked_at)}. {_ANOTHER}"
            )
        return signed
    if invitation.until_at <= now:
        raise NotAllowed(f"This token expired on {utc_text(invitation.until_at)}. {_ANOTHER}")
    return None


def check_free(
    identity: Identity, request: joining.JoinRequest, invitation: KeptToken, others: Iterable[Signed], *, now: float
) -> None:
    """Two machines must not be one node.

    Raises:
        Conflict: another key has a certificate under this name that still counts.
        NotAllowed: the machine says that it was this node, and the token doesn't.
    """
    counting = [one for one in others if one.revoked_at is None and one.until_at > now]
    if request.renew:
        if identity.role is Role.WORKER and not invitation.name:
            raise NotAllowed(
                f"To come back as a node that was here before, a token must name it: `headway nodes invite --name "
                f"{identity.name}`."
            )
        return
    if counting:
        until = utc_text(max(one.until_at for one in counting))
        raise Conflict(
            f"There is a {identity} in this cluster already, with a certificate until {until}. If this machine "
            "is to be it from now on, add --renew, with a token that names it. Else choose another --name."
        )


def check_renewal(identity: Identity, shown: Signed | None, lately: int) -> None:
    """Whether a service that has shown a certificate gets another. ``lately``: how many it has got in RENEWALS_IN_S.

    It is asked in the transaction that keeps the new one. So a thief who renews while somebody revokes keeps nothing.

    Raises:
        NotAllowed: what it has shown was revoked.
        TooMany: whoever has the certificate would fill the database and the list of those that count no more.
    """
    if shown is not None and shown.revoked_at is not None:
        raise NotAllowed(
            f"The certificate of {identity} was revoked, so it is not renewed: let the machine join again."
        )
    if lately >= MOST_RENEWALS:
        raise TooMany(
            f"{identity} has renewed its certificate {lately} times within an hour: try again in an hour. If nobody "
            "knows why, somebody may have stolen it: `headway certs revoke`."
        )


def utc_text(at: float) -> str:
    """An instant for people: `2026-11-30 14:05 UTC`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
