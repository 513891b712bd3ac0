"""Secret values of sessions and tokens: made here, stored only as hashes."""

from __future__ import annotations

import hashlib
import secrets

SESSION = "hws_"
TOKEN = "hwt_"
_MAX_CHARS = 200


def new_secret(kind: str) -> str:
    """256 random bits; the prefix tells people and secret scanners what it is."""
    return kind + secrets.token_urlsafe(32)


def hashed(secret: str) -> str:
    """The hash that is stored and looked up. It needs no salt and no slow hash function: the value is random already.
    Finding a hash by timing tells nothing about the value."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def plausible(secret: str) -> bool:
    """Whether it may be one of ours at all."""
    return len(secret) <= _MAX_CHARS and secret.startswith((SESSION, TOKEN))
