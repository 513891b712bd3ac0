"""Two cards of a rehearsal, one of them shared: through five real processes, from the job file to `headway gpus`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headway.client import Refused
from headway.model.simulated_gpus import simulated_uuid
from headway.units import GIB
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.waiting import soon

SHARED = simulated_uuid("n1", 0)
SCRIPT = """
[[steps]]
do = "take"
gpu = 0
task = "greedy"
memory = "20GiB"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("shares")
    (folder / "script.toml").write_text(SCRIPT)
    settings = {
        "worker__simulated_gpus": 2,
        "worker__simulated_gpu_memory_bytes": 24 * GIB,
        "worker__simulated_gpu_script": str(folder / "script.toml"),
        "worker__gpu_shared": [SHARED],
        "worker__cpus": 16,
        "worker__memory_bytes": 64 * GIB,
        "worker__gpu_free_for_s": 0,
    }
    with a_cluster(folder / "cluster", **settings) as running:
        running.wait_ready()
        yield running


def a_share(name: str, share: str, *, run_s: float = 60.0, **more: Any) -> dict[str, Any]:
    return scripted_task(name, run_s=run_s, resources={"gpu_share": share}, retries=1, **more)


def states(cluster: Cluster, job_id: str) -> dict[str, str]:
    return {task["name"]: task["state"] for task in cluster.client.job(job_id)["tasks"]}


def refusal(cluster: Cluster, task: dict[str, Any]) -> str:
    with pytest.raises(Refused) as caught:
        cluster.client.submit(a_job(task))
    return caught.value.message


def test_shares_run_side_by_side_as_far_as_memory_goes(cluster: Cluster) -> None:
    whole = scripted_task("whole", run_s=60.0, resources={"gpus": 1})
    tasks = (a_share("train", "6GiB"), a_share("serve", "10GiB"), a_share("large", "12GiB", timeout="30m"), whole)
    job_id = cluster.client.submit(a_job(*tasks, name="ann"))["id"]
    running = {"train": "RUNNING", "serve": "RUNNING", "large": "QUEUED", "whole": "RUNNING"}
    soon(lambda: states(cluster, job_id) == running, what="three run, and one waits")
    tasks_of = {task["name"]: task for task in cluster.client.job(job_id)["tasks"]}

    (wait,) = [one for one in tasks_of["large"]["waits"] if one["word"] == "waiting_for_gpu"]
    assert "It asks for a share of 12GiB of one GPU" in wait["sentence"]
    assert "8GiB of one free" in wait["sentence"]
    soon(lambda: cluster.client.task(job_id, "train")["attempts"], what="the attempt is shown")
    (attempt,) = cluster.client.task(job_id, "train")["attempts"]
    assert attempt["gpu_uuids"] == [SHARED]
    assert attempt["sharing"]["share_bytes"] == 6 * GIB
    assert [(one["task"], one["share_bytes"]) for one in attempt["sharing"]["others"]] == [("serve", 10 * GIB)]
    shown = cluster.headway("show", f"{job_id}/train").stdout.decode()
    assert "shares GPU 0 of n1 with admin's ann/serve (10.0 GiB); it has 6.0 GiB" in shown

    (node,) = cluster.client.nodes()
    gpus = {gpu["uuid"]: gpu for gpu in node["gpus"]}
    assert gpus[SHARED]["state"] == "shared"
    assert gpus[SHARED]["booking"] is None
    assert sorted(share["task"] for share in gpus[SHARED]["shares"]) == ["serve", "train"]
    assert gpus[SHARED]["free_share_bytes"] == 8 * GIB
    other = next(gpu for uuid, gpu in gpus.items() if uuid != SHARED)
    assert (other["shared"], other["booking"]["task"]) == (False, "whole")
    listed = cluster.headway("gpus").stdout.decode()
    assert "8.0 GiB of it free for shares" in listed
    assert f"{job_id}/train (6.0 GiB)" in listed
    assert "room for one of 8.0 GiB" in cluster.headway("nodes", "show", "n1").stdout.decode()

    cluster.client.act("cancel", job_id)
    soon(lambda: "RUNNING" not in states(cluster, job_id).values(), what="all end")


def test_what_no_card_could_hold_is_refused_and_says_why(cluster: Cluster) -> None:
    assert "the largest GPU of that kind that is shared has 24GiB" in refusal(cluster, a_share("huge", "25GiB"))
    assert "no such GPU is shared" in refusal(
        cluster, scripted_task("a", resources={"gpu_share": "6GiB", "gpu_model": "H100"}, retries=1)
    )
    # The other card is the only one that is given out whole.
    assert "it asks for 2 GPUs, the largest has 1" in refusal(cluster, scripted_task("b", resources={"gpus": 2}))
    assert "needs retries: 1" in refusal(cluster, scripted_task("c", resources={"gpu_share": "6GiB"}))
    both = scripted_task("d", resources={"gpu_share": "6GiB", "gpus": 1}, retries=1)
    assert "two ways to ask for GPUs" in refusal(cluster, both)


def test_who_takes_more_than_a_share_is_ended_and_its_neighbour_goes_on(cluster: Cluster) -> None:
    job_id = cluster.client.submit(a_job(a_share("greedy", "6GiB", run_s=120.0), a_share("calm", "4GiB", run_s=8.0)))[
        "id"
    ]
    soon(lambda: states(cluster, job_id)["greedy"] == "FAILED", within_s=60, what="greedy is ended, twice")
    attempts = cluster.client.task(job_id, "greedy")["attempts"]
    # While the card is still looked at after the first one, a launch there may be refused, at the platform's cost.
    refusals = [one for one in attempts if one["reason"]["word"] == "platform_error"]
    assert all("refused the launch" in one["reason"]["sentence"] for one in refusals), refusals
    ended = [one for one in attempts if one not in refusals]
    assert [attempt["reason"]["word"] for attempt in ended] == ["gpu_memory", "gpu_memory"]
    assert (
        "It held 20GiB of the memory of GPU 0 of n1, more than its share of 6GiB" in attempts[0]["reason"]["sentence"]
    )
    assert "A share of 22GiB would have been enough" in attempts[0]["reason"]["sentence"]
    soon(lambda: states(cluster, job_id)["calm"] == "SUCCEEDED", within_s=60, what="its neighbour ends as it would")
    assert len(cluster.client.task(job_id, "calm")["attempts"]) == 1
