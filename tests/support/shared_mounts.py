"""Two Workers on one shared mount: what tests of GlusterFS and NFS ask alike."""

from __future__ import annotations

import time
from typing import Any

from headway.client import Client, Refused

from .cluster import a_job
from .waiting import soon

QUICK = {
    "cluster__heartbeat_s": 1,
    "resource_manager__poll_s": 1,
    "task_manager__platform_retry_delay_s": 0.5,
    "worker__disk_low_bytes": 2 << 20,
    "worker__cpus": 4,
    "worker__memory_bytes": 64 << 30,
}
ALL_OF_ONE = {"cpus": 3}  # so that two such tasks need both machines


def blocked(client: Client) -> dict[str, set[str]]:
    """Words that hold work, by node."""
    return {node["id"]: {c["word"] for c in node["conditions"] if c["blocks_work"]} for node in client.nodes()}


def running(client: Client, *tasks: dict[str, Any]) -> str:
    job_id = str(client.submit(a_job(*tasks))["id"])
    soon(
        lambda: all(task["state"] == "RUNNING" for task in client.job(job_id)["tasks"]),
        within_s=30,
        every_s=0.1,
        what=f"{job_id} runs",
    )
    return job_id


def assert_each_ran_once(client: Client, job_id: str, want_log: bytes) -> set[str]:
    """The nodes where its tasks ran."""
    done = client.wait(job_id, timeout_s=60, poll_s=0.2)
    assert done["state"] == "SUCCEEDED", done["tasks"]
    for task in done["tasks"]:
        assert [a["state"] for a in task["attempts"]] == ["SUCCEEDED"], task["attempts"]
        assert client.log(job_id, task["name"]) == want_log
    return {task["attempts"][0]["node_id"] for task in done["tasks"]}


def refused(client: Client, status: int) -> bool:
    """Whether a folder can't be made, with that status and a sentence."""
    try:
        client.make_folder(f"not-now-{time.monotonic_ns()}")
    except Refused as error:
        return error.status == status and len(str(error)) > 30
    return False
