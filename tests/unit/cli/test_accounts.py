"""What admins do with accounts from the command line."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from headway.cli import accounts
from headway.cli.main import cli
from headway.client import Client, Profile
from headway.errors import InvalidInput, NotFound


class Server:
    """Answers what a test needs, and notes what was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.jobs: list[dict[str, Any]] = []
        made = lambda: Client(Profile("http://headway.test"), transport=httpx.MockTransport(self._answer))  # noqa: E731
        monkeypatch.setattr(accounts, "client", made)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        if request.method == "GET" and path == "/jobs":
            return httpx.Response(200, json={"jobs": self.jobs, "next_cursor": None})
        body = json.loads(request.content) if request.content else dict(request.url.params)
        self.asked.append((request.method, path, body))
        if request.method == "GET":
            one = {"id": "t1", "name": "ci", "created_at": 1.0, "expires_at": None, "used_at": None}
            return httpx.Response(200, json={"tokens": [one], "sessions": [one]})
        ended = 0 if path.endswith("/nope") else 1
        return httpx.Response(200, json={"name": "ann", "enabled": False, "home": "from-ann", "ended": ended})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["accounts", *words], catch_exceptions=False)


def test_who_has_live_jobs_is_not_disabled_without_a_word_about_them(server: Server) -> None:
    server.jobs = [{"id": "j1"}, {"id": "j2"}]
    refused = run("disable", "ann")
    assert refused.exit_code == 2
    assert "2 jobs that have not ended: say --cancel-jobs or --keep-jobs" in refused.output
    assert server.asked == []


@pytest.mark.parametrize(("words", "cancel", "keep"), [
    (["--cancel-jobs"], True, False),
    (["--keep-jobs", "--keep-tokens"], False, True),
])  # fmt: skip
def test_disabling_says_what_becomes_of_jobs_and_tokens(
    server: Server, words: list[str], cancel: bool, keep: bool
) -> None:
    server.jobs = [{"id": "j1"}]
    assert run("disable", "ann", *words).exit_code == 0
    assert server.asked == [("PATCH", "/users/ann", {"enabled": False, "cancel_jobs": cancel, "keep_tokens": keep})]


def test_who_has_no_live_jobs_is_disabled_without_a_question(server: Server) -> None:
    assert "held until" in run("disable", "ann").output
    assert run("enable", "ann").output == "ann: enabled\n"


@pytest.mark.parametrize(("words", "query"), [
    ([], {"home": "keep"}),
    (["--delete-home"], {"home": "delete"}),
    (["--give-home-to", "bob"], {"home": "hand_over", "to": "bob"}),
])  # fmt: skip
def test_removing_says_what_becomes_of_the_files(server: Server, words: list[str], query: dict[str, str]) -> None:
    assert "removed" in run("remove", "ann", *words).output
    assert server.asked == [("DELETE", "/users/ann", query)]
    assert run("remove", "ann", "--delete-home", "--give-home-to", "bob").exit_code == 2


@pytest.mark.parametrize("kind", ["tokens", "sessions"])
def test_sessions_and_tokens_are_listed_and_ended(server: Server, kind: str) -> None:
    assert "ci" in run(kind, "ann").output
    run(kind, "ann", "--end", "t1")
    run(kind, "ann", "--end-all")
    assert [asked[:2] for asked in server.asked] == [
        ("GET", f"/users/ann/{kind}"),
        ("DELETE", f"/users/ann/{kind}/t1"),
        ("DELETE", f"/users/ann/{kind}"),
    ]
    assert run(kind, "ann", "--end", "t1", "--end-all").exit_code == 2


@pytest.mark.parametrize("kind", ["tokens", "sessions"])
def test_what_is_not_there_is_not_told_as_ended(server: Server, kind: str) -> None:
    with pytest.raises(NotFound, match=f"ann has no {kind[:-1]} 'nope': `headway accounts {kind} ann` lists them"):
        run(kind, "ann", "--end", "nope")
    server.asked.clear()
    # An empty variable of a script ends nothing, and least of all everything.
    with pytest.raises(InvalidInput, match=f"The name of the {kind[:-1]} is empty"):
        run(kind, "ann", "--end", "")
    assert server.asked == []


def test_a_password_reset_keeps_tokens_only_where_asked(server: Server) -> None:
    CliRunner().invoke(cli, ["accounts", "reset-password", "ann", "--password-stdin"], input="a new good one\n")
    assert server.asked == [("PATCH", "/users/ann", {"password": "a new good one", "keep_tokens": False})]
