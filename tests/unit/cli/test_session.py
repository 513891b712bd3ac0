"""Signing in: the file holds one server, and whoever takes another's place there says so."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from headway.cli import session, up
from headway.cli.main import cli
from headway.client import Client, Profile

OLD, NEW = "http://127.0.0.1:8080", "http://127.0.0.1:9090"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("HEADWAY_URL", "HEADWAY_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "headway" / "client.toml"


def test_a_sign_in_says_which_server_it_replaces(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"token": "t2", "user": {"name": "ann"}})

    def make(profile: Profile) -> Client:
        return Client(profile, transport=httpx.MockTransport(answer))

    monkeypatch.setattr(session, "Client", make)

    def login(url: str) -> str:
        done = CliRunner().invoke(cli, ["login", url, "-u", "ann", "--password-stdin"], input="p\n")
        assert done.exit_code == 0, done.output
        return done.output

    assert "in place of" not in login(OLD)
    assert "in place of" not in login(OLD)
    assert f"in place of {OLD}" in login(NEW)
    assert Profile.load().url == NEW


def test_up_says_which_server_it_replaces_and_leaves_another_machines_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first_admin = tmp_path / "first-admin"
    first_admin.write_text("admin\nsecret\n")
    config = SimpleNamespace(httpserver=SimpleNamespace(first_admin_file=str(first_admin)))
    prepared: Any = SimpleNamespace(url=NEW, first=True, config=config)
    ran: list[list[str]] = []

    def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        ran.append(words)
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(up.subprocess, "run", run)
    assert "no longer" not in up._sign_in(prepared)
    Profile(url=OLD, token="t", user="ann").save()
    assert f"no longer at {OLD}: `headway login {OLD}` goes back" in up._sign_in(prepared)
    assert len(ran) == 2
    elsewhere = "https://headway.example.org"
    Profile(url=elsewhere, token="t", user="ann").save()
    assert f"stays signed in at {elsewhere}" in up._sign_in(prepared)
    assert len(ran) == 2
