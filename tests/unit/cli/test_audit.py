"""The audit log on the command line."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from headway.cli import audit
from headway.cli.main import cli
from headway.client import Client, Profile


def an_entry(number: int, **more: Any) -> dict[str, Any]:
    return {
        "number": number, "at": 1.8e9, "who": "ann", "way": "session 1", "address": "10.0.0.1", "word": "job.cancel",
        "subject": "job 7", "outcome": "done", "problem": "", "ended_at": None, "request_id": "r", "detail": "", **more,
    }  # fmt: skip


def run(monkeypatch: pytest.MonkeyPatch, answers: list[dict[str, Any]], *args: str) -> tuple[Any, list[httpx.URL]]:
    asked: list[httpx.URL] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url)
        return httpx.Response(200, json=answers.pop(0))

    monkeypatch.setattr(audit, "client", lambda: Client(Profile(), transport=httpx.MockTransport(answer)))
    return CliRunner().invoke(cli, ["audit", *args]), asked


def test_it_goes_on_by_the_cursor_until_it_has_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [
        {
            "entries": [an_entry(9, subject="job\x1b[2J"), an_entry(8, outcome="refused", problem="not-allowed")],
            "cursor": "8",
        },
        {"entries": [an_entry(5, who="", address="", way="the service itself")], "cursor": "5"},
    ]
    done, asked = run(monkeypatch, pages, "--who", "ann", "--what", "job", "--since", "7d", "-n", "3")
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.stdout
    assert "refused (not-allowed)" in done.stdout
    assert "the service itself" in done.stdout
    assert "There are older lines" in done.stderr
    assert dict(asked[0].params) == {"who": "ann", "what": "job", "since": "7d", "limit": "3"}
    assert dict(asked[1].params) == {"who": "ann", "what": "job", "since": "7d", "before": "8", "limit": "1"}


def test_a_broken_chain_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "whole": True,
        "rows_held": 3,
        "first": 1,
        "last": 3,
        "head": "ab",
        "broken_row": None,
        "sentence": "All hold.",
    }
    done, _ = run(monkeypatch, [found], "verify")
    assert (done.exit_code, "3 rows from 1 to 3" in done.stdout) == (0, True)
    found |= {"whole": False, "broken_row": 2, "sentence": "Line 2 is missing."}
    done, _ = run(monkeypatch, [found], "verify")
    assert done.exit_code == 1
    assert "Line 2 is missing." in done.stderr
