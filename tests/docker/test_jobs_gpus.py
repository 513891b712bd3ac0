"""GPUs from the driver's list to the container: a stand-in for NVIDIA's library, and one for the engine's hook."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.docker.conftest import DOCKER_SETTINGS, Jobs, a_task
from tests.support import images
from tests.support.cluster import Cluster
from tests.support.dockerd import Engine, start_engine
from tests.support.nvml import GIB, Gpu, PretendGpus
from tests.support.waiting import soon

pytestmark = pytest.mark.docker

ONE, TWO = "GPU-11111111-aaaa-bbbb-cccc-000000000001", "GPU-22222222-aaaa-bbbb-cccc-000000000002"


@dataclass(frozen=True)
class Rig:
    jobs: Jobs
    gpus: PretendGpus

    def offered(self) -> list[dict[str, Any]]:
        return list(self.jobs.cluster.client.nodes()[0]["gpus"])


def _cluster(folder: Path, engine: Engine, gpus: PretendGpus, **more: Any) -> Cluster:
    settings = {key.replace("__", "."): value for key, value in DOCKER_SETTINGS.items()}
    settings |= {"worker.docker_host": engine.url, "resource_manager.poll_s": 0.5, **more}
    return Cluster(folder, settings=settings, environment=gpus.environment())


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, docker_engine: Engine) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("gpus")
    gpus = PretendGpus(folder)
    gpus.set([Gpu(ONE), Gpu(TWO, name="NVIDIA H100 PCIe", memory_bytes=80 * GIB)])
    cluster = _cluster(folder / "c", docker_engine, gpus)
    try:
        cluster.start()
        cluster.wait_ready()
        yield Rig(Jobs(cluster, docker_engine), gpus)
    finally:
        cluster.close()
    docker_engine.remove_containers()


def test_gpus_are_found(rig: Rig) -> None:
    found = {gpu["uuid"]: gpu for gpu in rig.offered()}
    assert set(found) == {ONE, TWO}
    assert found[TWO]["model"] == "NVIDIA H100 PCIe"
    assert found[TWO]["memory_bytes"] == 80 * GIB
    assert rig.jobs.cluster.client.nodes()[0]["gpu_passing"] == "device_request"
    shown = rig.jobs.cluster.headway("nodes", "show", "n1").stdout.decode()
    assert "GPUs are given by Docker's device request (device_request), driver 550.54.15, CUDA 12.4" in shown


def test_a_task_gets_exactly_the_gpu_that_was_booked(rig: Rig) -> None:
    """GPU-06: the index of one tool was another card for the next."""
    task = rig.jobs.task("echo $NVIDIA_VISIBLE_DEVICES; echo $HEADWAY_GPUS", resources={"gpus": 1})
    booked = task["attempts"][0]["gpu_uuids"]
    assert len(booked) == 1
    assert rig.jobs.out(task).decode().split() == [booked[0], "1"]
    task = rig.jobs.task("echo $NVIDIA_VISIBLE_DEVICES", resources={"gpus": 1, "gpu_model": ["H100"]})
    assert rig.jobs.out(task).decode() == f"{TWO}\n"
    job = rig.jobs.begin(a_task("sleep 60", resources={"gpus": 2}))
    soon(lambda: f"headway-{job}.a.1" in rig.jobs.containers(), within_s=20)
    client = rig.jobs.engine.client()
    try:
        found = client.api.inspect_container(f"headway-{job}.a.1")
    finally:
        client.close()
        rig.jobs.cluster.client.act("cancel", job)
    request = found["HostConfig"]["DeviceRequests"][0]
    assert (request["Driver"], sorted(request["DeviceIDs"]), request["Count"]) == ("nvidia", [ONE, TWO], 0)
    assert rig.jobs.ended(job)["state"] == "CANCELLED"
    assert rig.jobs.engine.gpu_calls.read_text()


def test_a_task_without_gpus_sees_none(rig: Rig) -> None:
    """GPU-08: images and users set a variable that asks for every card."""
    client = rig.jobs.engine.client()
    try:
        name = images.import_busybox(client, "headway-test/cuda:1", environment={"NVIDIA_VISIBLE_DEVICES": "all"})
    finally:
        client.close()
    job = rig.jobs.begin(
        a_task("echo $NVIDIA_VISIBLE_DEVICES; sleep 60", image=name, env={"NVIDIA_VISIBLE_DEVICES": "all"})
    )
    rig.jobs.until_it_prints(job, b"void\n")
    client = rig.jobs.engine.client()
    try:
        found = client.api.inspect_container(f"headway-{job}.a.1")
    finally:
        client.close()
        rig.jobs.cluster.client.act("cancel", job)
    assert [e for e in found["Config"]["Env"] if e.startswith("NVIDIA")] == ["NVIDIA_VISIBLE_DEVICES=void"]
    assert not found["HostConfig"]["DeviceRequests"]
    rig.jobs.ended(job)


def test_a_booking_ends_with_the_process(rig: Rig) -> None:
    """GPU-14: the card was booked until a clean-up much later."""
    tasks = [a_task("sleep 0.3", f"t{i}", resources={"gpus": 2}) for i in range(3)]
    done = rig.jobs.run(*tasks, within_s=40)
    assert done["state"] == "SUCCEEDED"
    spans = sorted((t["attempts"][0]["started_at"], t["attempts"][0]["ended_at"]) for t in done["tasks"])
    assert all(after[0] >= before[1] for before, after in itertools.pairwise(spans)), "two held one card"


def test_a_card_in_use_from_outside_is_passed_over_and_comes_back(rig: Rig) -> None:
    """GPU-12, GPU-15."""
    rig.gpus.set([Gpu(ONE, used_bytes=20 * GIB, processes={1: 20 * GIB}), Gpu(TWO, used_bytes=300 << 20)])
    try:
        soon(lambda: {g["uuid"]: g["busy_outside"] for g in rig.offered()} == {ONE: True, TWO: False}, within_s=20)
        note = next(g["note"] for g in rig.offered() if g["uuid"] == ONE)
        assert note.startswith("in use by root's ")
        assert note.endswith(", 20GiB")
        task = rig.jobs.task("true", resources={"gpus": 1})
        assert task["attempts"][0]["gpu_uuids"] == [TWO]
    finally:
        rig.gpus.set([Gpu(ONE), Gpu(TWO, name="NVIDIA H100 PCIe", memory_bytes=80 * GIB)])
    soon(lambda: not any(g["busy_outside"] for g in rig.offered()), within_s=20, what="the card is free again")


def _fails(said: str) -> str:
    return f"echo 'nvidia-container-cli: {said}' >&2; exit 1"


@pytest.mark.slow
def test_a_broken_toolkit_costs_one_attempt_and_no_other_until_it_is_mended(rig: Rig) -> None:
    """I11: the GPU jobs of everybody used up their retries on such a node, one after another."""
    jobs = rig.jobs
    with jobs.engine.gpu_hook_does(_fails("initialization error: nvml error: driver not loaded")):
        first = jobs.begin(*(a_task("echo one", name, resources={"gpus": 1}, retries=0) for name in ("a", "b")))
        soon(lambda: all(gpu["sick"] for gpu in rig.offered()), within_s=20, what="the node gives no GPU")
        (why,) = [c for c in jobs.cluster.client.nodes()[0]["conditions"] if c["word"] == "gpu_unavailable"]
        assert "an admin has to make `nvidia-smi` work there (initialization error: nvml error" in why["sentence"]
        assert not why["blocks_work"]
        second = jobs.begin(a_task("echo two", resources={"gpus": 2}))
        soon(lambda: _waits(jobs, second), within_s=10, what="it waits")
        assert [wait["word"] for wait in _waits(jobs, second)] == ["gpu_unavailable"]
        assert why["sentence"] in _waits(jobs, second)[0]["sentence"]
        assert jobs.prints("echo cpu tasks run") == b"cpu tasks run\n"
        assert jobs.state(first) == "QUEUED"
    found, other = jobs.ended(first), jobs.ended(second)
    assert (found["state"], other["state"]) == ("SUCCEEDED", "SUCCEEDED")
    both = jobs.cluster.client.job(first)["tasks"]
    met = [a["reason"] for task in both for a in task["attempts"] if a["reason"]["word"] == "gpu_failed"]
    assert {reason["fault"] for reason in met} == {"platform"}
    assert len(met) <= len(both), "each at most once: one that finds it out, and one that was on its way"
    assert len(other["attempts"]) == 1
    assert not any(gpu["sick"] for gpu in rig.offered())


def _waits(jobs: Jobs, job: str) -> list[dict[str, Any]]:
    return list(jobs.cluster.client.job(job)["tasks"][0]["waits"])


def test_an_image_that_asks_for_a_newer_driver_is_at_fault_itself(rig: Rig) -> None:
    """I11: it used up the retries, and the next user's image worked."""
    said = "requirement error: unsatisfied condition: cuda>=99.4, please update your driver to a newer version"
    with rig.jobs.engine.gpu_hook_does(_fails(said)):
        task = rig.jobs.task("true", resources={"gpus": 1}, retries=2)
    assert [attempt["reason"]["word"] for attempt in task["attempts"]] == ["image_bad"]
    assert "The image asks for cuda>=99.4 (its NVIDIA_REQUIRE_CUDA)" in task["reason"]["sentence"]
    assert not any(gpu["sick"] for gpu in rig.offered())


@pytest.mark.slow
def test_a_hook_that_hangs_is_found_and_cpu_tasks_go_on(
    tmp_path: Path, docker_engine: Engine, pretend_gpus: PretendGpus
) -> None:
    pretend_gpus.set([Gpu(ONE)])
    cluster = _cluster(tmp_path / "c", docker_engine, pretend_gpus, **{"worker.engine_timeout_s": 4})
    jobs = Jobs(cluster, docker_engine)
    try:
        cluster.start()
        cluster.wait_ready()
        assert jobs.prints("echo works", resources={"gpus": 1}) == b"works\n"
        with docker_engine.gpu_hook_does("while [ -e $STILL ]; do sleep 0.2; done; exit 1"):
            job = jobs.begin(a_task("echo hello", resources={"gpus": 1}))
            soon(lambda: cluster.client.nodes()[0]["gpus"][0]["sick"], within_s=60, what="the node gives no GPU")
            assert "hangs when a container is given GPUs" in str(cluster.client.nodes()[0]["conditions"])
            assert jobs.prints("echo cpu tasks run") == b"cpu tasks run\n"
            soon(lambda: jobs.state(job) == "QUEUED", within_s=30, what="it waits")
        assert jobs.ended(job, within_s=120)["state"] == "SUCCEEDED"
    finally:
        cluster.close()
        docker_engine.remove_containers()


@pytest.mark.slow
def test_an_engine_without_the_toolkit_offers_none(tmp_path: Path, pretend_gpus: PretendGpus) -> None:
    """GPU-01: a message few understood, at the start of each task."""
    pretend_gpus.set([Gpu(ONE)])
    with start_engine(gpu_hook=False) as engine:
        cluster = _cluster(tmp_path / "c", engine, pretend_gpus)
        try:
            cluster.start()
            cluster.wait_ready()
            node = cluster.client.nodes()[0]
            assert [(gpu["uuid"], gpu["sick"]) for gpu in node["gpus"]] == [(ONE, True)]
            assert any("toolkit" in condition["sentence"] for condition in node["conditions"]), node
            jobs = Jobs(cluster, engine)
            assert jobs.prints("echo cpu tasks run") == b"cpu tasks run\n"
            job = jobs.begin(a_task("true", resources={"gpus": 1}))
            soon(lambda: _waits(jobs, job), within_s=10, what="it waits")
            assert "gives out no GPU now. The GPU runtime" in _waits(jobs, job)[0]["sentence"]
            assert jobs.cluster.client.job(job)["tasks"][0]["attempts"] == []
            client = engine.client()
            # It is there while the Worker tries, which it does again and again.
            soon(
                lambda: not [i for i in client.api.images() if "probe" in str(i["RepoTags"])], within_s=60, what="tidy"
            )
            client.close()
        finally:
            cluster.close()
