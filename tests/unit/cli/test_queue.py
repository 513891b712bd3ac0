"""`headway queue set` and `headway explain --history`, as people read them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from headway.cli import cluster, jobs
from headway.cli.main import cli

SET = {
    "policy": "log_aging:c=600", "discipline": "easy", "configured_policy": "aging_sjf",
    "configured_discipline": "conservative", "policy_set_by": "root", "policy_set_at": 0.0,
    "discipline_set_by": None, "discipline_set_at": None, "failure": "", "contradictions": [],
}  # fmt: skip
PASS = {
    "id": 7, "at": 1.8e9, "policy": "aging_sjf", "discipline": "conservative", "started_in_all": 12,
    "started": [
        {"job_id": "j1", "task": "b", "node_id": "n1", "gpu_uuids": ["g"], "ahead": True, "sentence": "b was ahead."}
    ],
    "place": 2, "key": 1234567890.5, "started_itself": False, "reserved_start_at": 1.8e9 + 60,
    "waits": [{"word": "waiting_for_gpu", "sentence": "It asks for 1 GPU, 0 free."}],
}  # fmt: skip


class Server:
    """Answers as a server would."""

    def __init__(self) -> None:
        self.scheduling: dict[str, Any] = dict(SET)
        self.wanted: dict[str, str] = {}
        self.asked: dict[str, Any] = {}
        self.decided: dict[str, Any] = {"decisions": [PASS], "next_before": 7, "kept_days": 7}

    def set_scheduling(self, wanted: dict[str, str]) -> dict[str, Any]:
        self.wanted = wanted
        return self.scheduling

    def queue(self, **params: Any) -> dict[str, Any]:
        self.asked = params
        return {
            "entries": [], "total_waiting": 5, "total_matching": 3, "total_running": 0,
            "policy": "log_aging", "discipline": "easy",
            "scheduling": self.scheduling,
        }  # fmt: skip

    def job(self, reference: str) -> dict[str, Any]:
        return {"id": "j0000000000000001", "tasks": [{"name": "a"}], "missing": []}

    def decisions(self, job_id: str, task: str, *, limit: int) -> dict[str, Any]:
        return self.decided


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()

    @contextmanager
    def client() -> Any:
        yield made

    monkeypatch.setattr(cluster, "client", client)
    monkeypatch.setattr(jobs, "client", client)
    return made


def run(*args: str) -> str:
    result = CliRunner().invoke(cli, list(args))
    assert result.exit_code == 0, result.output
    return result.output


def test_a_policy_is_set_and_the_answer_says_what_acts(server: Server) -> None:
    said = run("queue", "set", "--policy", "log_aging:c=600")
    assert server.wanted == {"policy": "log_aging:c=600"}
    assert "policy log_aging:c=600 (set by root " in said
    assert "configured: aging_sjf)" in said
    assert "overtaking easy (as configured)" in said
    assert CliRunner().invoke(cli, ["queue", "set"]).exit_code == 2


@pytest.mark.parametrize(
    ("options", "owner", "told"),
    [
        ([], "", "5 waiting, 0 running"),
        (["--mine"], "me", "3 of the waiting are yours"),
        (["--owner", "bea"], "bea", "3 of the waiting are of bea"),
    ],
)
def test_the_queue_of_one_account(server: Server, options: list[str], owner: str, told: str) -> None:
    assert told in run("queue", *options)
    assert server.asked["owner"] == owner


def test_the_queue_tells_who_set_its_order_and_what_fails(server: Server) -> None:
    server.scheduling["failure"] = "moody failed for j1/x: what a name"
    said = run("queue")
    assert "set by root" in said
    assert "the policy fails: moody failed for j1/x: what a name" in said
    server.scheduling.update(policy_set_by=None, failure="")
    assert "configured" not in run("queue")
    server.scheduling["contradictions"] = ["The reserve leaves none."]
    assert "! the limits contradict each other: The reserve leaves none." in run("queue")


def test_history_tells_who_started_and_why_this_one_did_not(server: Server) -> None:
    said = run("explain", "--history", "j0000000000000001/a")
    for part in (
        "started: j1/b on n1, 1 GPU", "b was ahead.", "and 11 more",
        "it waited at place 2 of the tasks that the scheduler looked at, order number 1234567890",
        "waiting_for_gpu: It asks for 1 GPU, 0 free.", "a start was reserved for it at", "earlier ones",
    ):  # fmt: skip
        assert part in said
    server.decided["decisions"] = [{**PASS, "place": 0, "key": None, "reserved_start_at": None}]
    said = run("explain", "--history", "j0000000000000001/a")
    assert "    it did not start\n      waiting_for_gpu: It asks for 1 GPU, 0 free.\n" in said
    assert "looked at" not in said
    for days, want in ((7, "7 days"), (1, "1 day"), (0, "decisions are not kept")):
        server.decided = {"decisions": [], "next_before": None, "kept_days": days}
        said = run("explain", "--history", "j0000000000000001")
        assert "the scheduler started nothing while it waited" in said
        assert f"{want})" in said
