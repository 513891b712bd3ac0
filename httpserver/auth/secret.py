"""Values that open doors: made here, kept only as hashes."""

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
    """What is stored and looked up. No salt and no slow hash: the value is random already, and finding a hash by
    timing tells nothing about the value."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def plausible(secret: str) -> bool:
    """Whether it may be one of ours at all."""
    return len(secret) <= _MAX_CHARS and secret.startswith((SESSION, TOKEN))
