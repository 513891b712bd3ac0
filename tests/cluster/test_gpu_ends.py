"""Cards that fail under a task, that it leaves dirty, and that people use: real bindings, a stand-in for the library."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster, a_job, scripted_task
from tests.support.nvml import GIB, Gpu, PretendGpus
from tests.support.waiting import soon

pytestmark = pytest.mark.slow
CARD = Gpu("GPU-11111111-aaaa-bbbb-cccc-000000000001", used_bytes=4 << 20)


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> PretendGpus:
    gpus = PretendGpus(tmp_path_factory.mktemp("nvml"))
    gpus.set([CARD])
    return gpus


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, gpus: PretendGpus) -> Iterator[Cluster]:
    settings = {
        "worker.cpus": 8,
        "worker.memory_bytes": 64 * GIB,
        "worker.gpu_free_for_s": 1,
        "resource_manager.poll_s": 0.5,
        "task_manager.platform_retries": 1,
    }
    cluster = Cluster(tmp_path_factory.mktemp("gpu-ends"), settings=settings, environment=gpus.environment())
    try:
        cluster.start()
        cluster.wait_ready()
        soon(lambda: cluster.client.nodes()[0]["gpus"], what="its card is found")
        yield cluster
    finally:
        cluster.close()


def a_gpu_job(run_s: float, exit_code: int = 0) -> dict[str, Any]:
    return a_job(scripted_task("train", run_s=run_s, exit_code=exit_code, resources={"gpus": 1}))


def state(cluster: Cluster, job: str) -> str:
    return str(cluster.client.job(job)["tasks"][0]["state"])


def waits(cluster: Cluster, job: str) -> dict[str, str]:
    return {wait["word"]: wait["sentence"] for wait in cluster.client.job(job)["tasks"][0]["waits"]}


def card(cluster: Cluster) -> dict[str, Any]:
    return dict(cluster.client.nodes()[0]["gpus"][0])


def test_a_dirty_card_is_not_given_out_and_comes_back_by_itself(cluster: Cluster, gpus: PretendGpus) -> None:
    """GPU-12, GPU-14."""
    first = cluster.client.submit(a_gpu_job(1.5))["id"]
    soon(lambda: state(cluster, first) == "RUNNING", what="the first runs")
    gpus.set([replace(CARD, used_bytes=20 * GIB)])
    second = cluster.client.submit(a_gpu_job(0))["id"]
    assert cluster.client.wait(first, timeout_s=30)["state"] == "SUCCEEDED"
    soon(lambda: card(cluster)["sick"], what="it is not offered")
    assert card(cluster)["note"] == "20GiB of its memory are still in use after a task ended"
    assert state(cluster, second) == "QUEUED"
    gpus.set([CARD])
    assert cluster.client.wait(second, timeout_s=30)["state"] == "SUCCEEDED"
    (attempt,) = cluster.client.job(second)["tasks"][0]["attempts"]
    assert attempt["number"] == 1


def test_who_uses_a_card_from_outside_is_told(cluster: Cluster, gpus: PretendGpus, tmp_path: Path) -> None:
    """GPU-15: the waiting program never got the card, and no reason was given."""
    script = tmp_path / "train.py"
    script.write_text("import time; time.sleep(600)")
    with subprocess.Popen(["/usr/bin/python3", str(script)]) as other:
        try:
            gpus.set([replace(CARD, used_bytes=3 * GIB, processes={other.pid: 3 * GIB})])
            soon(lambda: card(cluster)["busy_outside"], what="it is busy")
            (process,) = card(cluster)["processes"]
            me = pwd.getpwuid(os.getuid()).pw_name
            assert (process["pid"], process["owner"], process["memory_used_bytes"]) == (other.pid, me, 3 * GIB)
            assert process["command"].startswith("python3 ")
            job = cluster.client.submit(a_gpu_job(0))["id"]
            whose = soon(lambda: waits(cluster, job).get("gpu_busy_outside"), what="a reason")
            assert whose.startswith(f"GPU 0 of n1 is in use by {me}'s python3 ")
            assert whose.endswith(", 3GiB.")
            assert "runs on it without Headway" in cluster.headway("gpus").stdout.decode()
            assert f"(process {other.pid}" in cluster.headway("nodes", "show", "n1").stdout.decode()
        finally:
            other.kill()
    gpus.set([CARD])
    assert cluster.client.wait(job, timeout_s=30)["state"] == "SUCCEEDED"


def test_a_card_that_falls_off_the_bus_costs_the_user_nothing(cluster: Cluster, gpus: PretendGpus) -> None:
    """G1: it was told as the user's own fault, and the user's retries were spent."""
    job = cluster.client.submit(a_gpu_job(3, exit_code=1))["id"]
    soon(lambda: state(cluster, job) == "RUNNING", what="it runs")
    gpus.set([replace(CARD, fails={"*": 15})])
    ended = soon(lambda: cluster.client.job(job)["tasks"][0]["attempts"][0]["reason"], within_s=30, what="its end")
    assert ended["word"] == "gpu_failed"
    assert "GPU 0 (NVIDIA A100-SXM4-40GB) of n1 failed while it ran" in ended["sentence"]
    gpus.set([CARD])
    cluster.client.act("cancel", job)
