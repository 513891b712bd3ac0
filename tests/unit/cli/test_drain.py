"""nodes drain, replace and forget, against an HTTP client that answers as the test says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from headway.cli import drain as module
from headway.cli.cluster import nodes
from headway.client import Refused
from headway.errors import Conflict


class Server:
    def __init__(self) -> None:
        self.wishes: list[dict[str, Any]] = []
        self.stranded = 0
        self.changed = ""
        self.states: list[dict[str, Any]] = []
        self.alive = 0

    def preview_drain(self, node_id: str) -> dict[str, Any]:
        one = {"job_id": "j1", "task": "big", "owner": "ada", "job_name": "train"}
        return {"running": [], "total_running": 0, "stranded": [one] * self.stranded, "total_stranded": self.stranded}

    def drain_node(self, node_id: str, wish: dict[str, Any]) -> dict[str, Any]:
        self.wishes.append(wish)
        return {**a_node("DRAINING", 2), "changed": self.changed}

    def node(self, node_id: str) -> dict[str, Any]:
        return self.states.pop(0)

    def forget_node(self, node_id: str) -> None:
        if self.alive:
            self.alive -= 1
            raise Refused("It is alive.", kind=Conflict, status=409, request_id="", problems=())


def a_node(admission: str, left: int, **drain: Any) -> dict[str, Any]:
    told = {
        "since_at": 0.0, "by": "root", "until_at": None, "attempts_at_start": 2, "attempts_left": left,
        "last_ends_by_at": None, "return_when_back": False, "return_at": None,
    }  # fmt: skip
    return {"id": "n1", "admission": admission, "drain": told | drain, "events": []}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()

    @contextmanager
    def client() -> Iterator[Server]:
        yield made

    monkeypatch.setattr(module, "client", client)
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    return made


def run(*words: str) -> Any:
    return CliRunner().invoke(nodes, list(words))


def test_a_deadline_goes_as_a_span_and_as_a_time(server: Server) -> None:
    assert run("drain", "n1", "--deadline", "2h", "--reason", "disk").exit_code == 0
    assert server.wishes == [{"note": "disk", "within_s": 7200.0}]
    assert run("drain", "n1", "--until", "2099-11-01T14:30Z", "--return-when-back").exit_code == 0
    assert server.wishes[-1] == {"note": "", "until_at": 4097226600.0, "return_when_back": True}
    assert run("drain", "n1").exit_code == 0
    assert server.wishes[-1] == {"note": ""}
    assert run("drain", "n1", "--no-deadline").exit_code == 0
    assert server.wishes[-1]["until_at"] == 0.0


@pytest.mark.parametrize(
    "words",
    [
        ("--deadline", "soon"),
        ("--until", "2001-01-01"),
        ("--deadline", "2h", "--until", "2099-11-01"),
        ("--deadline", "2h", "--no-deadline"),
        ("--return-at", "yesterday"),
    ],
)
def test_what_can_not_be_is_refused_before_the_server_is_asked(server: Server, words: tuple[str, ...]) -> None:
    assert run("drain", "n1", *words).exit_code == 2
    assert server.wishes == []


def test_a_dry_run_tells_who_would_wait_and_changes_nothing(server: Server) -> None:
    server.stranded = 1
    told = run("drain", "n1", "--dry-run").output
    assert "1 waiting task could run nowhere else" in told
    assert "j1/big, ada" in told
    assert server.wishes == []


def test_what_it_changed_of_others_is_told(server: Server) -> None:
    server.changed = "It was DRAINING, last asked for by anna."
    assert "asked for by anna" in run("drain", "n1").output


def test_waiting_shows_how_far_it_is_and_ends_when_it_is_empty(server: Server) -> None:
    ends = time.time() + 600
    server.states = [a_node("DRAINING", 2, last_ends_by_at=ends), a_node("DRAINING", 1), a_node("DRAINED", 0)]
    told = run("drain", "n1", "--wait").output
    assert "2 of 2 left, the last ends by" in told
    assert "1 of 2 left" in told
    assert "DRAINED, 0 of 2 left" in told


def test_waiting_ends_with_an_error_when_somebody_opens_the_machine(server: Server) -> None:
    opened = {
        **a_node("OPEN", 0),
        "drain": None,
        "events": [{"at": 0.0, "word": "opened", "sentence": "bob opened it."}],
    }
    server.states = [a_node("DRAINING", 2), opened]
    failed = run("drain", "n1", "--wait")
    assert isinstance(failed.exception, Conflict)
    assert "bob opened it" in failed.exception.message


def test_forget_waits_only_if_it_is_asked_to(server: Server) -> None:
    server.alive = 2
    assert isinstance(run("forget", "n1").exception, Refused)
    assert run("forget", "n1", "--wait").output == "n1: forgotten\n"
