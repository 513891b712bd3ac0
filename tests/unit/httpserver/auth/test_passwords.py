"""The hasher that people get. All other tests use one that costs next to nothing."""

from __future__ import annotations

import pytest
from argon2 import PasswordHasher, Type, extract_parameters

from httpserver.auth import passwords
from httpserver.auth.passwords import Passwords


async def test_a_guess_is_dear_and_right_ones_are_told_from_wrong_ones(
    shipped_hasher: PasswordHasher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "_hasher", shipped_hasher)
    stored = await Passwords().hash("correct horse")
    found = extract_parameters(stored)
    assert found.type is Type.ID
    assert found.time_cost >= 3
    assert found.memory_cost >= 32 * 1024
    assert await Passwords().check(stored, "correct horse", turn="")
    assert not await Passwords().check(stored, "correct house", turn="")
    assert not await Passwords().check(None, "correct horse", turn="")


async def test_a_hash_of_weaker_settings_is_outdated(
    shipped_hasher: PasswordHasher, monkeypatch: pytest.MonkeyPatch
) -> None:
    weak = await Passwords().hash("correct horse")
    assert not Passwords().outdated(weak)
    monkeypatch.setattr(passwords, "_hasher", shipped_hasher)
    assert Passwords().outdated(weak)
    assert await Passwords().check(weak, "correct horse", turn="")
