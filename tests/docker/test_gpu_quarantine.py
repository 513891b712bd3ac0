"""Faulty cards and MIG slices from the driver's word to the queue: a stand-in for NVIDIA's library, a real engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docker.conftest import DOCKER_SETTINGS, Jobs, a_task
from tests.support.cluster import Cluster, a_job
from tests.support.dockerd import Engine
from tests.support.nvml import Gpu, PretendGpus, Slice
from tests.support.waiting import soon

pytestmark = [pytest.mark.docker, pytest.mark.slow]

ONE, TWO = "GPU-11111111-aaaa-bbbb-cccc-000000000001", "GPU-22222222-aaaa-bbbb-cccc-000000000002"
SLICE = "MIG-33333333-aaaa-bbbb-cccc-000000000003"


def test_a_faulty_card_is_out_alone_and_named_until_an_admin_returns_it(
    tmp_path: Path, docker_engine: Engine, pretend_gpus: PretendGpus
) -> None:
    """G2, G3, G4."""
    pretend_gpus.set([Gpu(ONE), Gpu(TWO, fails={"*": 15})])  # it can't be read when the Worker starts
    settings: dict[str, Any] = {key.replace("__", "."): value for key, value in DOCKER_SETTINGS.items()}
    settings |= {"worker.docker_host": docker_engine.url, "resource_manager.poll_s": 0.5, "worker.gpu_clean_s": 0}
    cluster = Cluster(tmp_path / "c", settings=settings, environment=pretend_gpus.environment())
    jobs = Jobs(cluster, docker_engine)

    def faults() -> list[str]:
        return [gpu["fault"] for gpu in cluster.client.nodes()[0]["gpus"]]

    def waits(job: str) -> list[dict[str, Any]]:
        return list(cluster.client.job(job)["tasks"][0]["waits"])

    try:
        cluster.start()
        cluster.wait_ready()
        assert faults() == ["", "off_the_bus"]
        node = cluster.client.nodes()[0]["id"]
        (condition,) = [c for c in cluster.client.nodes()[0]["conditions"] if c["word"] == "gpu_faulty"]
        assert not condition["blocks_work"]
        pretend_gpus.change(TWO, fails={})
        soon(lambda: faults() == ["", ""], within_s=20, what="it is read again")

        pretend_gpus.tell(TWO, 119)
        soon(lambda: faults() == ["", "xid_error"], within_s=20, what="it is taken out")
        both = cluster.client.submit(a_job(a_task("echo two", resources={"gpus": 2})))
        named = f"GPU 1 ({TWO}), its driver reported a fault of the hardware"
        assert any(named in warning for warning in both["warnings"]), both
        soon(lambda: waits(both["id"]), within_s=10, what="it waits")
        assert [wait["word"] for wait in waits(both["id"])] == ["gpu_unavailable"]
        assert named in waits(both["id"])[0]["sentence"]
        assert jobs.task("true", resources={"gpus": 1})["attempts"][0]["gpu_uuids"] == [ONE]
        cluster.restart(node)
        soon(lambda: cluster.client.nodes()[0]["health"] == "READY", within_s=30, what="its Worker is back")
        assert faults() == ["", "xid_error"], "a restart of the Worker gives nothing out"
        unknown = cluster.headway("gpus", "return", node, "GPU-2222")
        assert (unknown.returncode, TWO in unknown.stderr.decode()) == (4, True), unknown
        done = cluster.headway("gpus", "return", node, TWO)
        assert (done.returncode, done.stdout.decode()) == (0, f"{TWO} is given out again.\n"), done
        assert jobs.ended(both["id"])["state"] == "SUCCEEDED"

        pretend_gpus.set([Gpu(ONE), Gpu(TWO, slices=[Slice(SLICE)])])
        soon(lambda: SLICE in str(cluster.client.nodes()[0]["gpus"]), within_s=20, what="its slice is there")
        task = jobs.task("echo $NVIDIA_VISIBLE_DEVICES", resources={"gpus": 1, "gpu_model": "1g.5gb"})
        assert jobs.out(task).decode() == f"{SLICE}\n"
        assert jobs.task("true", resources={"gpus": 1, "gpu_model": "A100"})["attempts"][0]["gpu_uuids"] == [ONE]
    finally:
        cluster.close()
        docker_engine.remove_containers()
