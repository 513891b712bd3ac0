"""Invitations and certificates as SQL. Every function works inside a transaction that its caller opened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from headway.trust.authority import BACKDATED_S
from headway.trust.identity import Role

from .enrolment import KeptToken, Signed
from .tables import certificate, invitation

_KEPT_S = 30 * 86_400.0  # after the end


def add_invitation(conn: Connection, made: KeptToken) -> None:
    conn.execute(insert(invitation), {**asdict(made), "role": made.role.value})


def find_invitation(conn: Connection, token_id: str) -> KeptToken | None:
    row = conn.execute(select(invitation).where(invitation.c.id == token_id)).one_or_none()
    return None if row is None else _invitation(row)


def invitations(conn: Connection) -> list[KeptToken]:
    """All that are kept, the newest first."""
    query = select(invitation).order_by(invitation.c.made_at.desc(), invitation.c.id)
    return [_invitation(row) for row in conn.execute(query)]


def open_invitations(conn: Connection, now: float) -> int:
    """How many may still be used."""
    query = select(func.count()).where(invitation.c.used_at.is_(None), invitation.c.until_at > now)
    return int(conn.execute(query).scalar_one())


def mark_used(conn: Connection, token_id: str, serial: str, now: float) -> None:
    conn.execute(update(invitation).where(invitation.c.id == token_id).values(used_at=now, serial=serial))


def delete_invitation(conn: Connection, token_id: str) -> None:
    conn.execute(delete(invitation).where(invitation.c.id == token_id))


def forget_old(conn: Connection, now: float) -> None:
    """What ended long ago goes, so that the tables stay small."""
    conn.execute(delete(invitation).where(invitation.c.until_at < now - _KEPT_S))
    conn.execute(delete(certificate).where(certificate.c.until_at < now - _KEPT_S))


def add_certificate(conn: Connection, signed: Signed) -> None:
    conn.execute(insert(certificate), {**asdict(signed), "role": signed.role.value})


def find_certificate(conn: Connection, serial: str) -> Signed | None:
    row = conn.execute(select(certificate).where(certificate.c.serial == serial)).one_or_none()
    return None if row is None else _signed(row)


def certificates(conn: Connection) -> list[Signed]:
    """All that are kept, by role and name, the newest first."""
    c = certificate.c
    return [
        _signed(row) for row in conn.execute(select(certificate).order_by(c.role, c.name, c.from_at.desc(), c.serial))
    ]


def certificates_of(conn: Connection, role: Role, name: str) -> list[Signed]:
    c = certificate.c
    return [_signed(row) for row in conn.execute(select(certificate).where(c.role == role.value, c.name == name))]


def renewed_since(conn: Connection, role: Role, name: str, since: float) -> int:
    """How many renewals of a service begin after an instant (epoch seconds)."""
    c = certificate.c
    query = select(func.count()).where(
        c.role == role.value, c.name == name, c.origin == "renew", c.from_at > since - BACKDATED_S
    )
    return int(conn.execute(query).scalar_one())


def meant(conn: Connection, which: str) -> list[Signed]:
    """Those of one serial, else those of a node, else of a role."""
    c = certificate.c
    node = (c.role == Role.WORKER.value) & (c.name == which)
    query = select(certificate).where(
        or_(c.serial == which.lower(), node, (c.role == which) & (c.role != Role.WORKER.value))
    )
    return [_signed(row) for row in conn.execute(query.order_by(c.from_at.desc()))]


def revoke(conn: Connection, serials: Iterable[str], by: str, now: float) -> None:
    """Those that were revoked before keep their time."""
    query = update(certificate).where(certificate.c.serial.in_(list(serials)), certificate.c.revoked_at.is_(None))
    conn.execute(query.values(revoked_at=now, revoked_by=by))


def revoked_serials(conn: Connection, now: float) -> list[str]:
    """Of certificates that would count else."""
    c = certificate.c
    query = select(c.serial).where(c.revoked_at.is_not(None), c.until_at > now).order_by(c.serial)
    return list(conn.execute(query).scalars())


def _invitation(row: object) -> KeptToken:
    fields = dict(row._mapping)  # type: ignore[attr-defined]
    return KeptToken(**{**fields, "role": Role(fields["role"])})


def _signed(row: object) -> Signed:
    fields = dict(row._mapping)  # type: ignore[attr-defined]
    return Signed(**{**fields, "role": Role(fields["role"])})
