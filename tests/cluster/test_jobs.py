"""Whole jobs through five real processes with the scripted runtime, seen from outside: client and command line."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.client import Refused
from headway.client.samples import SampleClient
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.waiting import soon


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with a_cluster(folder, worker__simulated_gpus=2, worker__cpus=8, worker__memory_bytes=64 << 30) as running:
        yield running


def states(job: dict) -> dict[str, str]:
    return {t["name"]: t["state"] for t in job["tasks"]}


def test_a_diamond_runs_in_order(cluster: Cluster):
    """SPEC-07: the join runs once, after both branches."""
    job = a_job(
        scripted_task("root"),
        scripted_task("left", run_s=0.3, needs=["root"]),
        scripted_task("right", run_s=0.3, needs=["root"]),
        scripted_task("join", needs=["left", "right"], env={"HEADWAY_SCRIPTED_OUTPUT": "joined\n"}),
    )
    done = cluster.client.wait(cluster.client.submit(job)["id"], timeout_s=30)
    assert done["state"] == "SUCCEEDED"
    tasks = {t["name"]: t for t in done["tasks"]}
    assert all(len(t["attempts"]) == 1 for t in done["tasks"])
    join_start = tasks["join"]["attempts"][0]["started_at"]
    assert join_start >= max(tasks[n]["attempts"][0]["ended_at"] for n in ("left", "right"))
    assert cluster.client.log(done["id"], "join") == b"joined\n"


def test_what_follows_a_failure(cluster: Cluster):
    """REC-19: dependents used to wait for ever after a failure."""
    job = a_job(
        scripted_task("a", exit_code=3),
        scripted_task("b", needs=["a"]),
        scripted_task("c", needs=["b"]),
        scripted_task("d"),
        scripted_task("on-failure", needs={"a": "failure"}),
        scripted_task("always", needs={"c": "any"}),
        scripted_task("never", needs={"d": "failure"}),
    )
    done = cluster.client.wait(cluster.client.submit(job)["id"], timeout_s=30)
    assert done["state"] == "FAILED"
    assert done["reason_task"] == "a"
    assert states(done) == {
        "a": "FAILED",
        "b": "SKIPPED",
        "c": "SKIPPED",
        "d": "SUCCEEDED",
        "on-failure": "SUCCEEDED",
        "always": "SUCCEEDED",
        "never": "SKIPPED",
    }
    a = next(t for t in done["tasks"] if t["name"] == "a")
    assert a["reason"]["exit_code"] == 3


@pytest.mark.parametrize(("retries", "want"), [(0, 1), (1, 2), (3, 4)])
def test_retries_are_runs_after_the_first(cluster: Cluster, retries: int, want: int):
    """REC-13: 'retries: 3' used to mean three runs in one place and four in another."""
    done = cluster.client.wait(
        cluster.client.submit(a_job(scripted_task("a", exit_code=1, retries=retries)))["id"], timeout_s=60
    )
    attempts = done["tasks"][0]["attempts"]
    assert [a["number"] for a in attempts] == list(range(1, want + 1))
    assert {a["of_runs"] for a in attempts} == {retries + 1}
    assert {a["state"] for a in attempts} == {"FAILED"}


def test_a_timeout_is_a_word_of_its_own(cluster: Cluster):
    task = scripted_task("a", run_s=60, timeout="1s", grace="1s")
    done = cluster.client.wait(cluster.client.submit(a_job(task))["id"], timeout_s=30)
    assert states(done) == {"a": "TIMED_OUT"}
    assert done["tasks"][0]["reason"]["word"] == "timed_out"
    assert 1 <= done["tasks"][0]["attempts"][0]["phases"]["running_s"] < 60


@pytest.mark.slow
def test_what_an_attempt_uses_is_seen_while_it_runs_and_after(cluster: Cluster):
    job_id = str(cluster.client.submit(a_job(scripted_task(run_s=4)))["id"])
    samples = SampleClient(cluster.client, job_id, "a")
    soon(lambda: cluster.client.task(job_id, "a")["attempt"], within_s=30, what="its attempt")
    live = soon(lambda: (seen := samples.points())["samples"] and seen, within_s=30, what="a sample of a live attempt")
    assert not live["ended"]

    cluster.client.wait(job_id, timeout_s=60)
    after = soon(lambda: (seen := samples.points())["ended"] and seen["samples"] >= 3 and seen, within_s=30, what="all")

    assert (after["sentence"], after["lost"]) == ("", 0)
    assert after["at"][: len(live["at"])] == live["at"]
    (attempt,) = cluster.client.task(job_id, "a")["attempts"]
    assert attempt["use"]["cpu_s"] == after["use"]["cpu_s"] > 0
    assert [row["resource"] for row in after["efficiency"]["rows"]][:2] == ["time", "cpus"]
    table = io.BytesIO()
    samples.write("csv", table)
    assert len(table.getvalue().splitlines()) == 1 + after["samples"]


def test_waiting_time_is_not_run_time(cluster: Cluster):
    """TIME-07: the run limit used to be eaten by the queue."""
    first = scripted_task("first", run_s=5, resources={"gpus": 2})
    second = scripted_task("second", run_s=0.5, timeout="2s", resources={"gpus": 2})
    a = cluster.client.submit(a_job(first))["id"]
    soon(lambda: states(cluster.client.job(a))["first"] == "RUNNING")
    soon(lambda: cluster.client.job(a)["tasks"][0]["started_at"], what="a running task says since when")
    b = cluster.client.submit(a_job(second))["id"]
    job = cluster.client.job(b)
    waiting = job["tasks"][0]
    if waiting["state"] == "QUEUED":
        soon(lambda: cluster.client.job(b)["tasks"][0]["waits"], what="it says why it waits")
    done = cluster.client.wait(b, timeout_s=30)
    assert states(done) == {"second": "SUCCEEDED"}
    phases = done["tasks"][0]["attempts"][0]["phases"]
    assert phases["scheduling_s"] > 1
    assert phases["running_s"] < phases["scheduling_s"]


def test_a_cpu_task_does_not_wait_behind_gpu_tasks(cluster: Cluster):
    """RES-09."""
    blockers = [
        cluster.client.submit(a_job(scripted_task("g", run_s=30, resources={"gpus": 2})))["id"] for _ in range(3)
    ]
    try:
        done = cluster.client.wait(cluster.client.submit(a_job(scripted_task("c")))["id"], timeout_s=20)
        assert done["state"] == "SUCCEEDED"
        queue = cluster.client.queue()
        reasons = {e["job_id"]: e["waits"][0]["word"] for e in queue["entries"] if e["job_id"] in blockers}
        assert set(reasons.values()) == {"waiting_for_gpu"}
        assert len(reasons) == 2
    finally:
        for job in blockers:
            cluster.client.act("cancel", job)
    for job in blockers:
        assert cluster.client.wait(job, timeout_s=30)["state"] == "CANCELLED"


def test_what_no_machine_could_run_is_refused_at_submit(cluster: Cluster):
    """RES-06."""
    for resources in ({"gpus": 9}, {"memory": "1TiB"}, {"gpus": 1, "gpu_model": "H100"}):
        with pytest.raises(Refused) as caught:
            cluster.client.submit(a_job(scripted_task("big", resources=resources)))
        assert caught.value.status == 422
        assert caught.value.problems
    answer = cluster.client.submit(a_job(scripted_task("big", resources={"gpus": 9})), allow_unsatisfiable=True)
    soon(lambda: cluster.client.job(answer["id"])["tasks"][0]["waits"], what="it says why it waits")
    assert cluster.client.act("cancel", answer["id"])["job"]["state"] in ("STOPPING", "CANCELLED")
    assert cluster.client.wait(answer["id"], timeout_s=10)["state"] == "CANCELLED"


@pytest.mark.parametrize(
    ("tasks", "needle"),
    [
        ([scripted_task("a", needs=["a"])], "'a'"),
        ([scripted_task("A"), scripted_task("A", needs=["A"])], "A"),
        ([scripted_task("prepare"), scripted_task("train", needs=["prepar"])], "prepare"),
        ([scripted_task("a", needs=["c"]), scripted_task("b", needs=["a"]), scripted_task("c", needs=["b"])], "→"),
    ],
    ids=["itself", "twice", "unknown", "cycle"],
)
def test_graphs_that_can_not_run_are_refused_and_leave_no_trace(cluster: Cluster, tasks, needle):
    """SPEC-01, SPEC-03, SPEC-04."""
    before = [j["id"] for j in cluster.client.jobs()]
    with pytest.raises(Refused) as caught:
        cluster.client.submit(a_job(*tasks))
    assert any(needle in p.message for p in caught.value.problems), caught.value.problems
    assert [j["id"] for j in cluster.client.jobs()] == before


def test_the_same_submit_twice_is_one_job(cluster: Cluster):
    """WEB-05."""
    job = a_job(scripted_task("a"))
    one = cluster.client.submit(job, request_id="the-same")
    two = cluster.client.submit(job, request_id="the-same")
    assert one["id"] == two["id"]
    assert two["already_known"]
    with pytest.raises(Refused) as caught:
        cluster.client.submit(a_job(scripted_task("other")), request_id="the-same")
    assert caught.value.status == 409


def test_submit_and_cancel_in_a_tight_loop(cluster: Cluster):
    """TIME-15: a cancel used to be lost while the container was being made."""
    ids = []
    for number in range(50):
        job_id = cluster.client.submit(a_job(scripted_task("a", run_s=60)))["id"]
        if number % 3:
            threading.Event().wait(number % 7 * 0.02)
        cluster.client.act("cancel", job_id)
        ids.append(job_id)
    for job_id in ids:
        assert cluster.client.wait(job_id, timeout_s=30)["state"] == "CANCELLED"
    soon(lambda: cluster.client.queue()["total_running"] == 0)


def test_hold_and_release(cluster: Cluster):
    blocker = cluster.client.submit(a_job(scripted_task("g", run_s=60, resources={"gpus": 2})))["id"]
    soon(lambda: states(cluster.client.job(blocker))["g"] == "RUNNING")
    held = cluster.client.submit(a_job(scripted_task("h", resources={"gpus": 1})))["id"]
    cluster.client.act("hold", held)
    cluster.client.act("cancel", blocker)
    cluster.client.wait(blocker, timeout_s=30)
    job = cluster.client.job(held)
    assert job["held"]
    assert states(job) == {"h": "QUEUED"}
    cluster.client.act("release", held)
    assert cluster.client.wait(held, timeout_s=30)["state"] == "SUCCEEDED"


def test_retry_runs_what_failed_and_what_was_skipped_for_it(cluster: Cluster):
    job = a_job(scripted_task("ok"), scripted_task("bad", exit_code=1), scripted_task("after", needs=["bad", "ok"]))
    job_id = cluster.client.submit(job)["id"]
    assert cluster.client.wait(job_id, timeout_s=30)["state"] == "FAILED"
    assert cluster.client.act("retry", job_id)["tasks_changed"] == 2
    done = cluster.client.wait(job_id, timeout_s=30)
    assert done["state"] == "FAILED"
    attempts = {t["name"]: [a["number"] for a in t["attempts"]] for t in done["tasks"]}
    assert attempts == {"ok": [1], "bad": [1, 2], "after": []}


def test_a_chain_of_3000_runs_is_shown_and_cancelled(cluster: Cluster):
    """SPEC-06: a long chain used to break the page, because the walk was recursive."""
    tasks = [scripted_task("t0", run_s=30)]
    tasks += [scripted_task(f"t{i}", needs=[f"t{i - 1}"]) for i in range(1, 3000)]
    job_id = cluster.client.submit(a_job(*tasks))["id"]
    assert len(cluster.client.job(job_id)["tasks"]) == 3000
    cluster.client.act("cancel", job_id)
    done = cluster.client.wait(job_id, timeout_s=60)
    assert done["state"] == "CANCELLED"
    assert set(states(done).values()) == {"CANCELLED"}


def test_all_logs_as_an_archive(cluster: Cluster):
    job = a_job(
        scripted_task("one", env={"HEADWAY_SCRIPTED_OUTPUT": "1\n"}),
        scripted_task("two", env={"HEADWAY_SCRIPTED_OUTPUT": "2\n"}),
    )
    job_id = cluster.client.submit(job)["id"]
    cluster.client.wait(job_id, timeout_s=30)
    file = io.BytesIO()
    cluster.client.logs_zip(job_id, file)
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert {b"1\n", b"2\n"} <= set(contents.values())


class TestCommandLine:
    def test_run_streams_the_log_and_ends_with_the_code(self, cluster: Cluster):
        done = cluster.headway(
            "run", "--image", "scripted", "--env", "HEADWAY_SCRIPTED_OUTPUT=hello\n",
            "--env", "HEADWAY_SCRIPTED_EXIT=7",
            "--env", "HEADWAY_SCRIPTED_RUN_S=0.3", "--", "true",
        )  # fmt: skip
        assert done.stdout == b"hello\n"
        assert done.returncode == 7, done.stderr

    def test_submit_and_wait(self, cluster: Cluster, tmp_path: Path):
        file = tmp_path / "job.json"
        file.write_bytes(a_job(scripted_task("a"), scripted_task("b", needs=["a"])))
        done = cluster.headway("submit", str(file), "--wait", "-o", "json")
        assert done.returncode == 0, done.stderr
        job = json.loads(done.stdout)
        assert job["state"] == "SUCCEEDED"
        shown = cluster.headway("show", job["id"][:-2])
        assert shown.returncode == 0
        assert b"SUCCEEDED" in shown.stdout
        listed = json.loads(cluster.headway("ps", "-o", "json").stdout)
        assert job["id"] in [j["id"] for j in listed]

    def test_a_failed_job_of_two_tasks_ends_with_1(self, cluster: Cluster, tmp_path: Path):
        file = tmp_path / "job.json"
        file.write_bytes(a_job(scripted_task("a", exit_code=9), scripted_task("b", needs=["a"])))
        assert cluster.headway("submit", str(file), "--follow").returncode == 1

    def test_problems_are_printed_with_their_places(self, cluster: Cluster, tmp_path: Path):
        file = tmp_path / "job.yaml"
        file.write_text("version: 1\nname: x\ntasks:\n  - name: a\n    imag: y\n    command: 'true'\n    timeout: 5\n")
        done = cluster.headway("submit", str(file))
        assert done.returncode == 4
        assert b"line 5" in done.stderr
        assert b"image" in done.stderr
        assert b"line 7" in done.stderr

    def test_no_service_is_status_3_and_a_wrong_token_4(self, cluster: Cluster, monkeypatch):
        environ = cluster.environ()
        monkeypatch.setattr(cluster, "environ", lambda: {**environ, "HEADWAY_URL": "http://127.0.0.1:9"})
        assert cluster.headway("ps").returncode == 3
        monkeypatch.setattr(cluster, "environ", lambda: {**environ, "HEADWAY_TOKEN": "wrong"})
        done = cluster.headway("ps")
        assert done.returncode == 4
        sentence, what_to_do = done.stderr.splitlines()
        assert b"not valid" in sentence
        assert b"headway login" in what_to_do

    def test_files_there_and_back(self, cluster: Cluster, tmp_path: Path):
        source = tmp_path / "ü x.bin"
        source.write_bytes(bytes(range(256)) * 1000)
        assert cluster.headway("files", "put", str(source), "data/").returncode in (0, 4)
        assert cluster.headway("files", "mkdir", "data").returncode in (0, 4)
        assert cluster.headway("files", "put", str(source), "data/").returncode == 0
        assert "ü x.bin" in cluster.headway("files", "ls", "data").stdout.decode()
        back = tmp_path / "back"
        assert cluster.headway("files", "get", "data/ü x.bin", str(back)).returncode == 0
        assert back.read_bytes() == source.read_bytes()
        assert cluster.headway("files", "rm", "-r", "data").returncode == 0
        assert cluster.headway("files", "get", "data/ü x.bin").returncode == 4

    def test_nodes_and_queue(self, cluster: Cluster):
        assert b"scripted" in cluster.headway("nodes").stdout
        assert cluster.headway("nodes", "cordon", "n1", "--note", "cleaning").returncode == 0
        try:
            job_id = cluster.client.submit(a_job(scripted_task("a")))["id"]
            soon(
                lambda: [wait["word"] for wait in cluster.client.job(job_id)["tasks"][0]["waits"]] == ["node_drained"],
                what="it waits for the cordoned node",
            )
            assert b"n1" in cluster.headway("nodes", "show", "n1").stdout
            assert job_id.encode() in cluster.headway("queue").stdout
        finally:
            assert cluster.headway("nodes", "uncordon", "n1").returncode == 0
        assert cluster.client.wait(job_id, timeout_s=30)["state"] == "SUCCEEDED"


def test_more_time_outlives_the_first_limit_and_a_kill_of_all_who_know_of_it(cluster: Cluster):
    job = a_job(
        scripted_task("long", run_s=13, timeout="10s"),
        scripted_task("endless", run_s=900, timeout="10s"),
        scripted_task("idle", run_s=900),
        scripted_task("waits", needs=["long"]),
    )
    job_id = cluster.client.submit(job)["id"]

    def extend(task: str, by: str) -> dict:
        return cluster.client.ask("POST", f"/jobs/{job_id}/tasks/{task}/extend", json={"by": by})

    def run() -> bool:
        tasks = {t["name"]: t for t in cluster.client.job(job_id)["tasks"]}
        return all(tasks[name]["started_at"] is not None for name in ("long", "endless", "idle"))

    soon(run)
    answer = extend("long", "30m")
    assert (answer["delivered"], answer["attempt"]["timeout_s"]) == (True, 1810.0)
    assert answer["attempt"]["deadline_at"] == pytest.approx(answer["attempt"]["started_at"] + 1810, abs=0.01)
    assert extend("endless", "3s")["sentence"] == f"{job_id}/endless has 3s more; its timeout is 13s now."
    with pytest.raises(Refused) as early:
        extend("waits", "5m")
    assert early.value.status == 409
    cluster.kill9("task_manager", "n1")
    cluster.start("task_manager", "n1")
    cluster.wait_ready()
    told = cluster.headway("extend", f"{job_id}/idle", "1h")
    assert told.returncode == 0, told.stderr
    assert told.stdout.decode().startswith(f"{job_id}/idle has 1h more; its timeout is 1h10m now.\nIt is stopped at ")
    cluster.client.act("cancel", job_id, "idle")
    done = cluster.client.wait(job_id, timeout_s=60)
    tasks = {t["name"]: t for t in done["tasks"]}
    assert states(done) == {"long": "SUCCEEDED", "endless": "TIMED_OUT", "idle": "CANCELLED", "waits": "SUCCEEDED"}
    assert tasks["endless"]["attempts"][0]["phases"]["running_s"] >= 13
    assert tasks["endless"]["reason"]["sentence"].startswith("It ran past its timeout of 13s and was ended.")
    platform = cluster.client.log(job_id, "long", stream="platform").decode()
    assert "admin gave it 30m more." in platform
    assert "Its timeout is 30m10s now, until " in platform
    assert "admin gave it 3s more at " in cluster.headway("show", f"{job_id}/endless").stdout.decode()
    with pytest.raises(Refused) as late:
        extend("endless", "5m")
    assert late.value.status == 409
    assert "has ended (TIMED_OUT)" in late.value.message


def test_a_dry_run_advises_from_past_runs_and_applies_nothing(cluster: Cluster):
    def job(**env: str) -> bytes:
        return a_job({**scripted_task("sweep", timeout="1d"), "command": "python3 sweep.py", "env": env})

    assert cluster.client.submit(job(), dry_run=True)["timeouts"] == []
    for seed in range(3):
        env = {"SEED": str(seed), "HEADWAY_SCRIPTED_RUN_S": "0.2"}
        assert cluster.client.wait(cluster.client.submit(job(**env))["id"], timeout_s=30)["state"] == "SUCCEEDED"
    told = cluster.headway("submit", "--dry-run", "-", input=job())
    assert told.returncode == 0, told.stderr
    _, start, *advice = told.stdout.decode().splitlines()
    assert start.startswith("sweep: It would ")
    assert advice == [
        "timeout of sweep: 3 runs of this command by you took about 0.2s; 10s would have killed none of them (0 %). "
        "This one asks for 1d; with 10s it would have its turn as if submitted 23h59m50s earlier."
    ]
    answer = json.loads(cluster.headway("submit", "--dry-run", "-o", "json", "-", input=job()).stdout)
    assert [(one["suggested_timeout"], one["basis"], one["timeout_s"]) for one in answer["timeouts"]] == [
        ("10s", "command", 86_400.0)
    ]
