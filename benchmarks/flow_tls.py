"""The flow of tasks with mutual TLS between the services, beside the same without.

Both clusters are up at once and take turns, so that what else the machine does falls on both. The rate says what
people notice; the CPU time of all services a task is the same beside other programs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task

from .measure import Figure, cpu_seconds, median

TASKS = int(os.environ.get("HEADWAY_FLOW_TASKS", "1000"))
ROUNDS = int(os.environ.get("HEADWAY_FLOW_ROUNDS", "10"))
MOST_COST = 0.05


def flow_tls() -> Iterator[Figure]:
    """What mutual TLS costs of the flow's rate."""
    with tempfile.TemporaryDirectory(prefix="hwb") as folder, ExitStack() as stack:
        clusters = {
            name: stack.enter_context(
                a_cluster(Path(folder) / name, tls=tls, worker__cpus=2, worker__memory_bytes=64 << 30)
            )
            for name, tls in (("plain", False), ("TLS", True))
        }
        for cluster in clusters.values():
            _round(cluster)  # what is loaded lazily is loaded
        rates: dict[str, list[float]] = {name: [] for name in clusters}
        used_ms: dict[str, list[float]] = {name: [] for name in clusters}
        for number in range(ROUNDS):
            # Who goes first changes, so that neither always follows the other.
            for name in sorted(clusters, reverse=number % 2 == 1):
                rate, ms = _round(clusters[name])
                rates[name].append(rate)
                used_ms[name].append(ms)
    for name in clusters:
        note = f"{min(rates[name]):.0f} to {max(rates[name]):.0f} in {ROUNDS} rounds"
        yield Figure(f"flow of {TASKS} tasks, {name}: median", median(rates[name]), "tasks/s", note=note)
        yield Figure(f"  CPU time of all services a task, {name}", median(used_ms[name]), "ms")
    # Round by round: what else the machine does is about the same for both of a round.
    costs = [1 - tls / plain for tls, plain in zip(rates["TLS"], rates["plain"], strict=True)]
    yield Figure("TLS costs of the flow's rate: median", median(costs) * 100, "%", MOST_COST * 100)
    more = [tls / plain - 1 for tls, plain in zip(used_ms["TLS"], used_ms["plain"], strict=True)]
    yield Figure("TLS costs of CPU time: median", median(more) * 100, "%")


def _round(cluster: Cluster) -> tuple[float, float]:
    """Tasks a second, and milliseconds of CPU a task."""
    pids = [process.pid for process in cluster.processes.values()]
    before_s = sum(cpu_seconds(pid) for pid in pids)
    small = {"cpus": 0.01, "memory": "16MiB"}
    job = a_job(*(scripted_task(f"t{i}", resources=small) for i in range(TASKS)))
    done = cluster.client.wait(cluster.client.submit(job)["id"], timeout_s=600)
    assert done["state"] == "SUCCEEDED", done["state"]
    used_s = sum(cpu_seconds(pid) for pid in pids) - before_s
    return TASKS / (done["ended_at"] - done["submitted_at"]), used_s / TASKS * 1000
