"""Tasks that share a card: real containers, the real bindings of NVML, and a library that says what they hold."""

from __future__ import annotations

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

pytestmark = [pytest.mark.docker, pytest.mark.slow]
CARD = Gpu("GPU-22222222-aaaa-bbbb-cccc-000000000001", used_bytes=4 << 20)


@dataclass(frozen=True)
class Rig:
    jobs: Jobs
    gpus: PretendGpus

    def card(self) -> dict[str, Any]:
        return dict(self.jobs.cluster.client.nodes()[0]["gpus"][0])

    def begin(self, command: str, share: int) -> str:
        """A task with a share of the card, once its program runs."""
        job = self.jobs.begin(a_task(command, resources={"gpu_share": f"{share}GiB"}, retries=1, timeout="5m"))

        def started() -> bool:
            attempts = self.attempts(job)
            return bool(attempts) and attempts[0]["started_at"] is not None

        soon(started, within_s=30, what="it runs")
        return job

    def pid(self, job: str) -> int:
        """The first process of its container, by this machine's number."""
        client = self.jobs.engine.client()
        try:
            return int(client.api.inspect_container(f"headway-{job}.a.1")["State"]["Pid"])
        finally:
            client.close()

    def attempts(self, job: str) -> list[dict[str, Any]]:
        return list(self.jobs.cluster.client.job(job)["tasks"][0]["attempts"])

    def hold(self, **held: int) -> None:
        """How many GiB these processes hold from now on; ``held`` is by `pid…`."""
        processes = {int(pid.removeprefix("pid")): gib * GIB for pid, gib in held.items()}
        self.gpus.set([replace(CARD, processes=processes, used_bytes=sum(processes.values()) + CARD.used_bytes)])


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, docker_engine: Engine) -> Iterator[Rig]:
    folder: Path = tmp_path_factory.mktemp("gpu-shares")
    gpus = PretendGpus(folder)
    gpus.set([CARD])
    settings = {key.replace("__", "."): value for key, value in DOCKER_SETTINGS.items()}
    settings |= {
        "worker.docker_host": docker_engine.url,
        "worker.gpu_shared": ["GPU-2222"],
        "worker.gpu_free_for_s": 1,
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


def test_who_takes_more_than_a_share_is_ended_and_neighbours_go_on(rig: Rig) -> None:
    told = "until [ -e /root/nfs/{} ]; do sleep 0.1; done; exit {}"
    greedy = rig.begin("sleep 200", 6)
    calm, frail = rig.begin(told.format("calm", 0), 8), rig.begin(told.format("frail", 1), 8)
    pids = [rig.pid(job) for job in (greedy, calm, frail)]
    rig.hold(**{f"pid{pid}": gib for pid, gib in zip(pids, (5, 8, 8), strict=True)})
    soon(lambda: rig.card()["memory_used_bytes"] > 21 * GIB, what="it is read")
    assert rig.card()["processes"] == [], "the tasks' own are nobody's from outside"
    assert (rig.card()["state"], rig.card()["busy_outside"]) == ("shared", False)
    rig.hold(**{f"pid{pid}": gib for pid, gib in zip(pids, (7, 8, 8), strict=True)})
    reason = soon(lambda: rig.attempts(greedy)[0]["reason"], within_s=30, what="it is ended")
    assert (reason["word"], reason["fault"]) == ("gpu_memory", "user")
    assert "It held 7GiB of the memory of GPU 0 of n1, more than its share of 6GiB" in reason["sentence"]
    (rig.jobs.home() / "frail").touch()
    reason = soon(lambda: rig.attempts(frail)[0]["reason"], within_s=30, what="its own end")
    assert (reason["word"], reason["fault"], reason["exit_code"]) == ("gpu_neighbour", "platform", 1)
    rig.hold(**{f"pid{pids[1]}": 8})
    (rig.jobs.home() / "calm").touch()
    assert rig.jobs.ended(calm)["state"] == "SUCCEEDED"
    assert len(rig.attempts(calm)) == 1
    for job in (greedy, frail):
        rig.jobs.cluster.client.act("cancel", job)
    rig.gpus.set([CARD])
    soon(lambda: rig.card()["state"] == "free", within_s=60, what="the card is clean")


def test_a_driver_that_tells_no_memory_of_processes_gives_out_no_shares(rig: Rig) -> None:
    rig.gpus.set([replace(CARD, processes={1: -1})])
    soon(lambda: rig.card()["sick"], within_s=30, what="no share of it is given out")
    assert rig.card()["note"] == "no shares of it are given out: its driver tells no memory of processes"
    (node,) = rig.jobs.cluster.client.nodes()
    assert "gpu_shares_off" in {condition["word"] for condition in node["conditions"]}
    rig.gpus.set([CARD])
    soon(lambda: not rig.card()["sick"], within_s=30, what="it comes back")
