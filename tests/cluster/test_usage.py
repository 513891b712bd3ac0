"""What was used, from the job to the simulation of its trace: five processes, and the command line."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headway.client import Client
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task

SIMULATE = ("simulate", "--policy", "fifo", "aging_sjf", "--nodes", "1x2", "-o", "json")


def headway(user: Client, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The command line as this account."""
    environment = {**os.environ, "HEADWAY_URL": user.profile.url, "HEADWAY_TOKEN": user.profile.token}
    command = [sys.executable, "-m", "headway", *words]
    return subprocess.run(command, env=environment, capture_output=True, input=stdin, timeout=100, check=False)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("cluster")
    with a_cluster(folder, worker__simulated_gpus=2, worker__cpus=8, worker__memory_bytes=64 << 30) as running:
        yield running


def test_from_a_job_to_the_simulation_of_its_trace(cluster: Cluster, tmp_path: Path):
    ann, bo = cluster.user("ann"), cluster.user("bo")
    empty, trace = tmp_path / "empty.csv", tmp_path / "trace.csv"
    told = headway(ann, "usage", "--trace", str(empty))
    assert (told.returncode, b"a header and no rows" in told.stderr) == (0, True)
    refused = headway(ann, *SIMULATE, "--trace", str(empty))
    assert (refused.returncode, refused.stderr.decode()) == (
        4, "headway: empty.csv has a header and no tasks below it.\n",
    )  # fmt: skip
    job = a_job(
        scripted_task("both", run_s=1, resources={"gpus": 2, "cpus": 1.5}, timeout="1m"),
        scripted_task("killed", run_s=60, resources={"gpus": 1}, timeout="1s", grace="1s"),
        scripted_task("fails", exit_code=1, retries=1, resources={"gpus": 1}),
        scripted_task("after", needs=["both"]),
        scripted_task("never", needs={"both": "failure"}),
        name='night, "run"',
    )
    job_id = ann.submit(job)["id"]
    assert ann.wait(job_id, timeout_s=60)["state"] == "FAILED"
    bo.wait(bo.submit(a_job(scripted_task("other", resources={"gpus": 1})))["id"], timeout_s=60)

    own = json.loads(headway(ann, "usage", "-o", "json").stdout)
    assert own["user"] == "ann"
    assert (own["total"]["tasks"], own["total"]["attempts"], own["total"]["timed_out"]) == (4, 5, 1)
    assert 3 / 3600 <= own["total"]["gpu_hours"] < 1
    everybody = json.loads(headway(ann, "usage", "--by", "user", "-o", "json").stdout)
    assert [row["key"] for row in everybody["rows"]] == ["ann", "bo"], "sums are for all"
    by_job = headway(ann, "usage", "--by", "job").stdout.decode()
    assert f'{job_id} night, "run" (ann)' in by_job
    # The sums outlive those who made them.
    cluster.restart("task_manager")
    cluster.wait_ready()
    assert json.loads(headway(ann, "usage", "-o", "json").stdout)["total"] == own["total"]

    written = headway(ann, "usage", "--trace", str(trace))
    assert (written.returncode, written.stderr.decode()) == (0, f"{trace}: 5 runs\n")
    rows = {row["id"]: row for row in csv.DictReader(trace.open(newline=""))}
    assert rows.keys() == {f"{job_id}/{run}" for run in ("both/1", "killed/1", "fails/1", "fails/2", "after/1")}
    assert {row["user"] for row in rows.values()} == {"ann"}
    assert float(rows[f"{job_id}/after/1"]["submit_s"]) >= 1, "it was queued when its needs were met"
    assert (rows[f"{job_id}/both/1"]["gpus"], rows[f"{job_id}/both/1"]["cpus"]) == ("2", "1.5")
    results = json.loads(headway(ann, *SIMULATE, "--trace", str(trace)).stdout)
    assert [(found["policy"], found["tasks"], found["timed_out"]) for found in results] == [
        ("fifo", 5, 1), ("aging_sjf", 5, 1),
    ]  # fmt: skip
    assert all(0 < found["utilisation"] <= 1 and found["makespan_s"] < 60 for found in results)
    piped = headway(ann, *SIMULATE, "--trace", "-", stdin=headway(ann, "usage", "--trace", "-").stdout)
    assert json.loads(piped.stdout) == results

    for words in (("--all",), ("--user", "bo")):
        refused = headway(ann, "usage", "--trace", "-", *words)
        assert (refused.returncode, refused.stdout) == (4, b"")
        assert b"Only an admin" in refused.stderr
    everybody = cluster.headway("usage", "--trace", "-", "--all").stdout.decode()
    assert sorted(row["user"] for row in csv.DictReader(everybody.splitlines())) == ["ann"] * 5 + ["bo"]
