"""The whole cluster on PostgreSQL: a graph of tasks, while services and the database's server are killed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.cluster import QUICK_LEASES, SERVICES, a_cluster, a_job, scripted_task
from tests.support.postgres import Postgres
from tests.support.waiting import soon

from .test_lost_commits import never_two_at_once

pytestmark = [pytest.mark.slow, pytest.mark.postgres, pytest.mark.timeout(300)]

SMALL = {"cpus": 0.5, "memory": "16MiB"}


def test_a_graph_ends_well_though_everything_is_killed_once(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.tcp_url(postgres.new_database())
    places = {f"{service}__database": url for service in SERVICES}
    settings = {**QUICK_LEASES, "worker__cpus": 4, "worker__memory_bytes": 8 << 30, "job_manager__compare_s": 5}
    with a_cluster(tmp_path, workers=2, **settings, **places) as cluster:
        client = cluster.client
        tasks = [scripted_task(f"first{n}", run_s=1.0, resources=SMALL) for n in range(6)]
        tasks += [
            scripted_task(f"then{n}", run_s=1.5, needs=[f"first{n}", f"first{(n + 1) % 6}"], resources=SMALL)
            for n in range(6)
        ]
        tasks.append(scripted_task("last", needs=[f"then{n}" for n in range(6)], resources=SMALL))
        jobs = [client.submit(a_job(*tasks))["id"] for _ in range(3)]
        for service in SERVICES:
            time.sleep(0.5)
            cluster.restart(service)
        postgres.kill9()
        time.sleep(1.0)
        postgres.start()
        cluster.wait_ready()
        for job in jobs:
            assert client.wait(job, timeout_s=120)["state"] == "SUCCEEDED"
            shown = client.job(job)
            ended = {task["name"]: task["ended_at"] for task in shown["tasks"]}
            began = {task["name"]: task["attempts"][-1]["started_at"] for task in shown["tasks"]}
            for number in range(6):
                assert ended[f"first{number}"] <= began[f"then{number}"]
                assert ended[f"then{number}"] <= began["last"]
        never_two_at_once(client, *jobs)


def test_a_second_manager_on_the_same_database_is_refused(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.tcp_url(postgres.new_database())
    places = {f"{service}__database": url for service in SERVICES}
    with (
        a_cluster(tmp_path / "one", **places) as one,
        a_cluster(tmp_path / "two", start=False, **places) as two,
    ):
        two.start("job_manager")
        process = two.processes["job_manager"]
        soon(lambda: process.poll() is not None, within_s=60, what="the second one gives up")
        del two.processes["job_manager"]
        assert process.returncode == 1
        assert "is in use by another process" in two.log("job_manager")
        job = one.client.submit(a_job(scripted_task()))["id"]
        assert one.client.wait(job, timeout_s=60)["state"] == "SUCCEEDED"
