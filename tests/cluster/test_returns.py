"""Machines that come back as others, through real processes: a copied folder, and one that was set up anew."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import QUICK_LEASES, Cluster, a_cluster, a_job, scripted_task
from tests.support.ports import free_ports
from tests.support.settings_file import write_settings
from tests.support.waiting import soon

pytestmark = pytest.mark.slow


def second_worker(cluster: Cluster, folder: Path, port: int, **settings: Any) -> subprocess.Popen[bytes]:
    """Another Worker process that calls itself n1, with this folder and at this port."""
    own = {"worker.node_id": "n1", "worker.bind": f"127.0.0.1:{port}", "worker.folder": str(folder), **settings}
    config = folder.parent / "second.toml"
    write_settings(config, {**cluster._common, **own, "worker.gpu_socket": str(folder.parent / "s")})
    with (folder.parent / "second.log").open("wb") as log:
        command = [sys.executable, "-m", "headway", "serve", "worker", "--config", str(config)]
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)


def test_a_copied_folder_is_refused_and_what_the_first_runs_is_untouched(tmp_path: Path) -> None:
    with a_cluster(tmp_path / "cluster", **QUICK_LEASES) as cluster:
        job_id = cluster.client.submit(a_job(scripted_task("long", run_s=25.0)))["id"]
        soon(lambda: cluster.client.job(job_id)["tasks"][0]["started_at"] is not None, within_s=30)
        copy = tmp_path / "copy" / "worker"
        copy.parent.mkdir()
        shutil.copytree(cluster.folder / "workers" / "n1", copy, ignore=shutil.ignore_patterns("*.sock", "*.lock"))
        (port,) = free_ports(1)
        second = second_worker(cluster, copy, port)
        try:
            code = second.wait(60)
        finally:
            second.kill()
            second.wait()
        said = (copy.parent / "second.log").read_text()
        assert code != 0
        for words in (cluster.worker_address("n1"), f"127.0.0.1:{port}", "was copied"):
            assert words in said
        job = cluster.client.wait(job_id, timeout_s=90)
        assert job["state"] == "SUCCEEDED"
        (task,) = cluster.client.job(job_id)["tasks"]
        assert [attempt["number"] for attempt in task["attempts"]] == [1]
        (node,) = cluster.client.nodes()
        assert node["health"] == "READY"
        assert "refused" in [event["word"] for event in node["events"]]


def test_a_machine_that_was_set_up_anew_takes_its_name_once_the_old_one_is_down(tmp_path: Path) -> None:
    with a_cluster(tmp_path / "cluster", workers=2, **QUICK_LEASES) as cluster:
        pinned = {"cpus": 1}
        tasks = [scripted_task(f"t{i}", run_s=15.0, resources=pinned) for i in range(2)]
        job_id = cluster.client.submit(a_job(*tasks))["id"]
        soon(lambda: all(t["started_at"] is not None for t in cluster.client.job(job_id)["tasks"]), within_s=30)
        cluster.kill9("n1")
        shutil.rmtree(cluster.folder / "workers" / "n1")
        (cluster.folder / "workers" / "n1").mkdir()
        cluster.start("n1")

        def replaced() -> bool:
            (node,) = [one for one in cluster.client.nodes() if one["id"] == "n1"]
            return node["health"] == "READY" and "replaced" in [event["word"] for event in node["events"]]

        soon(replaced, within_s=60, what="the new n1 is taken")
        assert cluster.client.wait(job_id, timeout_s=120)["state"] == "SUCCEEDED"
