"""Accounts, sessions and tokens as values. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody who may sign in. Tasks run and files belong to ``uid`` and ``gid``."""

    name: str
    uid: int
    gid: int
    admin: bool
    enabled: bool
    may_use_image_user: bool
    may_use_high_priority: bool
    created_at: float
    signed_in_at: float | None = None
    quota_bytes: int | None = None  # of the personal space; 0: no limit, None: as configured


@dataclass(frozen=True, slots=True)
class CameFrom:
    """From where a session was opened: the client's address, what its program calls itself, and by which way."""

    address: str = ""
    agent: str = ""
    way: str = ""  # password, provider, command line, operator


@dataclass(frozen=True, slots=True)
class SignedInSession:
    """A fresh session; ``token`` is kept nowhere else."""

    account: Account
    token: str
    expires_at: float


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A session or long-lived token without its value; a session has no name."""

    id: str
    name: str
    created_at: float
    expires_at: float | None  # None: until deleted
    used_at: float | None  # to about a minute
    came: CameFrom = CameFrom()
