"""Signing in: the file holds one server, and whoever takes another's place there says so."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from headway.cli import accounts, cluster, own, session, up
from headway.cli.main import cli, report
from headway.cli.market import registry
from headway.client import Client, Profile
from headway.client.errors import Refused
from headway.errors import ConfigInvalid

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


class Server:
    """Signs in and out, and notes where and with what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, str, str]] = []
        make = lambda profile: Client(profile, transport=httpx.MockTransport(self._answer))  # noqa: E731
        monkeypatch.setattr(session, "Client", make)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        place = str(request.url).partition("/api/")[0]
        self.asked.append((request.method, place, request.headers.get("Authorization", "")))
        return httpx.Response(200, json={"token": "hws_new", "user": {"name": "ann"}})


def test_logout_ends_what_login_has_left_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    """Used to: it asked with the variable's token, and took the variable's server for the remembered one."""
    server = Server(monkeypatch)
    Profile(url=OLD, token="hws_stored", user="ann").save()
    monkeypatch.setenv("HEADWAY_TOKEN", "hwt_mine")
    monkeypatch.setenv("HEADWAY_URL", NEW)
    done = CliRunner().invoke(cli, ["logout"])
    assert server.asked == [("DELETE", OLD, "Bearer hws_stored")]
    assert done.stdout == f"Signed out of {OLD}.\n"
    assert "HEADWAY_TOKEN is set and still holds" in done.stderr
    assert Profile.stored() == Profile(url=OLD, user="ann")
    again = CliRunner().invoke(cli, ["logout"])
    assert "Not signed in by `headway login`" in again.stdout
    assert "still holds" in again.stderr
    monkeypatch.delenv("HEADWAY_TOKEN")
    assert CliRunner().invoke(cli, ["logout"]).output == "Not signed in.\n"
    assert len(server.asked) == 1


def test_login_says_which_variable_wins_over_it(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    Server(monkeypatch)
    file.parent.mkdir()
    file.write_text("no TOML")  # which login mends, as is told to whoever meets it
    words = ["login", OLD, "-u", "ann", "--password-stdin"]
    assert CliRunner().invoke(cli, words, input="p\n", catch_exceptions=False).stderr == ""
    assert "in place of" not in CliRunner().invoke(cli, words, input="p\n").output
    monkeypatch.setenv("HEADWAY_TOKEN", "hwt_mine")
    monkeypatch.setenv("HEADWAY_URL", f"{OLD}/ ")
    assert "HEADWAY_TOKEN is set and wins" in CliRunner().invoke(cli, words, input="p\n").stderr
    monkeypatch.setenv("HEADWAY_URL", NEW)
    assert "HEADWAY_URL is set and wins" in CliRunner().invoke(cli, words, input="p\n").stderr


def test_a_refusal_names_the_variable_that_caused_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = Refused.from_response(httpx.Response(401, json={"detail": "Sign in."}))
    report(refused)
    assert "`headway login URL`, or a token" in capsys.readouterr().err
    monkeypatch.setenv("HEADWAY_TOKEN", "hwt_gone")
    report(refused)
    assert "HEADWAY_TOKEN is set and wins" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given",
    ["hwt_a-b\r", "hwt_a-b\n", " hwt_a-b ", "Bearer hwt_a-b\r\n", "bearer  hwt_a-b", "Authorization: Bearer hwt_a-b"],
)
def test_a_token_is_taken_as_it_is_pasted(monkeypatch: pytest.MonkeyPatch, file: Path, given: str) -> None:
    def token() -> str:
        with Client(Profile.load()) as http:
            return str(http._http.headers["Authorization"])

    monkeypatch.setenv("HEADWAY_TOKEN", given)
    monkeypatch.setenv("HEADWAY_URL", f" {NEW}/\r\n")
    assert Profile.load().url == NEW
    assert token() == "Bearer hwt_a-b"
    monkeypatch.delenv("HEADWAY_TOKEN")
    monkeypatch.delenv("HEADWAY_URL")
    Profile(url=f"{OLD}\r", token=given).save()
    assert Profile.load().url == OLD
    assert token() == "Bearer hwt_a-b"


@pytest.mark.parametrize("given", ["tökén", "hwt_a b", "hwt_a\x00b", "Bearer", "hwt_a\r\nX: y", "\udcff"])
def test_what_is_no_token_is_told_by_where_it_stands(monkeypatch: pytest.MonkeyPatch, file: Path, given: str) -> None:
    if "\x00" not in given:
        monkeypatch.setenv("HEADWAY_TOKEN", given)
        with pytest.raises(ConfigInvalid, match="HEADWAY_TOKEN can't be a token"):
            Client(Profile.load())
        monkeypatch.delenv("HEADWAY_TOKEN")
    if given.isascii():
        Profile(token=given).save()
        with pytest.raises(ConfigInvalid, match=r"`token` in .*client.toml can't be a token.*`headway login` anew"):
            Client(Profile.load())
    with pytest.raises(ConfigInvalid, match="The token can't be a token"):
        Client(Profile(token=given))


def test_a_variable_of_blanks_says_nothing(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    Profile(url=OLD, token="hws_stored").save()
    monkeypatch.setenv("HEADWAY_TOKEN", " \n")
    monkeypatch.setenv("HEADWAY_URL", "\r\n")
    assert Profile.load() == Profile(url=OLD, token="hws_stored")


@pytest.mark.parametrize(
    ("words", "module", "lines"),
    [
        (["login", OLD, "-u", "ann"], session, 1),
        (["passwd"], own, 2),
        (["accounts", "reset-password", "ann"], accounts, 1),
        (["accounts", "add", "ann"], cluster, 1),
        (["registry", "login", "docker.io", "-u", "ann"], registry, 1),
    ],
)
def test_how_a_line_ends_is_no_part_of_a_password(
    monkeypatch: pytest.MonkeyPatch, words: list[str], module: Any, lines: int
) -> None:
    """A file that Windows wrote set a password that nobody could type."""
    sent: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.content)
        stored = {"registry": "docker.io", "username": "ann", "checked": True, "password": "", "token": "t"}
        return httpx.Response(200, json={**stored, "user": {"name": "ann", "uid": 1}})

    make = lambda profile=None: Client(Profile(OLD), transport=httpx.MockTransport(answer))  # noqa: E731
    monkeypatch.setattr(module, "Client" if module is session else "client", make)
    runner = CliRunner()
    for end in ("\n", "\r\n"):
        given = "\ufeff" * (end == "\r\n") + " a good one " + end + f"the other{end}" * (lines - 1)
        done = runner.invoke(cli, [*words, "--password-stdin"], input=given, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    assert len(set(sent)) == 1
    assert b'" a good one "' in sent[0]
    assert b"\\r" not in sent[0]
    done = runner.invoke(cli, [*words, "--password-stdin"], input=b"\xff\xfep\n", catch_exceptions=False)
    assert done.exit_code == 1
    assert "not UTF-8" in done.output


class Started:
    """What `headway up` meets after the start: the page's service, and the first admin's file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, answer: httpx.Response) -> None:
        self.asked: list[str] = []
        self.file = folder / "first-admin"
        self.file.write_text("admin\nsecret\n")
        config = SimpleNamespace(httpserver=SimpleNamespace(first_admin_file=str(self.file)))
        self.prepared: Any = SimpleNamespace(url=NEW, first=False, config=config)

        def answered(request: httpx.Request) -> httpx.Response:
            self.asked.append(request.method)
            return answer if request.method == "POST" else httpx.Response(204)

        def make(profile: Profile, **options: Any) -> Client:
            return Client(profile, transport=httpx.MockTransport(answered), **options)

        monkeypatch.setattr("headway.client.Client", make)

    def told(self) -> str:
        return up._first_admin_told(self.prepared)


def test_a_start_says_where_the_first_password_is_only_while_it_opens_something(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    right = Started(monkeypatch, tmp_path, httpx.Response(200, json={"token": "hws_t"}))
    assert right.told() == f"Name and password of the first admin are in {right.file}."
    assert right.asked == ["POST", "DELETE"]  # no session is left
    for detail in ("The name or the password is wrong.", "This account is disabled; ask an admin."):
        wrong = Started(monkeypatch, tmp_path, httpx.Response(401, json={"detail": detail}))
        assert wrong.told().startswith(f"{wrong.file} opens nothing now: {detail} `headway up --reset-password admin`")
    unsure = Started(monkeypatch, tmp_path, httpx.Response(503, json={"detail": "Not now."}))
    assert "are in" in unsure.told()
    unsure.file.unlink()
    assert unsure.told() == ""


def test_a_reset_signs_the_operator_in_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = Started(monkeypatch, tmp_path, httpx.Response(200, json={"token": "hws_t"}))
    ran: list[Any] = []
    done = subprocess.CompletedProcess([], 0, "", "HEADWAY_TOKEN is set and wins.\n")
    monkeypatch.setattr(up.subprocess, "run", lambda words, **options: ran.append(words) or done)
    Profile(url=NEW, token="hws_ended", user="admin").save()
    assert up._sign_in(started.prepared) == ""
    assert up._sign_in(started.prepared, anew=True).endswith(". HEADWAY_TOKEN is set and wins.")
    assert len(ran) == 1
    assert "another password" in up._reset_told("ann", True)
    assert "no account 'zoe'" in up._reset_told("zoe", False)


class _Page:
    """A server at which somebody decides after some looks."""

    def __init__(self, *states: str) -> None:
        self.states = list(states)
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        if request.url.path.endswith("/session/requests"):
            answer = {
                "code": "BCDF-GHJK",
                "path": "/approve?code=BCDF-GHJK",
                "secret": "s",
                "expires_in_s": 600,
                "every_s": 0,
            }
            return httpx.Response(201, json=answer)
        state = self.states.pop(0)
        if state == "over":
            return httpx.Response(400, json={"detail": "Nobody approved this sign-in in time."})
        session = {"token": "hws_t", "user": {"name": "ann"}, "expires_at": 1} if state == "approved" else None
        return httpx.Response(200, json={"state": state, "session": session})


def _by_page(monkeypatch: pytest.MonkeyPatch, *states: str) -> tuple[Any, _Page, list[str]]:
    page, opened = _Page(*states), []
    monkeypatch.setattr(session, "Client", lambda profile: Client(profile, transport=httpx.MockTransport(page)))
    monkeypatch.setattr(session.click, "launch", opened.append)
    return CliRunner().invoke(cli, ["login", NEW, "--browser"]), page, opened


def test_without_a_password_a_page_anywhere_lets_it_in(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "x")
    monkeypatch.setenv("DISPLAY", ":0")
    done, page, opened = _by_page(monkeypatch, "waiting", "waiting", "approved")
    assert done.exit_code == 0, done.output
    assert f"{NEW}/approve?code=BCDF-GHJK" in done.output
    assert "the code BCDF-GHJK" in done.output
    assert "Signed in as ann" in done.output
    assert opened == []
    assert len(page.asked) == 4
    assert Profile.load().token == "hws_t"


@pytest.mark.parametrize(("state", "said"), [("denied", "turned away"), ("over", "in time")])
def test_who_is_turned_away_or_forgotten_keeps_what_was_there(
    monkeypatch: pytest.MonkeyPatch, file: Path, state: str, said: str
) -> None:
    Profile(url=OLD, token="hws_old", user="bea").save()
    done, _, _ = _by_page(monkeypatch, "waiting", state)
    assert done.exit_code != 0
    assert said in str(done.exception or done.output)
    assert Profile.load().token == "hws_old"


def test_a_page_and_a_password_exclude_each_other(file: Path) -> None:
    done = CliRunner().invoke(cli, ["login", NEW, "--browser", "-u", "ann"])
    assert done.exit_code == 2
