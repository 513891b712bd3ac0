"""Jobs of one task, submitted one by one by a few clients, beside questions to the same page.

The clients take as little as a client can: one kept connection each and bodies that were made before. So what is
measured is Headway. The CPU time of each service is told a job; unlike the rate it is the same beside other programs.
"""

from __future__ import annotations

import http.client
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.waiting import soon

from .measure import Figure, bare_commits_per_s, cpu_seconds, median, quantile

JOBS = int(os.environ.get("HEADWAY_SUBMITS_JOBS", "3000"))
CLIENTS = 4
RATE_GOAL = 100.0
QUERY_GOAL_MS = 200.0
_QUERIES = ("/queue?limit=50", "/jobs?limit=20", "/jobs?owner=me&limit=20", "/nodes")
_EVERY_S = 0.1


def submits() -> Iterator[Figure]:
    """Jobs a second while most of them wait, and what the page's own questions take meanwhile."""
    with (
        tempfile.TemporaryDirectory(prefix="hwb") as folder,
        a_cluster(Path(folder), worker__cpus=4, worker__memory_bytes=64 << 30) as cluster,
    ):
        bare = bare_commits_per_s(Path(folder))
        _submit(cluster, 100)  # what is loaded lazily is loaded
        pids = {name: process.pid for name, process in cluster.processes.items()}
        before_s = {name: cpu_seconds(pid) for name, pid in pids.items()}
        waits: dict[str, list[float]] = {path: [] for path in _QUERIES}
        with _asked(cluster, waits):
            began_s = time.monotonic()
            taken_s = _submit(cluster, JOBS)
            rate = JOBS / (time.monotonic() - began_s)
        soon(
            lambda: cluster.log("task_manager").count("task.queued") >= JOBS + 100,
            within_s=120, every_s=0.5, what="all tasks are queued",
        )  # fmt: skip
        used_ms = {name: (cpu_seconds(pid) - before_s[name]) / JOBS * 1000 for name, pid in pids.items()}
    yield Figure(
        f"submits: {JOBS} jobs of one task by {CLIENTS} clients", rate, "jobs/s", RATE_GOAL, at_most=False,
        note=f"median {median(taken_s) * 1000:.1f} ms, p99 {quantile(taken_s, 0.99) * 1000:.0f} ms",
    )  # fmt: skip
    yield Figure("  per bare durable commit of this disk", rate / bare, "ratio", note=f"{bare:.0f} commits/s")
    note = ", ".join(f"{name} {ms:.2f}" for name, ms in used_ms.items())
    yield Figure("  CPU time of all services a job", sum(used_ms.values()), "ms", note=note)
    for path, all_of in waits.items():
        took_ms = [wait * 1000 for wait in all_of]
        note = f"median {median(took_ms):.1f}, longest {max(took_ms):.0f} of {len(took_ms)}"
        yield Figure(f"  GET {path} meanwhile, p99", quantile(took_ms, 0.99), "ms", QUERY_GOAL_MS, note=note)


def _submit(cluster: Cluster, jobs: int) -> list[float]:
    """How long each submit took, in seconds."""
    headers = _headers(cluster) | {"Content-Type": "application/json"}
    # All CPUs of the node: four run, the rest waits.
    task = scripted_task(run_s=2, resources={"cpus": 1, "memory": "1GiB"}, timeout="10m")
    texts = [a_job(task, name=f"submit {number}") for number in range(jobs)]
    here = threading.local()
    took_s: list[float] = []

    def submit(text: bytes) -> None:
        if not hasattr(here, "connection"):
            here.connection = _connection(cluster)
        began_s = time.monotonic()
        here.connection.request("POST", "/api/v1/jobs", text, headers)
        answer = here.connection.getresponse()
        body = answer.read()
        assert answer.status == 201, body
        took_s.append(time.monotonic() - began_s)

    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(submit, texts))
    return took_s


class _asked:
    """Asks each question every so often until left."""

    def __init__(self, cluster: Cluster, waits: dict[str, list[float]]) -> None:
        self._cluster = cluster
        self._waits = waits
        self._gone = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(path,)) for path in waits]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._gone.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, path: str) -> None:
        connection, headers = _connection(self._cluster), _headers(self._cluster)
        while not self._gone.wait(_EVERY_S):
            began_s = time.monotonic()
            connection.request("GET", f"/api/v1{path}", headers=headers)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            self._waits[path].append(time.monotonic() - began_s)


def _connection(cluster: Cluster) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", cluster.http_port, timeout=60)


def _headers(cluster: Cluster) -> dict[str, str]:
    return {"Authorization": f"Bearer {cluster.client.profile.token}"}
