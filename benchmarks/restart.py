"""A manager that is killed and started again, with 10,000 tasks queued and with none."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.waiting import soon

from .measure import Figure, median

TASKS = 10_000
ROUNDS = 3
GOAL_S = 2.0
_WORKERS, _SLOTS = 4, 8
_RUN_S = 2.0
_MANAGERS = ("task_manager", "job_manager", "resource_manager")


def restart() -> Iterator[Figure]:
    """From the start of the process to the next dispatch of a task; the tasks of before run on meanwhile."""
    alone: dict[str, list[float]] = {}
    loaded: dict[str, list[float]] = {}
    ready: dict[str, list[float]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="hwb") as folder,
        a_cluster(Path(folder), workers=_WORKERS, worker__cpus=_SLOTS, worker__memory_bytes=64 << 30) as cluster,
    ):
        small = {"cpus": 1, "memory": "16MiB"}
        for _ in range(ROUNDS):
            for name in _MANAGERS:
                # Some hundreds keep all slots in use for as long as a round takes, and are no queue to speak of.
                job = _submit(cluster, _WORKERS * _SLOTS * 4, small)
                alone.setdefault(name, []).append(_one_round(cluster, name, {}))
                cluster.client.wait(job, timeout_s=120)
        _submit(cluster, TASKS, small)
        soon(lambda: cluster.client.queue()["total_waiting"] > TASKS * 0.9, within_s=120, what="all are queued")
        for _ in range(ROUNDS):
            for name in _MANAGERS:
                loaded.setdefault(name, []).append(_one_round(cluster, name, ready))
        left = cluster.client.queue()["total_waiting"]
    for name in _MANAGERS:
        yield Figure(
            f"restart of {name} with {TASKS} queued: next dispatch", max(loaded[name]), "s", GOAL_S,
            note=f"median {median(loaded[name]):.2f} of {ROUNDS}; it is ready after {median(ready[name]):.2f}",
        )  # fmt: skip
        yield Figure("  with a short queue, slowest", max(alone[name]), "s", note=f"median {median(alone[name]):.2f}")
    yield Figure("  tasks still queued at the end", left, "tasks", TASKS / 2, at_most=False)


def _submit(cluster: Cluster, count: int, resources: dict[str, object]) -> str:
    tasks = (scripted_task(f"t{number}", run_s=_RUN_S, resources=resources) for number in range(count))
    job = str(cluster.client.submit(a_job(*tasks))["id"])
    soon(lambda: cluster.client.queue()["total_running"] == _WORKERS * _SLOTS, within_s=120, what="all slots are used")
    return job


def _one_round(cluster: Cluster, name: str, ready: dict[str, list[float]]) -> float:
    time.sleep(1.0)
    cluster.kill9(name)
    placed, own = cluster.folder / "task_manager.log", cluster.folder / f"{name}.log"
    seen, said = placed.stat().st_size, own.stat().st_size
    began_s = time.monotonic()
    cluster.start(name)
    first_s = ready_s = 0.0
    while not (first_s and ready_s):
        now_s = time.monotonic() - began_s
        first_s = first_s or (now_s if _since(placed, seen, b"attempt.placed") else 0.0)
        ready_s = ready_s or (now_s if _since(own, said, b"service.ready") else 0.0)
        assert now_s < 120.0, f"{name} did not go on"
        time.sleep(0.01)
    ready.setdefault(name, []).append(ready_s)
    cluster.wait_ready()
    return first_s


def _since(log: Path, offset: int, word: bytes) -> bool:
    with log.open("rb") as file:
        file.seek(offset)
        return word in file.read()
