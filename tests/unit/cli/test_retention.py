"""Jobs that are pinned, deleted and pruned from the command line."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from headway.cli import retention
from headway.cli.main import cli
from headway.client import Client, NoService, Profile, Refused

J1, J2 = "j1mcc5rm00jwba7k5", "j1mcc5rm00jwba7k6"
_GONE = httpx.Response(404, json={"title": "gone", "detail": "The job j1 is being deleted."})


class Server:
    """Answers what a test needs, and notes what was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.parts = 2
        self.full_at = 0  # parts left
        self.lost = 0  # answers
        made = lambda: Client(Profile("http://headway.test"), transport=httpx.MockTransport(self._answer))  # noqa: E731
        monkeypatch.setattr(retention, "client", made)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        body = json.loads(request.content) if request.content else {}
        self.asked.append((request.method, path, body))
        if self.lost:
            self.lost -= 1
            raise httpx.ReadError("the answer got lost", request=request)
        if request.method == "DELETE":
            return httpx.Response(204) if self.asked.count(self.asked[-1]) == 1 else _GONE
        if request.method == "GET":
            return httpx.Response(200, json={"id": path.removeprefix("/jobs/")})
        if path == "/jobs/prune":
            self.parts -= 1
            if self.parts < self.full_at:
                return httpx.Response(507, json={"title": "full", "detail": "The disk is full; nothing was stored."})
            return httpx.Response(
                200,
                json={
                    "jobs": 3, "tasks": 5, "log_bytes": 1024, "unmeasured": 0, "pinned": 1, "ended_before": 1.8e9,
                    "next_cursor": "there" if self.parts else None,
                },
            )  # fmt: skip
        return httpx.Response(200, json={"job": {"id": "j1", "pinned": False, "kept_until": 1.8e9}, "tasks_changed": 0})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words, catch_exceptions=False)


def test_pruning_asks_until_there_is_no_more_and_adds_up(server: Server) -> None:
    shown = run("jobs", "prune", "--older", "90d", "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "6 jobs with 10 tasks would be deleted" in shown.output
    assert "2 pinned jobs as old stay" in shown.output
    wish = {"older": "90d", "dry_run": True, "owner": "me"}
    assert [body for _, _, body in server.asked] == [{**wish, "cursor": ""}, {**wish, "cursor": "there"}]
    server.parts = 1
    shown = run("jobs", "prune", "--older", "90d", "--all", "-o", "json")
    assert json.loads(shown.output)["jobs"] == 3
    assert server.asked[-1][2] == {"older": "90d", "dry_run": False, "owner": "", "cursor": ""}


def test_pruning_that_is_cut_off_says_what_went_before(server: Server) -> None:
    server.full_at = 1
    cut_off = CliRunner().invoke(cli, ["jobs", "prune", "--older", "90d"])
    assert isinstance(cut_off.exception, Refused)
    assert cut_off.output == "3 jobs deleted; the rest is still there:\n"
    server.parts = 2
    assert CliRunner().invoke(cli, ["jobs", "prune", "--older", "90d", "--dry-run"]).output == ""


@pytest.mark.parametrize("older", ["-1d", "0d", "0", "00d", "soon", "-5", "90"])
def test_an_age_that_is_none_is_refused_before_anything_is_asked(server: Server, older: str) -> None:
    refused = run("jobs", "prune", f"--older={older}")
    assert refused.exit_code == 2
    assert "write" in refused.output
    assert server.asked == []


def test_an_age_below_zero_is_refused_as_people_type_it(server: Server) -> None:
    refused = run("jobs", "prune", "--older", "-1d")
    assert refused.exit_code == 2
    assert "an age is more than 0" in refused.output
    assert server.asked == []


@pytest.mark.parametrize(("older", "meant"), [("2w", "14d"), ("1y", "365d")])
def test_weeks_and_years_are_refused_with_their_days(server: Server, older: str, meant: str) -> None:
    refused = run("jobs", "prune", "--older", older)
    assert refused.exit_code == 2
    assert refused.output.endswith(f"did you mean {meant}?\n")
    assert server.asked == []


def test_jobs_are_deleted_and_pinned_by_id(server: Server) -> None:
    assert run("delete", J1, J2).output == f"{J1} deleted\n{J2} deleted\n"
    assert [(method, path) for method, path, _ in server.asked] == [
        ("DELETE", f"/jobs/{J1}"),
        ("DELETE", f"/jobs/{J2}"),
    ]
    assert "j1 is pinned" in run("pin", "j1").output
    shown = run("unpin", "j1").output
    assert "j1 is not pinned; kept until " in shown
    assert [path for _, path, _ in server.asked[2:]] == ["/jobs/j1/pin", "/jobs/j1/unpin"]


def test_a_deletion_whose_answer_gets_lost_is_repeated_and_goes_on_with_the_next_job(server: Server) -> None:
    server.lost = 1
    assert run("delete", J1, J2).output == f"{J1} deleted\n{J2} deleted\n"
    assert [path for _, path, _ in server.asked] == [f"/jobs/{J1}", f"/jobs/{J1}", f"/jobs/{J2}"]


def test_a_part_of_an_id_is_made_whole_before_a_deletion(server: Server) -> None:
    """A repeated call would else find another job by it."""
    assert run("delete", "j1").output == "j1 deleted\n"
    assert [(method, path) for method, path, _ in server.asked] == [("GET", "/jobs/j1"), ("DELETE", "/jobs/j1")]


def test_a_page_of_pruning_whose_answer_gets_lost_is_not_told_as_nothing(server: Server) -> None:
    server.lost = 1
    lost = CliRunner().invoke(cli, ["jobs", "prune", "--older", "90d"])
    assert isinstance(lost.exception, NoService)
    assert (
        lost.output
        == "0 jobs deleted, and perhaps some more, since an answer got lost; ask again to delete the rest:\n"
    )
    assert len(server.asked) == 1
    server.lost = 1
    assert "6 jobs" in run("jobs", "prune", "--older", "90d", "--dry-run").output
