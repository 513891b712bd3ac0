"""Passwords of registries: encrypted, with a key apart, and what happens when that is the wrong one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from httpserver.auth.vault import SecretsUnusable, Vault

WHO = ("ann", "reg.example.org")


def opened(path: Path, *, stored: bool = True) -> Vault:
    vault = Vault(path)
    vault.open(stored=stored)
    return vault


def test_the_first_start_makes_a_key_that_only_the_service_reads(tmp_path: Path):
    path = tmp_path / "state" / "key"
    vault = opened(path, stored=False)
    assert vault.problem == ""
    assert path.stat().st_mode & 0o777 == 0o600
    secret = vault.encrypt(*WHO, "s3cret-pässword")
    assert "s3cret" not in secret
    assert opened(path).decrypt(*WHO, secret) == "s3cret-pässword"
    assert [entry.name for entry in path.parent.iterdir()] == ["key"]


def test_what_was_stored_for_one_serves_no_other(tmp_path: Path):
    vault = opened(tmp_path / "key", stored=False)
    secret = vault.encrypt(*WHO, "x")
    for other in (("bob", "reg.example.org"), ("ann", "reg.example.com")):
        with pytest.raises(SecretsUnusable):
            vault.decrypt(*other, secret)


def test_a_new_key_on_top_reads_what_the_old_one_wrote(tmp_path: Path):
    path = tmp_path / "key"
    before = opened(path, stored=False).encrypt(*WHO, "x")
    old = path.read_bytes()
    path.write_bytes(Fernet.generate_key() + b"\n" + old)
    both = opened(path)
    assert both.decrypt(*WHO, before) == "x"
    assert not both.is_current(before)
    after = both.encrypt(*WHO, "x")
    assert both.is_current(after)
    path.write_bytes(path.read_bytes().splitlines()[0])
    alone = opened(path)
    assert alone.decrypt(*WHO, after) == "x"
    with pytest.raises(SecretsUnusable, match="put that key back"):
        alone.decrypt(*WHO, before)


@pytest.mark.parametrize(
    ("content", "mode", "want"),
    [
        (b"", 0o600, "no usable key"),
        (b"not a key\n", 0o600, "no usable key"),
        (b"\xff" * 90_000, 0o600, "no usable key"),
        (Fernet.generate_key(), 0o644, "chmod 600"),
        (None, 0, "is gone"),
    ],
    ids=["empty", "words", "long", "open to all", "gone"],
)
def test_a_key_file_that_is_not_right_is_said_in_a_sentence(
    tmp_path: Path, content: bytes | None, mode: int, want: str
):
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)
    vault = opened(path)
    assert want in vault.problem
    for refused in (lambda: vault.encrypt(*WHO, "x"), lambda: vault.decrypt(*WHO, "x")):
        with pytest.raises(SecretsUnusable, match=want):
            refused()
    assert path.exists() is (content is not None), "a lost key is never made anew over stored passwords"


def test_a_folder_in_place_of_the_key_is_no_crash(tmp_path: Path):
    os.mkdir(tmp_path / "key", 0o700)
    assert "can't be used" in opened(tmp_path / "key").problem
