"""A service whose database is an old copy: what it has lost, the others tell it, and every job ends."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headway.client import Client, Refused
from tests.support.cluster import (
    QUICK_LEASES,
    Cluster,
    a_cluster,
    first_attempts,
    first_state,
    submitted,
)
from tests.support.waiting import soon

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SETTINGS = {
    **QUICK_LEASES,
    "cluster__lease_s": 20,
    "worker__cpus": 4,
    "worker__memory_bytes": 8 << 30,
    "worker__simulated_gpus": 2,
    "job_manager__compare_s": 5,
}
GPU = {"gpus": 1, "cpus": 1, "memory": "64MiB"}


class Copies:
    """Databases of services, put aside and put back."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def path(self, service: str) -> Path:
        folder = self.cluster.folder
        if service in self.cluster.workers:
            return folder / "workers" / service / "worker.db"
        return folder / "state" / f"{service}.db"

    def put_aside(self, service: str) -> None:
        with (
            closing(sqlite3.connect(self.path(service))) as source,
            closing(sqlite3.connect(self._copy(service))) as to,
        ):
            source.backup(to)

    def put_back(self, service: str) -> None:
        """The service is killed, and starts with what it had when its database was put aside."""
        self.cluster.kill9(service)
        path = self.path(service)
        for left in (Path(f"{path}-wal"), Path(f"{path}-shm")):
            left.unlink(missing_ok=True)
        shutil.copy(self._copy(service), path)
        self.cluster.start(service)

    def _copy(self, service: str) -> Path:
        return self.cluster.folder / f"{service}.copy"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with a_cluster(tmp_path, workers=2, **SETTINGS) as cluster:
        yield cluster


def reach(client: Client, wanted: str, *jobs: str) -> None:
    soon(lambda: all(first_state(client, job) == wanted for job in jobs), within_s=40, what=f"all are {wanted}")


def never_two_at_once(client: Client, *jobs: str) -> None:
    for job in jobs:
        spans = sorted(
            (one["started_at"], one["ended_at"] or time.time())
            for one in first_attempts(client, job)
            if one["started_at"]
        )
        for (_, ended), (started, _) in itertools.pairwise(spans):
            assert ended <= started, spans


@pytest.mark.parametrize("service", ["task_manager", "job_manager"])
def test_every_job_ends_though_a_database_is_an_old_copy(cluster: Cluster, service: str) -> None:
    client, copies = cluster.client, Copies(cluster)
    ends = submitted(client, 8, resources=GPU)
    runs_on = submitted(client, 35, resources=GPU)
    cancelled = submitted(client, 600, resources=GPU)
    reach(client, "RUNNING", ends, runs_on, cancelled)
    was_queued = submitted(client, 1, resources={"cpus": 4, "memory": "64MiB"})
    copies.put_aside(service)
    # All of this is forgotten.
    client.act("cancel", cancelled)
    came_later = submitted(client, 25, resources=GPU)
    quick = submitted(client, 0)
    assert client.wait(ends, timeout_s=40)["state"] == "SUCCEEDED"
    assert client.wait(quick, timeout_s=40)["state"] == "SUCCEEDED"
    client.wait(cancelled, timeout_s=40)
    reach(client, "RUNNING", came_later)
    copies.put_back(service)
    cluster.wait_ready()
    assert client.wait(ends, timeout_s=60)["state"] == "SUCCEEDED"
    assert client.wait(cancelled, timeout_s=60)["state"] == "CANCELLED"
    assert client.wait(runs_on, timeout_s=90)["state"] == "SUCCEEDED"
    assert client.wait(was_queued, timeout_s=90)["state"] == "SUCCEEDED"
    known = (ends, runs_on, cancelled, was_queued)
    if service == "task_manager":
        # JobManager knew of these, so they are there, and the one that ran was kept.
        assert client.wait(came_later, timeout_s=90)["state"] == "SUCCEEDED"
        assert client.job(quick)["state"] == "SUCCEEDED"
        assert len(first_attempts(client, came_later)) == 1, first_attempts(client, came_later)
        known = (*known, came_later)
    else:
        # Nobody can ask for them any more: TaskManager is told to end what is left of them.
        soon(lambda: client.queue()["total_running"] == 0, within_s=60, what="nothing runs for a job that is lost")
        assert "task.of_unknown_job" in cluster.log("job_manager")
    never_two_at_once(client, *known)
    assert len(first_attempts(client, runs_on)) == 1
    assert client.wait(submitted(client, 0), timeout_s=60)["state"] == "SUCCEEDED"


@pytest.mark.parametrize("service", ["task_manager", "job_manager"])
def test_cancel_ends_every_job_though_a_database_is_an_old_copy(cluster: Cluster, service: str) -> None:
    client, copies = cluster.client, Copies(cluster)
    big = {"cpus": 4, "memory": "64MiB"}
    blockers = [submitted(client, 12, resources=big) for _ in range(2)]
    reach(client, "RUNNING", *blockers)
    waits = submitted(client, 600, resources=big)
    copies.put_aside(service)
    for job in blockers:
        client.wait(job, timeout_s=60)
    reach(client, "RUNNING", waits)
    copies.put_back(service)
    cluster.wait_ready()
    client.act("cancel", waits)
    assert client.wait(waits, timeout_s=60)["state"] == "CANCELLED"
    never_two_at_once(client, waits, *blockers)
    for job in blockers:
        assert client.wait(job, timeout_s=60)["state"] == "SUCCEEDED"
        assert [one["state"] for one in first_attempts(client, job)].count("SUCCEEDED") <= 1
    soon(lambda: client.queue()["total_running"] == 0, within_s=60, what="nothing runs")


def test_a_task_that_task_manager_lost_is_not_run_twice_at_once(cluster: Cluster) -> None:
    """It waited when the copy was made, and runs on a machine that can't be heard when TaskManager is back."""
    client, copies = cluster.client, Copies(cluster)
    big = {"cpus": 4, "memory": "64MiB"}
    blockers = [submitted(client, 6, resources=big) for _ in range(2)]
    reach(client, "RUNNING", *blockers)
    waits = submitted(client, 25, resources=big)
    copies.put_aside("task_manager")
    reach(client, "RUNNING", waits)
    (first,) = first_attempts(client, waits)
    time.sleep(2.5)
    cluster.kill9(first["node_id"])
    copies.put_back("task_manager")

    def why() -> list[str]:
        try:
            entries = client.queue()["entries"]
        except Refused:  # TaskManager is not back yet
            return []
        reasons = [reason for entry in entries if entry["job_id"] == waits for reason in entry["waits"]]
        return [reason["sentence"] for reason in reasons if reason["word"] == "may_still_run"]

    soon(lambda: first["node_id"] in " ".join(why()), within_s=40, what="it is told why it waits")
    time.sleep(4)
    assert why(), "its machine has not been heard yet"
    cluster.start(first["node_id"])
    assert client.wait(waits, timeout_s=120)["state"] == "SUCCEEDED"
    assert len(first_attempts(client, waits)) == 1, "its work was kept"


def test_a_worker_whose_database_is_an_old_copy_keeps_what_runs(cluster: Cluster) -> None:
    client, copies = cluster.client, Copies(cluster)
    before = [submitted(client, 4, resources=GPU) for _ in range(2)]
    reach(client, "RUNNING", *before)
    for node in cluster.workers:
        copies.put_aside(node)
    for job in before:
        assert client.wait(job, timeout_s=40)["state"] == "SUCCEEDED"
    runs_on = [submitted(client, 15, resources=GPU) for _ in range(3)]
    cancelled = submitted(client, 600, resources=GPU)
    reach(client, "RUNNING", *runs_on, cancelled)
    for node in cluster.workers:
        copies.put_back(node)
    cluster.wait_ready()
    client.act("cancel", cancelled)
    assert client.wait(cancelled, timeout_s=60)["state"] == "CANCELLED"
    for job in runs_on:
        assert client.wait(job, timeout_s=90)["state"] == "SUCCEEDED"
    never_two_at_once(client, *before, *runs_on)
    for job in before:
        assert [one["state"] for one in first_attempts(client, job)] == ["SUCCEEDED"]
    assert client.wait(submitted(client, 0), timeout_s=60)["state"] == "SUCCEEDED"
