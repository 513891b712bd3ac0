"""What a real container used, by the kernel's counters, as its samples and its attempt tell it."""

from __future__ import annotations

import pytest

from headway.ids import AttemptId, TaskId
from headway.mount import Layout
from headway.samples.reading import read_all
from tests.docker.conftest import Jobs, a_task
from tests.support.waiting import soon

pytestmark = pytest.mark.docker

MIB = 1 << 20


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
