"""Killed, stopped, started in any order: nothing that was accepted is lost and nothing runs twice at once."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.client import NoService, Refused
from tests.support.cluster import SERVICES, Cluster, a_cluster, a_job, scripted_task
from tests.support.waiting import soon

pytestmark = pytest.mark.slow

COUNT = 50


def a_wave(cluster: Cluster, run_s: float = 6.0) -> str:
    """One job: 50 tasks that run at once, and 50 that wait for room."""
    tasks = [
        scripted_task(
            f"t{i}",
            run_s=run_s if i < COUNT else 0.2,
            resources={"cpus": 0.04, "memory": "16MiB"},
            timeout="60s" if i < COUNT else "90s",
            env={"HEADWAY_SCRIPTED_OUTPUT": f"begin {i}\n"},
        )
        for i in range(2 * COUNT)
    ]
    job_id = str(cluster.client.submit(a_job(*tasks))["id"])
    soon(lambda: cluster.client.queue()["total_running"] >= COUNT, within_s=30, what="50 run")
    return job_id


def assert_every_task_ran_once(cluster: Cluster, job_id: str, within_s: float = 90) -> None:
    done = cluster.client.wait(job_id, timeout_s=within_s)
    assert done["state"] == "SUCCEEDED", [t for t in done["tasks"] if t["state"] != "SUCCEEDED"][:3]
    for task in done["tasks"]:
        assert [a["state"] for a in task["attempts"]] == ["SUCCEEDED"], task
        number = int(task["name"][1:])
        assert cluster.client.log(job_id, task["name"]) == f"begin {number}\n".encode()


@pytest.fixture(scope="module")
def one_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("fifty"), worker__cpus=2, worker__memory_bytes=8 << 30) as cluster:
        yield cluster


@pytest.fixture
def fifty(one_cluster: Cluster) -> Cluster:
    """Room for fifty tasks. All of it runs, whatever the test before has killed."""
    one_cluster.start()
    one_cluster.wait_ready()
    return one_cluster


@pytest.mark.parametrize("victim", [*SERVICES, "n1"])
def test_a_killed_service_comes_back_and_nothing_is_lost(fifty: Cluster, victim: str):
    job_id = a_wave(fifty)
    fifty.kill9(victim)
    time.sleep(2.0)
    fifty.start(victim)
    fifty.wait_ready()
    assert_every_task_ran_once(fifty, job_id)


def test_all_killed_at_once(fifty: Cluster):
    job_id = a_wave(fifty)
    fifty.kill9(*fifty.names)
    time.sleep(2.0)
    fifty.start()
    fifty.wait_ready()
    assert_every_task_ran_once(fifty, job_id)


def test_all_killed_at_once_where_services_have_certificates(tmp_path: Path):
    with a_cluster(tmp_path, tls=True, worker__cpus=2, worker__memory_bytes=8 << 30) as cluster:
        job_id = a_wave(cluster)
        cluster.kill9(*cluster.names)
        time.sleep(2.0)
        cluster.start()
        cluster.wait_ready()
        assert_every_task_ran_once(cluster, job_id)


def test_killed_again_and_again_while_tasks_flow(fifty: Cluster):
    ids = [fifty.client.submit(a_job(*(scripted_task(f"t{i}", run_s=0.3) for i in range(30))))["id"] for _ in range(5)]
    for victim in itertools.islice(itertools.cycle(["task_manager", "job_manager", "n1", "resource_manager"]), 8):
        time.sleep(0.7)
        fifty.restart(victim)
    fifty.wait_ready()
    for job_id in ids:
        done = fifty.client.wait(job_id, timeout_s=120)
        assert done["state"] == "SUCCEEDED"
        for task in done["tasks"]:
            assert [a["state"] for a in task["attempts"] if a["state"] == "SUCCEEDED"] == ["SUCCEEDED"], task


def test_a_worker_dead_beyond_the_lease_loses_nothing_on_a_cluster_of_one(tmp_path: Path):
    with a_cluster(
        tmp_path,
        cluster__lease_s=12,
        cluster__heartbeat_s=1,
        cluster__lease_stop_s=6,
        cluster__lease_grace_s=1,
        resource_manager__poll_s=1,
        resource_manager__suspect_after_s=3,
        resource_manager__down_after_s=6,
    ) as cluster:
        long = cluster.client.submit(a_job(scripted_task("long", run_s=25)))["id"]
        short = cluster.client.submit(a_job(scripted_task("short", run_s=60, timeout="5s", grace="1s")))["id"]
        for job in (long, short):
            soon(lambda j=job: cluster.client.job(j)["tasks"][0]["state"] == "RUNNING")
        cluster.kill9("n1")
        time.sleep(15)
        assert cluster.client.job(long)["tasks"][0]["state"] == "RUNNING"
        cluster.start("n1")
        done = cluster.client.wait(short, timeout_s=30)
        assert done["tasks"][0]["state"] == "TIMED_OUT"
        ran_s = done["tasks"][0]["attempts"][0]["phases"]["running_s"]
        assert 5 <= ran_s < 15, "ended while its Worker was dead"
        done = cluster.client.wait(long, timeout_s=60)
        assert done["state"] == "SUCCEEDED"
        assert len(done["tasks"][0]["attempts"]) == 1


def test_a_lost_machine_of_two_has_its_tasks_run_elsewhere(tmp_path: Path):
    """REC-09, REC-11: the old copy is gone before the new one starts, and its late result is refused."""
    with a_cluster(
        tmp_path,
        workers=2,
        cluster__lease_s=12,
        cluster__heartbeat_s=1,
        cluster__lease_stop_s=6,
        cluster__lease_grace_s=1,
        resource_manager__poll_s=1,
        resource_manager__suspect_after_s=3,
        resource_manager__down_after_s=6,
    ) as cluster:
        job_id = cluster.client.submit(a_job(scripted_task("a", run_s=25)))["id"]
        soon(lambda: cluster.client.job(job_id)["tasks"][0]["state"] == "RUNNING")
        time.sleep(2.5)  # at least one heartbeat under an enforced lease
        node = cluster.client.job(job_id)["tasks"][0]["attempts"][0]["node_id"]
        cluster.kill9(node)
        soon(
            lambda: len(cluster.client.job(job_id)["tasks"][0]["attempts"]) == 2,
            within_s=40,
            what="a second attempt elsewhere",
        )
        first, second = cluster.client.job(job_id)["tasks"][0]["attempts"]
        assert first["state"] == "LOST"
        assert first["reason"]["word"] == "node_lost"
        assert second["node_id"] != node
        cluster.start(node)
        cluster.wait_ready()
        time.sleep(3)
        first, second = cluster.client.job(job_id)["tasks"][0]["attempts"]
        assert first["state"] == "LOST"
        assert second["state"] in ("RUNNING", "SUCCEEDED")
        done = cluster.client.wait(job_id, timeout_s=90)
        assert done["state"] == "SUCCEEDED"
        assert len(done["tasks"][0]["attempts"]) == 2


@pytest.mark.parametrize("order", [(*SERVICES, "n1"), ("n1", *reversed(SERVICES)), ("httpserver", "n1", "job_manager")])
def test_services_start_and_stop_in_any_order(tmp_path: Path, order: tuple[str, ...]):
    with a_cluster(tmp_path, start=False) as cluster:
        order = (*order, *(n for n in cluster.names if n not in order))
        for name in order:
            cluster.start(name)
            time.sleep(0.8)
        cluster.wait_ready()
        job_id = cluster.client.submit(a_job(scripted_task("a", run_s=2)))["id"]
        soon(lambda: cluster.client.job(job_id)["tasks"][0]["state"] == "RUNNING")
        for name in order:
            cluster.stop(name)
        cluster.start()
        cluster.wait_ready()
        assert cluster.client.wait(job_id, timeout_s=30)["state"] == "SUCCEEDED"


def test_what_does_not_answer_is_said_in_a_sentence(fifty: Cluster):
    fifty.kill9("job_manager")
    with pytest.raises((Refused, NoService)) as caught:
        fifty.client.submit(a_job(scripted_task("a")))
    assert "JobManager" in str(caught.value) or "job manager" in str(caught.value).lower()
    fifty.start("job_manager")
    fifty.wait_ready()
    assert fifty.client.wait(fifty.client.submit(a_job(scripted_task("a")))["id"], timeout_s=30)["state"] == "SUCCEEDED"
