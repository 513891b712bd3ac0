"""When tasks start, as people read it on the command line."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from headway.cli import cluster, jobs, start_times
from headway.cli.common import moment
from headway.cli.main import cli
from headway.cli.submit import _print_dry_run

NOW = time.mktime((2026, 3, 1, 12, 0, 0, 0, 0, -1))
ZONE = moment(NOW).rpartition(" ")[2]
WAIT = {"word": "waiting_for_gpu", "sentence": "It asks for 1 GPU, 0 free; n1 comes nearest."}
RESOURCES = {"gpus": 1, "cpus": 1.0, "memory_bytes": 2 << 30}


def a_start(**facts: Any) -> dict[str, Any]:
    told = {
        "task": None, "timeout_s": 600.0, "resources": RESOURCES, "position": 4, "at_once": False,
        "estimated_start_at": NOW + 720, "estimate_rough": False, "promised_start_at": None, "promise_from_at": None,
        "waits": [WAIT], "refused": None, "sentence": "It would be at place 4.",
    }  # fmt: skip
    return told | facts


def an_answer(*of_each: dict[str, Any], **facts: Any) -> dict[str, Any]:
    told = {
        "at": NOW, "starts": list(of_each), "queued_count": len(of_each), "after_needs": [], "after_needs_count": 0,
        "total_waiting": 3, "total_running": 2, "policy": "aging_sjf", "discipline": "conservative",
    }  # fmt: skip
    return told | facts


class Server:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.answer = an_answer()
        self.variants: list[dict[str, Any]] = []
        self.files: list[tuple[bytes, str]] = []
        self.entries: list[dict[str, Any]] = []
        self.place: dict[str, Any] | None = {}
        self.missing: list[dict[str, str]] = []
        self.lost = 0
        self.promises: dict[str, Any] = {}

    def preview_variants(self, variants: list[dict[str, Any]]) -> dict[str, Any]:
        self.variants = variants
        return self.answer

    def preview(self, job_file: bytes, *, media: str) -> dict[str, Any]:
        self.files.append((job_file, media))
        return self.answer

    def queue(self, **params: Any) -> dict[str, Any]:
        scheduling = {"policy_set_by": None, "discipline_set_by": None, "failure": "", "contradictions": []}
        scheduling |= self.promises
        return {**self.answer, "entries": self.entries, "scheduling": scheduling}

    def node_action(self, node_id: str, action: str, note: str) -> dict[str, Any]:
        return {"attempts_lost": self.lost}

    def job(self, reference: str) -> dict[str, Any]:
        task = {
            "name": "train",
            "state": "QUEUED",
            "place": self.place,
            "waits": [WAIT],
            "waits_for": [],
            "reason": None,
            "attempt": None, "attempts": [], "retries": 0, "node_id": None, "started_at": None, "ended_at": None,
            "image_digest": "", "datasets": [], "code": "",
        }  # fmt: skip
        job = {"id": reference, "name": "fit", "state": "PENDING", "held": False, "owner": "ann", "submitted_at": NOW}
        return job | {"ended_at": None, "reason": None, "tasks": [task], "missing": self.missing}

    def task_detail(self, reference: str, name: str) -> dict[str, Any]:
        return {"task": self.job(reference)["tasks"][0], "spec": None, "missing": []}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()

    @contextmanager
    def client() -> Any:
        yield made

    for module in (cluster, jobs, start_times):
        monkeypatch.setattr(module, "client", client)
    monkeypatch.setattr(time, "time", lambda: NOW)
    return made


def lines(*args: str, status: int = 0, text: str = "") -> list[str]:
    done = CliRunner().invoke(cli, list(args), input=text)
    assert done.exit_code == status, done.output
    return done.output.splitlines()


def test_variants_are_every_timeout_with_every_number_of_gpus(server: Server) -> None:
    server.answer = an_answer(
        a_start(promised_start_at=NOW + 900),
        a_start(promise_from_at=NOW + 86_400, estimate_rough=True),
        a_start(at_once=True, position=None, waits=[]),
        a_start(refused="No worker is big enough.", position=None, estimated_start_at=None, waits=[]),
    )
    shown = lines("queue", "preview", "--timeout", "10m, 1h", "--gpus", "1,2", "--cpus", "2", "--memory", "8GiB")
    assert [(v["timeout"], v["gpus"]) for v in server.variants] == [("10m", 1), ("10m", 2), ("1h", 1), ("1h", 2)]
    assert server.variants[0] == {"timeout": "10m", "gpus": 1, "cpus": 2.0, "memory": "8GiB", "priority": "normal"}
    assert shown[0] == f"3 waiting, 2 running; if submitted at 12:00:00 {ZONE}:"
    assert shown[1].split() == ["TIMEOUT", "GPUS", "PLACE", "STARTS", "ABOUT", "PROMISE", "WHY"]
    assert shown[2].startswith(
        f"10m      1     4      12:12:00 {ZONE} (in 12m)    by 12:15:00 {ZONE}             It asks for 1 GPU"
    )
    assert f"~12:12:00 {ZONE} (in ~12m)  after 2026-03-02 12:00 {ZONE}  It asks for 1 GPU" in shown[3]
    assert shown[4].split()[2:] == ["-", "at", "once", "-"]
    assert shown[5].split()[2:] == ["-", "never", "-", "No", "worker", "is", "big", "enough."]
    assert shown[6].endswith('"-": none now')


def test_a_job_file_tells_each_task_and_what_comes_after_its_needs(server: Server) -> None:
    server.answer = an_answer(a_start(task="train"), queued_count=30, after_needs=["x", "y"], after_needs_count=2)
    shown = lines("queue", "preview", "-", text="{}")
    assert server.files == [(b"{}", "application/yaml")]
    assert shown == [
        "train: It would be at place 4.",
        "  It asks for 1 GPU, 0 free; n1 comes nearest.",
        "(and 29 more tasks in the queue at once; -o json shows all)",
        "2 tasks after those that they need: x, y",
    ]
    assert json.loads("\n".join(lines("queue", "preview", "-", "-o", "json", text="{}"))) == server.answer


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ((), "name a job FILE, or timeouts to compare"),
        (("-", "--timeout", "1m"), "name a job FILE, or timeouts to compare"),
        (("--timeout", "1m", "--gpus", "x"), "--gpus is whole numbers such as 1,2, not 'x'"),
        (("--timeout", "1m,2m,3m,4m,5m", "--gpus", "0,1,2,4,8"), "make 25 rows; 1 to 20 may be asked"),
        (("--timeout", ","), "make 0 rows"),
    ],
)
def test_what_cannot_be_asked_is_told(server: Server, args: tuple[str, ...], sentence: str) -> None:
    assert sentence in " ".join(" ".join(lines("queue", "preview", *args, status=2)).split())
    assert not server.variants


def test_the_queue_shows_estimated_and_promised_starts(server: Server) -> None:
    entry = {"job_id": "j1", "task": "train", "owner": "ann"}
    server.entries = [
        {**a_start(promised_start_at=NOW + 900), **entry},
        {**a_start(estimate_rough=True, position=5), **entry, "task": "later"},
        {**a_start(estimated_start_at=None, position=0), **entry, "task": "held"},
    ]
    shown = lines("queue")
    assert "STARTS ABOUT" in shown[1]
    assert f"12:12:00 {ZONE} (in 12m)    12:15:00 {ZONE}  It asks for 1 GPU" in shown[2]
    assert f"~12:12:00 {ZONE} (in ~12m)  -                It asks" in shown[3]
    assert shown[5].startswith("~ a rough estimate")


def test_explain_tells_when_a_task_starts(server: Server) -> None:
    server.place = {"position": 4, "terms": {}, **a_start(promised_start_at=NOW + 900)}
    assert f"  starts about 12:12:00 {ZONE} (in 12m), no later than 12:15:00 {ZONE}" in lines("explain", "j1/train")
    server.place |= {"estimate_rough": True, "promised_start_at": None}
    told = f"  starts about ~12:12:00 {ZONE} (in ~12m), a rough estimate; no start is promised now"
    assert told in lines("explain", "j1/train")


def test_the_queue_says_how_many_of_those_that_wait_are_promised_a_start(server: Server) -> None:
    server.promises = {"promises": "late", "promised": 2, "slack_s": 90.0}
    told = "2 of 3 waiting tasks are promised a start, on average 1m30s later than estimated"
    assert told in lines("queue"), "behind very many others a task gets its promise later"


def test_a_shown_task_tells_when_it_starts(server: Server) -> None:
    server.place = {"position": 4, "terms": {}, **a_start(promised_start_at=NOW + 900)}
    told = f"It starts about 12:12:00 {ZONE} (in 12m), no later than 12:15:00 {ZONE}."
    assert told in lines("show", "j1/train")
    server.place = None
    assert not any("starts about" in line for line in lines("show", "j1/train"))


def test_explain_tells_in_words_why_a_task_has_its_place(server: Server) -> None:
    terms = {"priority": 0, "waited_s": 138.0, "alpha_p": 0, "beta_t": -600, "gamma_t": -(NOW - 138)}
    server.place = {"position": 3, "terms": terms, **a_start()} | {"position": 3}
    assert lines("explain", "j1/train")[1:6] == [
        "  place 3 in the queue, because of:", "    priority: normal", "    raises its score: waiting for 2m18s",
        "    lowers its score: its timeout, counted as 10m", "    score: -7m42s (the highest score starts first)",
    ]  # fmt: skip
    (told,) = json.loads("\n".join(lines("explain", "j1", "-o", "json")))
    assert told["place"]["terms"] == terms
    server.place |= {"position": 0}
    assert "place" not in "\n".join(lines("explain", "j1/train")), "on hold"


@pytest.mark.parametrize(("count", "want"), [(1, "1 task: t0"), (2, "2 tasks: t0, t1"), (0, "0 tasks: ")])
def test_one_is_no_plural(server: Server, capsys: pytest.CaptureFixture[str], count: int, want: str) -> None:
    order = [f"t{number}" for number in range(count)]
    _print_dry_run({"name": "j", "task_count": count, "order": order, "preview": None}, "table")
    assert capsys.readouterr().out.splitlines()[0] == f"j: fine, {want}"
    server.lost = count
    assert lines("nodes", "lost", "n1") == [
        f"n1: {count} attempt{'' if count == 1 else 's'} declared lost; their tasks are queued again"
    ]
    server.answer = an_answer(a_start(task="t"), queued_count=1 + count)
    more = [line for line in lines("queue", "preview", "-", text="x") if "more" in line]
    assert more == (
        [f"(and {count} more task{'s' * (count > 1)} in the queue at once; -o json shows all)"] * (count > 0)
    )


def test_explain_tells_what_could_not_be_had(server: Server) -> None:
    server.place = None
    server.missing = [{"service": "TaskManager", "sentence": "Places can't be shown now: it is away."}]
    for reference in ("j1", "j1/train"):
        done = CliRunner().invoke(cli, ["explain", reference])
        assert done.stderr.splitlines() == ["(not complete: Places can't be shown now: it is away.)"]
        assert done.stdout.startswith("train: QUEUED")
    (told,) = json.loads("\n".join(lines("explain", "j1", "-o", "json")))
    assert (told["name"], told["missing"]) == ("train", server.missing)
    shown = json.loads("\n".join(lines("show", "j1/train", "-o", "json")))
    assert (shown["name"], shown["missing"]) == ("train", server.missing)
