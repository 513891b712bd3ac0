"""What one account may have waiting, and what limits rule out, through five real processes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headway.client import Refused
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.waiting import soon

MOST = 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        "worker__simulated_gpus": 2,
        "worker__cpus": 8,
        "worker__memory_bytes": 64 << 30,
        "task_manager__limits__min_timeout": "5s",
        "task_manager__limits__queued_tasks_per_user": MOST,
        "task_manager__limits__running_gpus_per_user": 2,
        "task_manager__limits__short_reserve__gpus": 2,
        "task_manager__limits__short_reserve__above": "10m",
    }
    with a_cluster(tmp_path_factory.mktemp("limits"), workers=2, start=False, **settings) as running:
        running.start("resource_manager", "task_manager", "job_manager", "httpserver", "n1")
        running.wait_ready()
        yield running


def refused(cluster: Cluster, *tasks: dict, **how: bool) -> Refused:
    with pytest.raises(Refused) as caught:
        cluster.client.submit(a_job(*tasks), **how)
    return caught.value


def test_a_reserve_that_leaves_no_gpu_is_told_and_what_it_rules_out_waits_for_more(cluster: Cluster) -> None:
    long = scripted_task("long", timeout="20m", resources={"gpus": 1})
    error = refused(cluster, scripted_task("ok"), long, scripted_task("short", timeout="1s"))
    assert (error.status, error.kind.slug) == (422, "unsatisfiable")
    assert [problem.pointer for problem in error.problems] == ["/tasks/1/resources/gpus", "/tasks/2/timeout"]
    assert "tasks longer than 10m may together hold 0 of 2 GPUs" in error.message
    assert refused(cluster, long, dry_run=True).problems[0].message == error.problems[0].message
    # Nothing that joins could change what one account may hold.
    error = refused(cluster, scripted_task("many", resources={"gpus": 3}), allow_unsatisfiable=True)
    assert "one account may hold 2 at a time" in error.message

    (sentence,) = cluster.client.queue()["scheduling"]["contradictions"]
    assert "(2 GPUs) leaves none of the cluster's 2 for tasks longer than 10m" in sentence
    assert f"! the limits contradict each other: {sentence}" in cluster.headway("queue").stdout.decode()
    assert "limits.contradict" in cluster.log("task_manager")

    job_id = cluster.client.submit(a_job(long), allow_unsatisfiable=True)["id"]

    def why() -> list[str]:
        return [wait["word"] for wait in cluster.client.job(job_id)["tasks"][0]["waits"]]

    # In the first moments the node has told TaskManager nothing yet, which is a reason of its own.
    soon(lambda: why() == ["kept_for_short_tasks"], what="it waits for the reserve alone")
    cluster.start("n2")
    assert cluster.client.wait(job_id, timeout_s=60)["state"] == "SUCCEEDED"
    assert cluster.client.queue()["scheduling"]["contradictions"] == []


def test_no_more_tasks_of_one_account_wait_than_may_however_many_submit_at_once(cluster: Cluster) -> None:
    for node in cluster.client.nodes():
        cluster.client.node_action(node["id"], "cordon")
    pair = a_job(scripted_task("a"), scripted_task("b", needs=["a"]))

    def submit(number: int) -> str | Refused:
        try:
            return str(cluster.client.submit(pair, request_id=f"pair-{number}")["id"])
        except Refused as error:
            return error

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(submit, range(8)))
    jobs = [one for one in made if isinstance(one, str)]
    assert len(jobs) == 2
    assert {(one.status, one.kind.slug) for one in made if isinstance(one, Refused)} == {(429, "too-many-waiting")}
    listed = [job for job in cluster.client.jobs() if job["state"] == "PENDING"]
    assert {job["id"] for job in listed} == set(jobs)

    for how in ({}, {"dry_run": True}):
        error = refused(cluster, scripted_task("a"), scripted_task("b"), **how)
        assert "4 tasks of admin wait already, and at most 5 may: there is no room for 2 tasks more" in error.message
    error = refused(cluster, *(scripted_task(f"t{i}") for i in range(MOST + 1)))
    assert "split them into several jobs" in error.message
    # What was accepted is answered again, and another account has its own five.
    assert cluster.client.submit(pair, request_id=f"pair-{made.index(jobs[0])}")["id"] == jobs[0]
    with cluster.user("bob") as bob:
        bob_job = bob.submit(a_job(*(scripted_task(f"t{i}") for i in range(MOST))))["id"]
        with pytest.raises(Refused, match="5 tasks of bob wait already"):
            bob.preview_variants([{"timeout": "1m"}])
        bob.act("cancel", bob_job)

    # A retry by hand counts like a submission, and so does a clone; attempts that come back by themselves never do.
    cluster.client.act("cancel", jobs[0])
    cluster.client.wait(jobs[0], timeout_s=30)
    third = cluster.client.submit(a_job(*(scripted_task(f"t{i}") for i in range(3))))["id"]
    with pytest.raises(Refused, match="5 tasks of admin wait already") as caught:
        cluster.client.act("retry", jobs[0])
    assert caught.value.status == 429
    assert cluster.client.job(jobs[0])["state"] == "CANCELLED"
    done = cluster.headway("clone", jobs[0])
    assert (done.returncode, b"5 tasks of admin wait already" in done.stderr) == (4, True)

    for node in cluster.client.nodes():
        cluster.client.node_action(node["id"], "uncordon")
    for job_id in (jobs[1], third):
        assert cluster.client.wait(job_id, timeout_s=60)["state"] == "SUCCEEDED"
    assert cluster.client.act("retry", jobs[0])["tasks_changed"] == 2
    assert cluster.client.wait(jobs[0], timeout_s=60)["state"] == "SUCCEEDED"
