"""What sampling an attempt with 8 GPUs every second costs, by the real bindings on the tests' stand-in library."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from headway.clock import SystemClock
from headway.ids import AttemptId, TaskId, new_job_id
from headway.samples.reading import read_all
from tests.support.nvml import GIB, Gpu, PretendGpus
from worker.logs.copier import LogCopier
from worker.machine.cgroups import ContainerGroup, Hierarchies, counters_of, folders_of
from worker.machine.gpus import NvmlGpus
from worker.ports import ContainerCounters, Runtime
from worker.sampling.sampler import Sampler, Watched

from .measure import Figure

GPUS = 8
ROUNDS = 40
GOAL_PERCENT = 1.0
_HOUR_S = 3_600


def sampling() -> Iterator[Figure]:
    """CPU of a process that does nothing but sample, of each second."""
    with tempfile.TemporaryDirectory(prefix="hwb") as folder:
        pretend = PretendGpus(Path(folder))
        pretend.set([Gpu(f"GPU-{number}", used_bytes=GIB, utilisation=50, power_w=250.0) for number in range(GPUS)])
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.sampling", folder],
            env={**os.environ, **pretend.environment()},
            stdout=subprocess.PIPE,
            check=True,
        )
    found = json.loads(done.stdout)
    note = f"{found['cpu_s'] / ROUNDS * 1000:.2f} ms a round; an hour on disk: {found['bytes'] * _HOUR_S / 1e6:.2f} MB"
    share = 100 * found["cpu_s"] / found["wall_s"]
    yield Figure(f"sampling: {GPUS} GPUs every second, of a core", share, "%", GOAL_PERCENT, note=note)


class _OwnGroup:
    """A runtime whose one container is the group of this process, so that the kernel's real files are read."""

    def __init__(self) -> None:
        hierarchies = Hierarchies.of_machine()
        found = folders_of(Path("/proc/self/cgroup").read_text().splitlines(), [], hierarchies.mounts)
        pid, unified = os.getpid(), found.get("")
        if "memory" in found:
            self._group = ContainerGroup(
                pid, found.get("cpuacct"), found.get("memory"), found.get("blkio"), own_network=True
            )
        else:
            self._group = ContainerGroup(pid, unified, unified, unified, unified=True, own_network=True)

    def counters(self, attempt: AttemptId) -> ContainerCounters | None:
        return counters_of(self._group)


async def _sample(folder: Path) -> dict[str, Any]:
    clock = SystemClock()
    attempt = AttemptId(TaskId(new_job_id(time.time()), "train"), 1)
    gpus = NvmlGpus(outside_memory_bytes=512 << 20)
    copier = LogCopier(clock, lambda: "", every_s=15.0)
    watched = Watched(attempt, clock.now(), tuple(f"GPU-{number}" for number in range(GPUS)))
    sampler = Sampler(
        folder / "attempts",
        cast(Runtime, _OwnGroup()),
        gpus,
        clock,
        every_s=1.0,
        live=lambda: [watched],
        copier=copier,
        target=lambda attempt: folder / "mount" / attempt.folder,
    )
    loops = [asyncio.create_task(sampler.run()), asyncio.create_task(copier.run())]
    await asyncio.sleep(2.5)
    file = sampler.file_of(attempt)
    began, before_s, size = time.monotonic(), _cpu_s(), file.stat().st_size
    await asyncio.sleep(ROUNDS)
    wall_s, cpu_s, grown = time.monotonic() - began, _cpu_s() - before_s, file.stat().st_size - size
    last = read_all(file.read_bytes())[1][-1]
    assert [gpu.utilisation for gpu in last.gpus] == [0.5] * GPUS, "they were read"
    assert last.cpu_used is not None
    for loop in loops:
        loop.cancel()
    await copier.close()
    await sampler.close()
    await gpus.close()
    return {"wall_s": wall_s, "cpu_s": cpu_s, "bytes": grown / wall_s}


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_sample(Path(sys.argv[1])))))
