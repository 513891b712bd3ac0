"""The five processes with the scripted runtime: idle cost, flow of tasks, a very large submit."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.cluster import a_cluster, a_job, scripted_task

from .measure import Figure, bare_commits_per_s, cpu_seconds, median, pss_bytes, quantile

FLOW_TASKS = 2_000
BIG_TASKS = 10_000


def idle() -> Iterator[Figure]:
    """All five together, nothing to do."""
    with tempfile.TemporaryDirectory(prefix="hwb") as folder, a_cluster(Path(folder)) as cluster:
        # One job, so that everything that is loaded lazily is loaded.
        cluster.client.wait(cluster.client.submit(a_job(scripted_task()))["id"], timeout_s=60)
        time.sleep(15)
        pids = {name: p.pid for name, p in cluster.processes.items()}
        began, before = time.monotonic(), {n: cpu_seconds(p) for n, p in pids.items()}
        time.sleep(60)
        took = time.monotonic() - began
        used = {n: (cpu_seconds(p) - before[n]) / took * 100 for n, p in pids.items()}
        pss = {n: pss_bytes(p) / 2**20 for n, p in pids.items()}
    note = ", ".join(f"{n} {v:.2f}" for n, v in used.items())
    yield Figure("idle: CPU of all five", sum(used.values()), "% of a core", 0.8, note=note)
    note = ", ".join(f"{n} {v:.0f}" for n, v in pss.items())
    yield Figure("idle: memory of all five (PSS)", sum(pss.values()), "MiB", 320.0, note=note)


def flow() -> Iterator[Figure]:
    """2,000 tasks from submit to all done, durable."""
    with (
        tempfile.TemporaryDirectory(prefix="hwb") as folder,
        a_cluster(Path(folder), worker__cpus=2, worker__memory_bytes=64 << 30) as cluster,
    ):
        bare = bare_commits_per_s(Path(folder))
        small = {"cpus": 0.01, "memory": "16MiB"}
        pids = {name: process.pid for name, process in cluster.processes.items()}
        for _ in range(2):
            before_s = {name: cpu_seconds(pid) for name, pid in pids.items()}
            job = a_job(*(scripted_task(f"t{i}", resources=small) for i in range(FLOW_TASKS)))
            done = cluster.client.wait(cluster.client.submit(job)["id"], timeout_s=300)
        assert done["state"] == "SUCCEEDED"
        used_ms = {name: (cpu_seconds(pid) - before_s[name]) / FLOW_TASKS * 1000 for name, pid in pids.items()}
        rate = FLOW_TASKS / (done["ended_at"] - done["submitted_at"])
    yield Figure(f"flow: {FLOW_TASKS} tasks, five processes, SQLite", rate, "tasks/s", 300.0, at_most=False)
    yield Figure("flow: per bare durable commit of this disk", rate / bare, "ratio", note=f"{bare:.0f} commits/s")
    note = ", ".join(f"{name} {ms:.2f}" for name, ms in used_ms.items())
    yield Figure("flow: CPU time of all services a task", sum(used_ms.values()), "ms", note=note)


def big_submit() -> Iterator[Figure]:
    """A job of 10,000 tasks, as JSON and as YAML of 1.5 MB, beside other calls."""
    import yaml

    needs = {i: [f"task-{i - 1}"] if i % 10 else [] for i in range(BIG_TASKS)}
    tasks = [
        scripted_task(f"task-{i}", run_s=3600, needs=needs[i], resources={"cpus": 64})
        | {"command": f"python3 train.py --fold {i}\n"}
        for i in range(BIG_TASKS)
    ]
    document = {"version": 1, "name": "big", "tasks": tasks}
    texts = {
        "application/json": json.dumps(document).encode(),
        "application/yaml": yaml.dump(document, Dumper=yaml.CDumper, sort_keys=False).encode(),
    }
    with (
        tempfile.TemporaryDirectory(prefix="hwb") as folder,
        a_cluster(Path(folder), worker__cpus=64, worker__memory_bytes=8 << 40) as cluster,
    ):
        cluster.client.wait(cluster.client.submit(a_job(scripted_task()))["id"], timeout_s=60)
        for media, text in texts.items():
            kind = media.rpartition("/")[2].upper()
            stop = threading.Event()
            others: list[float] = []

            def ask(others: list[float] = others, stop: threading.Event = stop) -> None:
                while not stop.is_set():
                    began = time.monotonic()
                    cluster.client._send("GET", "/api/v1/jobs", params={"limit": 20})
                    others.append(time.monotonic() - began)
                    time.sleep(0.01)

            asker = threading.Thread(target=ask)
            asker.start()
            time.sleep(0.5)
            began = time.monotonic()
            job_id = cluster.client._json("POST", "/jobs", content=text, headers={"Content-Type": media}, timeout=60.0)[
                "id"
            ]
            took = time.monotonic() - began
            stop.set()
            asker.join()
            size = f"{len(text) / 1e6:.1f} MB"
            yield Figure(f"submit of {BIG_TASKS} tasks as {kind}", took, "s", 3.0, note=size)
            yield Figure(f"  other calls meanwhile, p99 of {len(others)}", quantile(others, 0.99) * 1000, "ms", 100.0)
            yield Figure("  other calls meanwhile, median", median(others) * 1000, "ms")
            cluster.client.act("cancel", job_id)
            cluster.client.wait(job_id, timeout_s=120)


def cores() -> int:
    return len(os.sched_getaffinity(0))
