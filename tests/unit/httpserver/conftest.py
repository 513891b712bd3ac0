"""What all tests of the HTTP server share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher

from httpserver.auth import passwords


@pytest.fixture(scope="session", autouse=True)
def shipped_hasher() -> Iterator[PasswordHasher]:
    """Hashes cost these tests next to nothing; the hasher that people get is given to the test that is about it."""
    shipped = passwords._hasher
    passwords._hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    yield shipped
    passwords._hasher = shipped
