"""An upgrade while tasks run: service by service, each a version newer, with messages that the others do not know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.states import TASK_ENDED
from tests.support.cluster import (
    QUICK_LEASES,
    SERVICES,
    Cluster,
    a_cluster,
    a_job,
    first_attempts,
    scripted_task,
    submitted,
)
from tests.support.waiting import soon

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SMALL = {"cpus": 0.5, "memory": "16MiB"}
SETTINGS = {**QUICK_LEASES, "cluster__lease_s": 30, "worker__cpus": 4, "worker__memory_bytes": 8 << 30}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with a_cluster(tmp_path, workers=2, start=False, **SETTINGS) as cluster:
        cluster.versions = dict.fromkeys(cluster.names, "0.1.0")
        cluster.start()
        cluster.wait_ready()
        yield cluster


def upgrade(cluster: Cluster, name: str, version: str) -> None:
    cluster.stop(name)
    cluster.versions[name] = version
    cluster.start(name)


def node(cluster: Cluster, name: str) -> dict[str, Any]:
    return next(one for one in cluster.client.nodes() if one["id"] == name)


@pytest.mark.parametrize("order", ["managers first", "workers first"])
def test_tasks_go_on_while_each_service_is_upgraded(cluster: Cluster, order: str) -> None:
    client = cluster.client
    tasks = [scripted_task(f"long{n}", run_s=25.0, resources=SMALL) for n in range(4)]
    tasks += [scripted_task(f"after{n}", run_s=0.5, needs=[f"long{n}"], resources=SMALL) for n in range(4)]
    job = client.submit(a_job(*tasks))["id"]
    soon(lambda: client.queue()["total_running"] == 4, within_s=40, what="all run")
    names = list(cluster.names) if order == "managers first" else [*cluster.workers, *SERVICES]
    for name in names:
        upgrade(cluster, name, "0.2.0")
        cluster.wait_ready()
        assert client.wait(submitted(client, 0, resources=SMALL), timeout_s=60)["state"] == "SUCCEEDED", name
    assert client.wait(job, timeout_s=120)["state"] == "SUCCEEDED"
    for task in client.job(job)["tasks"]:
        assert [one["state"] for one in task["attempts"]] == ["SUCCEEDED"], task["name"]
    assert {one["version"] for one in client.nodes()} == {"0.2.0"}


def test_a_worker_two_versions_ahead_is_refused_plainly_and_comes_back(cluster: Cluster) -> None:
    client = cluster.client
    pinned = submitted(client, 12, resources=SMALL)
    soon(lambda: bool(first_attempts(client, pinned)), within_s=40, what="it runs")
    apart = first_attempts(client, pinned)[0]["node_id"]
    upgrade(cluster, apart, "0.3.0")
    refusal = "is Headway 0.1.0, and it was called by Headway 0.3.0: only versions next to each other talk"
    soon(lambda: refusal in cluster.log(apart), within_s=40, what="the Worker's log says why")
    soon(lambda: node(cluster, apart)["health"] != "READY", within_s=40, what="it gets no new work")
    # The others go on.
    assert client.wait(submitted(client, 0, resources=SMALL), timeout_s=60)["state"] == "SUCCEEDED"
    upgrade(cluster, apart, "0.2.0")
    cluster.wait_ready()
    assert client.wait(pinned, timeout_s=60)["state"] == "SUCCEEDED"
    assert len(first_attempts(client, pinned)) == 1, "its work was kept"


def test_managers_two_versions_apart_do_not_lose_what_is_on_its_way(cluster: Cluster) -> None:
    client = cluster.client
    job = submitted(client, 2, resources=SMALL)
    soon(lambda: bool(first_attempts(client, job)), within_s=40, what="it runs")
    upgrade(cluster, "task_manager", "0.3.0")
    refusal = "task-manager is Headway 0.3.0, and it was called by Headway 0.1.0"
    soon(lambda: all(refusal in cluster.log(name) for name in cluster.workers), within_s=40, what="Workers say why")
    assert client.job(job)["state"] not in TASK_ENDED
    upgrade(cluster, "task_manager", "0.2.0")
    cluster.wait_ready()
    assert client.wait(job, timeout_s=60)["state"] == "SUCCEEDED"
