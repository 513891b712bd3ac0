"""Passwords: argon2id, one check at a time, off the event loop."""

from __future__ import annotations

import asyncio
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from headway.turns import Turns

# 32 MiB and about 50 ms a check: dear for a guesser, bearable for the smallest leader machine.
_hasher = PasswordHasher(time_cost=3, memory_cost=32 * 1024, parallelism=1)

# Letters and digits that nobody mistakes for one another.
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


def new_password() -> str:
    """A random password of 20 characters (98 bits) in groups that can be typed."""
    return "-".join("".join(secrets.choice(_ALPHABET) for _ in range(5)) for _ in range(4))


class Passwords:
    """Makes and checks hashes. One at a time, so that many sign-ins at once cost time and not memory.

    Those who wait take turns, so that a burst of guesses for one account holds up nobody else.
    """

    def __init__(self) -> None:
        self._turns = Turns(1)
        self._decoy: str | None = None

    async def hash(self, password: str) -> str:
        """A fresh salted hash of ``password``."""
        async with self._turns.of(""):
            return await asyncio.to_thread(_hasher.hash, password)

    async def check(self, stored: str | None, password: str, *, turn: str) -> bool:
        """Whether ``password`` made ``stored``; None (no such account) takes as long and is always False."""
        async with self._turns.of(turn):
            if stored is None and self._decoy is None:
                self._decoy = await asyncio.to_thread(_hasher.hash, secrets.token_urlsafe())
            right = await asyncio.to_thread(_verify, stored or self._decoy or "", password)
            return right and stored is not None

    def outdated(self, stored: str) -> bool:
        """Whether it was made with weaker settings than today's."""
        return _hasher.check_needs_rehash(stored)


def _verify(stored: str, password: str) -> bool:
    try:
        return _hasher.verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False
