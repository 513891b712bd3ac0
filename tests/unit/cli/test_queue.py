"""`headway queue set` and `headway explain --history`, as people read them."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from headway.cli import cluster, jobs, why
from headway.cli.main import cli
from headway.cli.why import why_cell
from headway.model.reasons import WaitWord

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


BUSY, BEHIND = ("waiting_for_gpu", "n1 has no free GPU."), ("behind_higher_priority", "2 tasks are ahead.")
BROKEN, HELD = ("gpu_unavailable", "GPU 3 of n2 does not work."), ("held", "It is on hold.")


@pytest.mark.parametrize(
    ("waits", "cell"),
    [
        ([], ""),
        ([BUSY], "n1 has no free GPU."),
        ([BUSY, BEHIND], "n1 has no free GPU. (+1)"),
        ([BUSY, BEHIND, BROKEN], "GPU 3 of n2 does not work. (+2)"),
        ([HELD, BUSY, BROKEN], "It is on hold. (+2)"),
        ([("of_a_newer_server", "Who knows."), BUSY], "Who knows. (+1)"),
    ],
)
def test_the_most_telling_reason_stands_in_the_queue(waits: list[tuple[str, str]], cell: str) -> None:
    """It was the first one: of a broken GPU nothing was seen, as others were busy."""
    assert why_cell([{"word": word, "sentence": sentence} for word, sentence in waits]) == cell


def test_words_of_lasting_reasons_are_words_of_the_platform() -> None:
    assert {word.value for word in WaitWord} >= why._LASTS


def test_the_queue_says_that_there_are_more_reasons(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = [{"word": word, "sentence": sentence} for word, sentence in (BUSY, BROKEN)]
    entry = {
        "position": 1, "job_id": "j1", "task": "a", "owner": "ann", "timeout_s": 60.0, "waits": waits,
        "resources": {"cpus": 1.0, "memory_bytes": 1 << 30, "gpus": 1, "gpu_model": []},
        "estimated_start_at": None, "promised_start_at": None, "estimate_rough": False,
    }  # fmt: skip
    answer = server.queue()
    monkeypatch.setattr(server, "queue", lambda **params: {**answer, "entries": [entry]})
    said = run("queue")
    assert "GPU 3 of n2 does not work. (+1)" in said
    assert "no free GPU" not in said
    assert json.loads(run("queue", "-o", "json"))["entries"][0]["waits"] == waits
