"""1,000 simulated Workers with 8 GPUs each: what their heartbeats and status cost the managers, and restarts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.cluster import Cluster, a_cluster
from tests.support.waiting import soon

from .measure import Figure, cpu_seconds, pss_bytes

GPUS = 8
MANAGERS = ("task_manager", "resource_manager", "job_manager", "httpserver")


def many_workers() -> Iterator[Figure]:
    """Heartbeats, polls, and the restart of each manager that Workers call."""
    count = int(os.environ.get("HEADWAY_WORKERS", "1000"))
    measured_s = float(os.environ.get("HEADWAY_WORKERS_S", "60"))
    with (
        tempfile.TemporaryDirectory(prefix="hwb") as folder,
        a_cluster(Path(folder), workers=(), start=False) as cluster,
    ):
        cluster.start()
        cluster.wait_ready()
        out = Path(folder) / "counts"
        config = str(Path(folder) / "headway.toml")
        with (Path(folder) / "simulated.log").open("wb") as log:
            workers = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.simulated_workers", config, str(count), str(GPUS), str(out)],
                stdout=log, stderr=log,
            )  # fmt: skip
        try:
            soon(lambda: _ready(cluster) == count, within_s=180, every_s=2.0, what=f"{count} nodes are READY")
            time.sleep(20)
            yield from _steady(cluster, count, measured_s)
            yield from _restart(cluster, "task_manager", "answered", out, count)
            yield from _restart(cluster, "resource_manager", "polled", out, count)
            assert workers.poll() is None, (Path(folder) / "simulated.log").read_text()[-3000:]
            assert _ready(cluster) == count
        finally:
            workers.kill()
            workers.wait()


def _ready(cluster: Cluster) -> int:
    return sum(node["health"] == "READY" for node in cluster.client.nodes())


def _steady(cluster: Cluster, count: int, measured_s: float) -> Iterator[Figure]:
    pids = {name: cluster.processes[name].pid for name in MANAGERS}
    began, before = time.monotonic(), {name: cpu_seconds(pid) for name, pid in pids.items()}
    time.sleep(measured_s)
    took_s = time.monotonic() - began
    for name, pid in pids.items():
        used = (cpu_seconds(pid) - before[name]) / took_s
        goal = 0.5 if name in ("task_manager", "resource_manager") else None
        memory = f"{pss_bytes(pid) / 2**20:.0f} MiB"
        yield Figure(f"many workers: {count} x {GPUS} GPUs, CPU of {name}", used, "cores", goal, note=memory)


def _restart(cluster: Cluster, name: str, calls: str, out: Path, count: int) -> Iterator[Figure]:
    """A manager is killed, is away for some seconds, and comes back."""
    cluster.kill9(name)
    time.sleep(10)
    seen = len(_seconds(out))
    cluster.start(name)
    began = time.monotonic()

    def all_back() -> bool:
        return sum(second.get(calls, 0) for second in _seconds(out)[seen:]) >= count and _ready_again(cluster) == count

    soon(all_back, within_s=120, every_s=1.0, what=f"all workers are back after the restart of {name}")
    back_s = time.monotonic() - began
    time.sleep(10)
    after = _seconds(out)[seen:]
    peak = max(second.get(calls, 0) / max(1.0, second["span_s"]) for second in after)
    used_s = cpu_seconds(cluster.processes[name].pid)
    tries = max(
        (second.get("heartbeats", 0) + second.get("registered", 0)) / max(1.0, second["span_s"]) for second in after
    )
    yield Figure(f"many workers: {name} restarted: all are back after", back_s, "s")
    yield Figure(
        f"many workers: {name} restarted: most calls in a second", peak, "calls", 0.75 * count,
        note=f"{tries:.0f} tries of workers at most, {used_s:.1f} s of its CPU",
    )  # fmt: skip


def _ready_again(cluster: Cluster) -> int:
    try:
        return _ready(cluster)
    except Exception:  # a manager that comes back refuses for a moment
        return 0


def _seconds(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines() if line.endswith("}")]
