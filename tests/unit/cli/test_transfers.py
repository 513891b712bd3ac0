"""Many files on their way at once."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest
from click.testing import CliRunner

from headway.cli import files
from headway.cli.main import cli
from headway.cli.transfer import run_all
from headway.client import Client, Profile, Refused
from headway.client import http as client_http
from headway.errors import Conflict


def a_client(answer: httpx.Response | None, asked: list[str], lock: threading.Lock | None = None) -> Client:
    def handler(request: httpx.Request) -> httpx.Response:
        request.read()
        asked.append(f"{request.method} {unquote(request.url.path).removeprefix('/api/v1/files/')}")
        if request.method == "PUT" and answer is not None:
            return answer
        return httpx.Response(200, json={})

    return Client(Profile(url="http://headway.test"), transport=httpx.MockTransport(handler))


def test_a_folder_goes_up_with_all_that_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "empty").mkdir()
    for name in ("x", "a/y", "a/b/z ü"):
        (top / name).write_text("text")
    (top / "to a file").symlink_to("x")
    (top / "to a folder").symlink_to("a")
    (top / "to nothing").symlink_to("nothing")
    os.mkfifo(top / "pipe")
    asked: list[str] = []
    monkeypatch.setattr(files, "client", lambda: a_client(None, asked))
    done = CliRunner().invoke(cli, ["files", "put", "-r", str(top), "there/"])
    assert done.exit_code == 0, done.output
    assert asked[:4] == ["POST there/top", "POST there/top/a", "POST there/top/empty", "POST there/top/a/b"]
    assert sorted(asked[4:]) == [f"PUT there/top/{name}" for name in ("a/b/z ü", "a/y", "to a file", "x")]
    assert "3 things left out: links to folders, or no file at all" in done.output


def test_what_is_refused_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(200):
        (tmp_path / f"{number}").write_text("text")
    asked: list[str] = []
    full = httpx.Response(507, json={"detail": "Your space is full."}, headers={"content-type": "application/json"})
    monkeypatch.setattr(files, "client", lambda: a_client(full, asked))
    monkeypatch.setattr(client_http.time, "sleep", lambda _seconds: None)
    done = CliRunner().invoke(cli, ["files", "put", "-r", str(tmp_path), "there"])
    assert isinstance(done.exception, Refused)
    assert str(done.exception) == "Your space is full."
    assert len(asked) < 30


@pytest.mark.parametrize("lanes", [1, 8])
def test_all_calls_are_made_once(lanes: int) -> None:
    made: list[int] = []
    run_all(((lambda number=number: made.append(number)) for number in range(100)), lanes=lanes)
    assert sorted(made) == list(range(100))


def test_several_are_on_their_way_at_once() -> None:
    together = threading.Barrier(8)
    run_all([lambda: together.wait(10)] * 16, lanes=8)


def test_after_a_failure_none_is_begun() -> None:
    made: list[int] = []

    def call(number: int) -> None:
        made.append(number)
        if number == 3:
            raise Conflict("three")

    with pytest.raises(Conflict, match="three"):
        run_all(((lambda number=number: call(number)) for number in range(100)), lanes=1)
    assert made == [0, 1, 2, 3]


def test_a_folder_that_is_fetched_as_a_file_is_told_how(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(files, "client", lambda: a_client(None, []))
    done = CliRunner().invoke(cli, ["files", "get", "data", str(tmp_path / "data")])
    assert "`data` is a folder: `headway files get -r` fetches it as a ZIP archive." in str(done.exception)
    assert not list(tmp_path.iterdir())
