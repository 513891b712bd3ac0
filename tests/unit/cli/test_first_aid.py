"""First aid at the command line: words of habit, `last`, sorting, watching, completion, a reader that has enough."""

from __future__ import annotations

import http.server
import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from headway.cli import habits, ps, watching
from headway.cli.main import _COMMANDS, cli
from headway.client import Client, NoService, Profile
from headway.errors import NotFound
from tests.support.waiting import soon

JOB = "j0123456789abcdef"


@pytest.mark.parametrize("word", sorted(habits.HABITS))
def test_a_word_of_habit_points_at_a_command_that_there_is(word: str) -> None:
    assert word not in _COMMANDS
    first, *rest = shlex.split(habits.HABITS[word])
    if first.startswith("--"):
        assert any(first in param.opts for param in cli.params)
        return
    command = cli.get_command(click.Context(cli), first)
    assert command is not None
    if isinstance(command, click.Group) and rest:
        assert rest[0] in command.commands
    options = {opt for param in command.params for opt in param.opts}
    assert all(one in options for one in rest if one.startswith("-") and one != "--")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("list", "Did you mean `headway ps`?"),
        ("status", "Did you mean `headway show ID`?"),
        ("kill", "Did you mean `headway cancel ID`?"),
        ("sbatch", "Did you mean `headway submit FILE`?"),
        ("squeue", "Did you mean `headway queue`?"),
        ("top", "Did you mean `headway gpus`?"),
        ("sinfo", "Did you mean `headway nodes`?"),
        ("PS", "Did you mean `headway ps`?"),
        ("statuss", "Did you mean `headway show ID`?"),
        ("submitt", "Did you mean `headway submit`?"),
        ("rmi", "Did you mean `headway images rm NAME:TAG`?"),
        ("sprio", "Did you mean `headway queue`, or `headway explain ID`?"),
        ("deploy", "Did you mean `headway submit FILE`, or `headway up`?"),
        ("dstack", "Did you mean `headway submit FILE`, or `headway run --image IMAGE -- COMMAND`?"),
        ("fleet", "Did you mean `headway nodes`?"),
        ("open", "Did you mean `headway whoami`?"),
        ("sshare", "Did you mean `headway usage`?"),
        ("docker", "Did you mean `headway run --image IMAGE -- COMMAND`, or `headway images`?"),
    ],
)
def test_what_is_no_command_is_answered_with_the_one_that_was_meant(typed: str, told: str) -> None:
    refused = CliRunner().invoke(cli, [typed])
    assert refused.exit_code == 2
    assert f"There is no command {typed!r}. {told}" in refused.output


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("jobs list", "headway ps"), ("jobs ls", "headway ps"), ("jobs cancel j1", "headway cancel ID"),
        ("jobs show", "headway show ID"), ("jobs rm", "headway delete ID"), ("queue ls", "headway queue"),
        ("queue show", "headway queue"), ("images delete x", "headway images rm"), ("files cp a", "headway files put"),
        ("files upload a", "headway files put"), ("files trash list", "headway files trash ls"),
        ("nodes list", "headway nodes ls"), ("nodes pause n1", "headway nodes cordon"),
        ("config list", "headway config show"),
        ("tokens revoke t", "headway tokens rm"), ("sessions kill s", "headway sessions end"),
        ("datasets upload d", "headway datasets publish"), ("nodes cordn n1", "headway nodes cordon"),
        ("help files cp", "headway files put"),
    ],
)  # fmt: skip
def test_what_is_no_command_of_a_group_is_answered_with_the_one_that_was_meant(typed: str, told: str) -> None:
    refused = CliRunner().invoke(cli, typed.split())
    assert refused.exit_code == 2
    assert refused.output.strip().endswith(f"Did you mean `{told}`?")
    assert "There is no command" in refused.output


def test_every_command_of_a_group_that_is_meant_by_other_words_is_in_some_group() -> None:
    found = [cli.get_command(click.Context(cli), name) for name in _COMMANDS]
    groups = [command for command in found if isinstance(command, click.Group)]
    inside = {name for group in groups for name in group.commands} | {"restore"}
    assert {one for _, ours in habits._INSIDE for one in ours} <= inside


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("logs --since 5m x", "A log has no such filter: `headway logs -t ID` puts its time before each line"),
        ("logs --lines=5 x", "A log is cut by bytes"),
        ("submit --time 2:00:00 x", "Write `--set timeout=2h`, or put it into the file."),
        ("submit --gres=gpu:2 x", "Write `--set gpus=2`"),
        ("submit --timeout=3h x", "Write `--set timeout=3h`"),
        ("ps --zzz", "No such option"),
    ],
)
def test_an_option_of_habit_is_answered_with_what_there_is(typed: str, told: str) -> None:
    refused = CliRunner().invoke(cli, typed.split())
    assert refused.exit_code == 2
    assert told in refused.output


def test_nothing_is_guessed_of_what_is_like_nothing() -> None:
    assert CliRunner().invoke(cli, ["zzzzzz"]).output.strip().endswith("There is no command 'zzzzzz'.")


def test_help_shows_what_the_option_shows() -> None:
    for words in ([], ["ps"], ["files", "put"]):
        asked = CliRunner().invoke(cli, ["help", *words], prog_name="headway")
        shown = CliRunner().invoke(cli, [*words, "--help"], prog_name="headway")
        assert (asked.exit_code, asked.output) == (0, shown.output)
    for words in (["nope"], ["ps", "put"], ["files", "nope"]):
        assert CliRunner().invoke(cli, ["help", *words]).exit_code == 2


# -- the latest job, lists -------------------------------------------------------------------------


def a_job(number: int, **facts: Any) -> dict[str, Any]:
    return {
        "id": f"j{number:016d}", "name": f"n{number}", "state": "SUCCEEDED", "held": False, "owner": "ann",
        "submitted_at": float(number), "started_at": float(number), "ended_at": float(number) + 1,
        "tasks_by_state": {"SUCCEEDED": 1}, "task_count": 1, **facts,
    }  # fmt: skip


def a_client(jobs: list[dict[str, Any]], asked: list[str]) -> Client:
    def handler(request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        asked.append(f"{request.method} {path}")
        if path == "/me":
            return httpx.Response(200, json={"name": "ann"})
        if path == "/jobs":
            return httpx.Response(200, json={"jobs": jobs[: int(request.url.params["limit"])], "next_cursor": None})
        return httpx.Response(200, json={"job": jobs[0], "tasks_changed": 1, "id": jobs[0]["id"], "name": "ann"})

    return Client(Profile(url="http://headway.test"), transport=httpx.MockTransport(handler))


def test_last_is_looked_up_once_for_all_tries_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    with a_client([a_job(2), a_job(1)], asked) as client:
        client.act("cancel", "last")
        assert asked == ["GET /me", "GET /jobs", "POST /jobs/j0000000000000002/cancel"]
        asked.clear()
        client.act("cancel", a_job(1)["id"], "last")
        assert asked == ["POST /jobs/j0000000000000001/tasks/last/cancel"], "a task may be called so"
    with a_client([], asked) as client, pytest.raises(NotFound, match="You have no job yet"):
        client.job("last")


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ([], [3, 1, 2]),
        (["-r"], [2, 1, 3]),
        (["--sort", "submitted"], [1, 2, 3]),
        (["--sort", "name", "-r"], [3, 2, 1]),
        (["--sort", "ran"], [3, 1, 2]),
        (["--sort", "ended"], [1, 3, 2]),
    ],
)
def test_lists_are_sorted(monkeypatch: pytest.MonkeyPatch, options: list[str], order: list[int]) -> None:
    jobs = [a_job(3, ended_at=3.5), a_job(1, ended_at=2.0), a_job(2, ended_at=None)]
    monkeypatch.setattr(ps, "client", lambda: a_client(jobs, []))
    shown = CliRunner().invoke(cli, ["ps", "-o", "json", *options])
    assert [int(job["name"][1:]) for job in json.loads(shown.output)] == order


def test_a_watched_list_stays_while_the_server_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    answers = iter([[a_job(1)], NoService("nobody answers"), [a_job(2)]])

    def listed() -> list[dict[str, Any]]:
        answer = next(answers, KeyboardInterrupt())
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(watching.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(ps, "_print", lambda jobs: drawn.append(jobs[0]["name"]))
    with pytest.raises(KeyboardInterrupt):
        watching.watch(listed, ps._print)
    assert drawn == ["n1", "n1", "n2"]
    assert CliRunner().invoke(cli, ["ps", "-w", "-o", "json"]).exit_code == 2


# -- completion ------------------------------------------------------------------------------------


class _Server(http.server.BaseHTTPRequestHandler):
    """A job of one task that prints for as long as somebody reads, and then ends well."""

    protocol_version = "HTTP/1.1"
    cut = threading.Event()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].removeprefix("/api/v1")
        task = {"name": "main", "state": "SUCCEEDED", "attempt": 1, "reason": None}
        if path == "/me":
            self.answer({"name": "ann"})
        elif path == "/jobs":
            self.answer({"jobs": [a_job(1, id=JOB)], "next_cursor": None})
        elif path == f"/jobs/{JOB}":
            self.answer({"id": JOB, "state": "SUCCEEDED", "tasks": [task, {**task, "name": "more"}][: 1 + self.both]})
        elif path == f"/jobs/{JOB}/tasks/main":
            self.answer({"task": task})
        elif path == "/images":
            tags = [{"tag": "1"}, {"tag": "2"}, {"tag": ""}]
            self.answer({"images": [{"full_name": "base/python", "tags": tags}], "next_cursor": None})
        elif path.startswith("/files"):
            entries = [{"name": "data.tar", "kind": "file"}, {"name": "days", "kind": "folder"}]
            self.answer({"entries": entries, "next_cursor": None})
        elif path.endswith("/logs/stdout"):
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            try:
                for _ in range(100_000):
                    self.wfile.write(b"a line of a log that goes on\n" * 100)
            except OSError:
                self.cut.set()
            self.close_connection = True
        else:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", "0")
            self.end_headers()

    both = False

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer({"id": JOB, "warnings": []})

    def answer(self, found: Any) -> None:
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HEADWAY_URL", address)
    monkeypatch.setattr(_Server, "both", False)
    _Server.cut.clear()
    yield address
    server.shutdown()
    server.server_close()
    thread.join()


def completed(*words: str) -> list[str]:
    found = ShellComplete(cli, {}, "headway", "_HEADWAY_COMPLETE").get_completions(list(words[:-1]), words[-1])
    return [item.value for item in found]


def test_ids_tasks_images_and_files_are_completed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Server, "both", True)
    assert completed("sho") == ["show"]
    assert completed("logs", "") == [JOB, "last"]
    assert completed("logs", "j0") == [JOB]
    assert completed("logs", "la") == ["last"]
    assert completed("logs", f"{JOB}/") == [f"{JOB}/main", f"{JOB}/more"]
    assert completed("logs", f"{JOB}/mo") == [f"{JOB}/more"]
    assert completed("run", "--image", "base/py") == ["base/python:1", "base/python:2"]
    assert completed("files", "get", "d") == ["data.tar", "days/"]
    assert completed("files", "get", "days/da") == ["days/data.tar", "days/days/"]


def test_nothing_is_completed_while_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_URL", "http://127.0.0.1:9")
    assert completed("logs", "") == completed("run", "--image", "b") == completed("files", "get", "a") == []
    monkeypatch.setenv("HEADWAY_URL", "no address")
    assert completed("logs", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str) -> None:
    shown = CliRunner().invoke(cli, ["completion", shell])
    assert shown.exit_code == 0
    assert "_HEADWAY_COMPLETE" in shown.output
    assert CliRunner().invoke(cli, ["completion", "tcsh"]).exit_code == 2


def test_a_real_bash_takes_the_script(url: str, tmp_path: Path) -> None:
    program = tmp_path / "headway"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m headway "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(headway completion bash)"; COMP_WORDS=(headway logs j0); COMP_CWORD=2; '
        '_headway_completion headway; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split()) == (0, [JOB]), done.stderr


# -- a reader that has enough ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [["run", "--image", "base/python:1", "--timeout", "1m", "--", "true"], ["logs", "-f", JOB], ["logs", JOB]],
)
def test_a_closed_pipe_is_no_failure(url: str, command: list[str]) -> None:
    """Used to: `headway run … | head` ended with 1 though the job had succeeded."""
    program = [sys.executable, "-m", "headway", *command]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
        assert b"Traceback" not in process.stderr.read()
    soon(_Server.cut.is_set, within_s=30, what="the log is read no further")
