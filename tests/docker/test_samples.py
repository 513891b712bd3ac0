"""What a real container used, by the kernel's counters, as its samples and its attempt tell it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.ids import AttemptId, TaskId
from headway.mount import Layout
from headway.samples.reading import read_all
from tests.docker.conftest import DOCKER_SETTINGS, Jobs, a_task
from tests.support.cluster import Cluster
from tests.support.dockerd import Engine
from tests.support.nvml import Gpu, PretendGpus
from tests.support.waiting import soon

pytestmark = pytest.mark.docker

MIB = 1 << 20
BUSY, IDLE = "GPU-11111111-aaaa-bbbb-cccc-000000000001", "GPU-22222222-aaaa-bbbb-cccc-000000000002"


def test_samples_tell_what_a_container_really_used(jobs: Jobs) -> None:
    """It holds 8 MiB in memory, writes 8 MiB, and keeps half a CPU busy, which is all that it has."""
    script = (
        "x=$(head -c 8388608 /dev/zero | tr '\\0' x); "
        "dd if=/dev/zero of=/root/f bs=1M count=8 conv=fsync ; "
        "end=$(($(date +%s) + 6)); while [ $(date +%s) -lt $end ]; do :; done; echo ${#x}"
    )
    job = jobs.begin(a_task(script))
    task = jobs.ended(job)
    assert task["state"] == "SUCCEEDED", (task["reason"], jobs.out(task, "stderr")[-500:])
    attempt = AttemptId(TaskId(job, "a"), 1)  # type: ignore[arg-type]
    file = Layout(jobs.cluster.mount).attempt(attempt) / "metrics"
    soon(file.exists, within_s=30, what="samples on the mount")
    header, samples, lost = read_all(file.read_bytes())
    assert (header.gpus, lost) == ((), 0)
    assert len(samples) >= 5
    busy = [sample.cpu_used for sample in samples[1:] if sample.cpu_used is not None]
    assert 0.2 < sum(busy) / len(busy) < 0.6, busy
    memory = [sample.memory_bytes or 0 for sample in samples]
    assert 8 * MIB < max(memory) < 64 * MIB, memory
    written = sum(sample.disk_written_bytes or 0 for sample in samples)
    assert written == 0 or written >= 8 * MIB, "0: this kernel counts no disk of containers"
    assert all(sample.network_received_bytes is not None for sample in samples)
    assert task["attempts"][0]["peak_memory_bytes"] >= 8 * MIB


@pytest.fixture
def strict(tmp_path: Path, docker_engine: Engine) -> Iterator[tuple[Jobs, PretendGpus]]:
    """A cluster with two cards, which ends tasks whose cards are idle for 4 s."""
    gpus = PretendGpus(tmp_path)
    gpus.set([Gpu(BUSY, utilisation=80, power_w=200.0, used_bytes=0), Gpu(IDLE, utilisation=2)])
    settings = {key.replace("__", "."): value for key, value in DOCKER_SETTINGS.items()}
    settings |= {"worker.docker_host": docker_engine.url, "worker.sample_every_s": 0.25}
    settings |= {"worker.gpu_idle_mode": "on", "worker.gpu_idle_for_s": 4}
    cluster = Cluster(tmp_path / "c", settings=settings, environment=gpus.environment())
    try:
        cluster.start()
        cluster.wait_ready()
        yield Jobs(cluster, docker_engine), gpus
    finally:
        cluster.close()
    docker_engine.remove_containers()


@pytest.mark.slow
def test_idle_cards_are_warned_of_twice_and_given_back(strict: tuple[Jobs, PretendGpus]) -> None:
    jobs, _ = strict
    one = {"gpus": 1}
    job = jobs.begin(a_task("sleep 12", "x", resources=one), a_task("sleep 12", "y", resources=one, retries=3))
    done = jobs.cluster.client.wait(job, timeout_s=60, poll_s=0.2)
    ends = {task["attempts"][0]["gpu_uuids"][0]: task for task in done["tasks"]}
    assert ends[BUSY]["state"] == "SUCCEEDED"
    idle = ends[IDLE]
    assert (idle["state"], idle["reason"]["word"], len(idle["attempts"])) == ("FAILED", "gpu_idle", 1)
    assert idle["reason"]["sentence"].startswith("Its GPU was used less than 5 % for 4s, so Headway ended it.")
    events = jobs.cluster.client.ask("GET", "/job-events", params={"kind": "task_warned"})["events"]
    assert {event["task"] for event in events} == {idle["name"]}
    assert [event["sentence"].split(".")[0] for event in events] == [
        "Its GPU has been used less than 5 % for 2s",
        "Its GPU has been used less than 5 % for 3s",
    ]
    said = jobs.cluster.client.log(job, idle["name"], stream="platform")
    assert said.count(b"Warning: Its GPU has been used") == 2
    use = {task: ends[task]["attempts"][0]["use"]["gpus"][0] for task in (BUSY, IDLE)}
    assert use[BUSY]["mean_utilisation"] == pytest.approx(0.8, abs=0.01)
    assert use[IDLE]["idle_s"] == pytest.approx(use[IDLE]["measured_s"])
