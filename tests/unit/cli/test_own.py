"""One's own account from the command line: password, tokens, sessions, who one is."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from headway.cli import accounts, cluster, own
from headway.cli.main import cli
from headway.client import Client, Profile

NOW = 1_800_000_000.0
ME = {
    "name": "ann", "uid": 20_001, "gid": 20_001, "admin": False, "enabled": True, "may_use_image_user": False,
    "may_use_high_priority": True, "quota_bytes": 1 << 30, "created_at": NOW, "signed_in_at": None,
}  # fmt: skip


class Server:
    """Answers what a test needs, and notes what was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        made = lambda: Client(Profile("http://headway.test", token="t"), transport=httpx.MockTransport(self._answer))  # noqa: E731
        for module in (own, accounts, cluster):
            monkeypatch.setattr(module, "client", made)

    def changes(self) -> list[tuple[str, str, Any]]:
        return [asked for asked in self.asked if asked[0] != "GET"]

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        self.asked.append((request.method, path, json.loads(request.content) if request.content else None))
        one = {"id": "t1", "name": "ci\x1b[2J", "created_at": NOW, "expires_at": NOW + 60, "used_at": None}
        match request.method, path:
            case "GET", "/me":
                return httpx.Response(200, json=ME)
            case "GET", "/tokens":
                return httpx.Response(200, json={"tokens": [one]})
            case "GET", "/sessions":
                return httpx.Response(200, json={"sessions": [{**one, "current": True}]})
            case "POST", "/tokens":
                return httpx.Response(201, json={**one, "token": "hwt_secret"})
            case "POST", "/users":
                return httpx.Response(201, json={"user": ME, "password": "made-here"})
            case "POST", "/users/ann/password":
                return httpx.Response(200, json={"password": "made-here"})
            case "PATCH", _:
                return httpx.Response(200, json=ME)
            case "DELETE", "/sessions":
                return httpx.Response(200, json={"ended": 2})
            case "DELETE", "/sessions/t1":
                return httpx.Response(200, json={"ended": 1})
        return httpx.Response(204)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.delenv("HEADWAY_TOKEN", raising=False)
    return Server(monkeypatch)


def run(*words: str, input: str = "") -> Result:
    return CliRunner().invoke(cli, list(words), input=input, catch_exceptions=False)


def test_a_new_password_is_asked_for_twice_and_never_shown(server: Server) -> None:
    done = run("passwd", input="the old one\na new good one\na new good one\n")
    assert done.exit_code == 0
    assert "the old one" not in done.output
    assert "new good one" not in done.output
    assert "Other sessions have ended, tokens stay" in done.output
    assert run("passwd", "--password-stdin", input="the old one\na new good one\n").exit_code == 0
    change = ("POST", "/me/password", {"current": "the old one", "new": "a new good one"})
    assert server.changes() == [change, change]


def test_a_change_by_a_token_says_that_all_sessions_have_ended(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    make = lambda: Client(Profile("http://headway.test", token="hwt_t"), transport=httpx.MockTransport(server._answer))  # noqa: E731
    monkeypatch.setattr(own, "client", make)
    told = run("passwd", "--password-stdin", input="the old one\na new good one\n").output
    assert "All sessions have ended, tokens stay" in told


def test_a_script_without_a_second_line_changes_nothing(server: Server) -> None:
    assert "no second line" in run("passwd", "--password-stdin", input="the old one\n").output
    assert server.asked == []


def test_a_token_stands_alone_on_standard_output(server: Server) -> None:
    done = run("tokens", "add", "ci", "--expires", "90d")
    assert done.stdout == "hwt_secret\n"
    assert "shown only now" in done.stderr
    run("tokens", "add", "for ever")
    assert server.changes() == [
        ("POST", "/tokens", {"name": "ci", "expires_in_s": 90 * 86_400.0}),
        ("POST", "/tokens", {"name": "for ever", "expires_in_s": None}),
    ]


@pytest.mark.parametrize("bad", ["-1d", "0", "0d", "90", "1e9d", "8000d", "soon", "\x1b[2J"])
def test_a_life_that_is_none_is_refused_before_anything_is_asked(server: Server, bad: str) -> None:
    done = run("tokens", "add", "ci", "--expires", bad)
    assert done.exit_code == 2
    assert "--expires" in done.output
    assert "\x1b" not in done.output
    assert server.asked == []


def test_tokens_and_sessions_are_listed_without_their_control_characters(server: Server) -> None:
    for command in ("tokens", "sessions"):
        done = run(command)
        assert "t1" in done.output
        assert "\x1b" not in done.output
    assert "this one" in run("sessions", "ls").output
    assert json.loads(run("sessions", "-o", "json").output)[0]["current"] is True


def test_only_what_there_is_is_ended(server: Server) -> None:
    """Ending what isn't there is harmless for the server; whoever mistyped an id believed that it had ended."""
    for kind, word in (("tokens", "rm"), ("sessions", "end")):
        refused = CliRunner().invoke(cli, [kind, word, "t2"])
        assert "'t2'" in str(refused.exception)
        assert server.changes() == []
    assert "t1: deleted" in run("tokens", "rm", "t1").output
    assert "sign in again" in run("sessions", "end", "t1").output
    assert "2 sessions ended" in run("sessions", "end", "--others").output
    assert [asked[:2] for asked in server.changes()] == [
        ("DELETE", "/tokens/t1"), ("DELETE", "/sessions/t1"), ("DELETE", "/sessions")
    ]  # fmt: skip
    assert run("sessions", "end").exit_code == run("sessions", "end", "t1", "--others").exit_code == 2


def test_whoami_says_who_where_and_what_the_account_may(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    told = run("whoami").output
    assert "ann at http://headway.test, by `headway login`" in told
    assert "uid 20001, gid 20001; high priority" in told
    assert "1.0 GiB" in told
    monkeypatch.setenv("HEADWAY_TOKEN", "t")
    assert "HEADWAY_TOKEN" in run("whoami").output
    assert json.loads(run("whoami", "-o", "json").output) == {**ME, "url": "http://headway.test"}


@pytest.mark.parametrize(("quota", "sent"), [
    ("50GiB", 50 << 30), ("none", 0), ("0", 0), ("configured", -1), ("default", -1),
])  # fmt: skip
def test_quotas_have_units_or_are_words(server: Server, quota: str, sent: int) -> None:
    run("accounts", "set", "ann", "--quota", quota)
    run("accounts", "add", "ann", "--quota", quota)
    assert server.changes()[0] == ("PATCH", "/users/ann", {"quota_bytes": sent})
    assert server.changes()[1][2].get("quota_bytes", -1) == sent


@pytest.mark.parametrize("bad", ["-1", "1 TB of", f"1{30 * '0'}", f"1{30 * '0'}B", "", "5G", "٥GiB"])
def test_what_is_no_quota_changes_nothing(server: Server, bad: str) -> None:
    for words in (["set", "ann"], ["add", "ann"]):
        done = run("accounts", *words, "--quota", bad)
        assert done.exit_code == 2
        assert "--quota" in done.output
    assert server.asked == []


def test_an_account_is_made_with_its_grants_and_a_password_reset_can_be_left_to_the_server(server: Server) -> None:
    assert "made-here" in run("accounts", "add", "ann", "--high-priority", "--gid", "30000").output
    wanted = {"name": "ann", "admin": False, "may_use_image_user": False, "may_use_high_priority": True, "gid": 30_000}
    assert "made-here" in run("accounts", "reset-password", "ann", "--generate", "--keep-tokens").output
    assert server.changes() == [
        ("POST", "/users", wanted),
        ("POST", "/users/ann/password", {"keep_tokens": True}),
    ]
    assert run("accounts", "reset-password", "ann", "--generate", "--password-stdin").exit_code == 2
