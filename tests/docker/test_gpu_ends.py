"""Cards that fail under a task, that it leaves dirty, and that people use; by the real bindings of NVML."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.docker.conftest import DOCKER_SETTINGS, Jobs, a_task
from tests.support.cluster import Cluster
from tests.support.dockerd import Engine
from tests.support.nvml import GIB, Gpu, PretendGpus
from tests.support.waiting import soon
from worker.machine.device_access import lost_devices_of

pytestmark = [pytest.mark.docker, pytest.mark.slow]
CARD = Gpu("GPU-11111111-aaaa-bbbb-cccc-000000000001", used_bytes=4 << 20)
HIERARCHY = Path("/sys/fs/cgroup/devices")
ME = pwd.getpwuid(os.getuid()).pw_name


@dataclass(frozen=True)
class Rig:
    jobs: Jobs
    gpus: PretendGpus

    def card(self) -> dict[str, Any]:
        return dict(self.jobs.cluster.client.nodes()[0]["gpus"][0])

    def begin(self, command: str, **fields: Any) -> str:
        """A task on the card."""
        return self.jobs.begin(a_task(command, resources={"gpus": 1}, **fields))

    def pid(self, job: str) -> int:
        """The first process of its container, by this machine's number."""
        client = self.jobs.engine.client()
        try:
            return int(client.api.inspect_container(f"headway-{job}.a.1")["State"]["Pid"])
        finally:
            client.close()

    def attempts(self, job: str) -> list[dict[str, Any]]:
        return list(self.jobs.cluster.client.job(job)["tasks"][0]["attempts"])

    def runs(self, job: str) -> None:
        def started() -> bool:
            attempts = self.attempts(job)
            return bool(attempts) and attempts[0]["started_at"] is not None

        soon(started, within_s=30, what="it runs")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, docker_engine: Engine) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("gpu-ends")
    gpus = PretendGpus(folder)
    gpus.set([CARD])
    settings = {key.replace("__", "."): value for key, value in DOCKER_SETTINGS.items()}
    settings |= {
        "worker.docker_host": docker_engine.url,
        "worker.gpu_free_for_s": 1,
        "worker.gpu_clean_s": 1,
        "resource_manager.poll_s": 0.5,
    }
    cluster = Cluster(folder / "c", settings=settings, environment=gpus.environment())
    try:
        cluster.start()
        cluster.wait_ready()
        yield Rig(Jobs(cluster, docker_engine), gpus)
    finally:
        cluster.close()
    docker_engine.remove_containers()


def test_a_dirty_card_is_not_given_out_and_comes_back_by_itself(rig: Rig) -> None:
    """GPU-12, GPU-14."""
    first = rig.begin("sleep 4")
    rig.runs(first)
    pid = rig.pid(first)
    rig.gpus.set([replace(CARD, used_bytes=20 * GIB, processes={pid: 20 * GIB})])
    soon(lambda: rig.card()["memory_used_bytes"] == 20 * GIB, what="it is read")
    assert rig.card()["processes"] == [], "the task's own is nobody's from outside"
    second = rig.begin("true")
    assert rig.jobs.ended(first)["state"] == "SUCCEEDED"
    soon(lambda: rig.card()["sick"], what="it is not offered")
    assert rig.card()["note"].startswith(f"process {pid} (")
    assert rig.card()["note"].endswith(" of an ended task is still on it, 20GiB")
    assert rig.jobs.state(second) == "QUEUED"
    rig.gpus.set([CARD])
    assert rig.jobs.ended(second)["state"] == "SUCCEEDED"
    assert not rig.card()["busy_outside"]


def test_who_uses_a_card_from_outside_is_told(rig: Rig, tmp_path: Path) -> None:
    """GPU-15: the waiting program never got the card, and no reason was given."""
    script = tmp_path / "train.py"
    script.write_text("import time; time.sleep(600)")
    cluster = rig.jobs.cluster
    with subprocess.Popen(["/usr/bin/python3", "train.py"], cwd=tmp_path) as other:
        try:
            rig.gpus.set([replace(CARD, used_bytes=3 * GIB, processes={other.pid: 3 * GIB})])
            soon(lambda: rig.card()["busy_outside"], what="it is busy")
            assert rig.card()["processes"] == [
                {"pid": other.pid, "owner": ME, "command": "python3 train.py", "memory_used_bytes": 3 * GIB}
            ]
            job = rig.begin("true")
            want = ("gpu_busy_outside", f"GPU 0 of n1 is in use by {ME}'s python3 train.py, 3GiB.")
            soon(lambda: want in waits(cluster, job), what="a reason")
            line = f"python3 train.py of {ME} (process {other.pid}, 3.0 GiB) runs on it without Headway"
            assert f"! GPU 0 of n1: {line}" in cluster.headway("gpus").stdout.decode()
            assert f"  {line}" in cluster.headway("nodes", "show", "n1").stdout.decode()
        finally:
            other.kill()
            rig.gpus.set([CARD])
    assert rig.jobs.ended(job)["state"] == "SUCCEEDED"


def waits(cluster: Cluster, job: str) -> list[tuple[str, str]]:
    return [(wait["word"], wait["sentence"]) for wait in cluster.client.job(job)["tasks"][0]["waits"]]


def test_a_card_that_falls_off_the_bus_costs_the_user_nothing(rig: Rig) -> None:
    """G1: it was told as the user's own fault, and the user's retries were spent."""
    job = rig.begin("sleep 8; exit 1", retries=0)
    rig.runs(job)
    rig.gpus.set([replace(CARD, fails={"*": 15})])
    soon(lambda: rig.attempts(job)[0]["warnings"], within_s=20, what="its owner is told while it runs")
    (warning,) = rig.attempts(job)[0]["warnings"]
    assert warning.startswith("GPU 0 (NVIDIA A100-SXM4-40GB) of n1 failed while it ran: ")
    assert warning.endswith("The task goes on as long as it can.")
    assert rig.jobs.state(job) == "RUNNING"
    reason = soon(lambda: rig.attempts(job)[0]["reason"], within_s=30, what="its end")
    assert (reason["word"], reason["fault"]) == ("gpu_failed", "platform")
    assert "GPU 0 (NVIDIA A100-SXM4-40GB) of n1 failed while it ran" in reason["sentence"]
    # No retry of its own was allowed, and it waits for a card all the same.
    assert rig.jobs.state(job) == "QUEUED"
    rig.jobs.cluster.client.act("cancel", job)
    rig.gpus.set([CARD])


@pytest.mark.skipif(not HIERARCHY.is_dir(), reason="this machine has no rules that a test can take back")
def test_a_container_that_may_not_open_its_devices_is_found(rig: Rig) -> None:
    """GPU-04: a reload of the service manager's rules took the GPUs away, and nobody noticed."""
    job = rig.begin("sleep 60")
    rig.runs(job)
    pid = rig.pid(job)
    # As the toolkit's hook makes it; the number is that of /dev/zero.
    os.mknod(f"/proc/{pid}/root/dev/nvidia0", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    folder = rig.jobs.cluster.folder / "workers" / "n1" / "attempts" / f"{job}.a.1"
    try:
        assert lost_devices_of(folder) == []
        groups = [line.split(":") for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
        (group,) = [path for _, controllers, path in groups if "devices" in controllers.split(",")]
        Path(f"{HIERARCHY}{group}/devices.deny").write_text("c 1:5 rwm")
        assert lost_devices_of(folder) == ["nvidia0"]
    finally:
        rig.jobs.cluster.client.act("cancel", job)
        rig.jobs.ended(job)
