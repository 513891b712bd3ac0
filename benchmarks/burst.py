"""Questions to a running TaskManager while 10,000 tasks are submitted, beside the same questions without them."""

from __future__ import annotations

import contextlib
import json
import random
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.waiting import soon

from . import asking, loop
from .measure import Figure, cpu_seconds, median, quantile

TASKS = 10_000
WORKERS, GPUS = 4, 8
CLIENTS = 4
GOAL_MS = 200.0
_IDLE_S = 12.0
_AFTER_S = 10.0
_OF_SERVICE = ("CheckResources", "ExplainTask", "GetQueue of 100", "GetQueue of 1000")


def burst() -> Iterator[Figure]:
    """Answers of TaskManager and of the page's calls, while tasks come as fast as they are taken and others end."""
    for jobs, size in ((TASKS, 1), (1, TASKS), (10, TASKS // 10)):
        yield from _one_burst(f"{jobs} × {size}", jobs, size)


def _one_burst(what: str, jobs: int, size: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="hwb") as folder, ExitStack() as stack:
        settings: dict[str, Any] = {
            "worker__cpus": 16,
            "worker__memory_bytes": 512 << 30,
            "worker__simulated_gpus": GPUS,
        }
        cluster = stack.enter_context(a_cluster(Path(folder), workers=WORKERS, start=False, **settings))
        late = Path(folder) / "late"
        _start(cluster, late)
        cluster.client.wait(cluster.client.submit(a_job(scripted_task()))["id"], timeout_s=60)
        answers = Path(folder) / "answers"
        stack.enter_context(_asked(cluster, answers))
        time.sleep(3.0)  # connections are made
        idle_s = time.monotonic()
        time.sleep(_IDLE_S)
        manager = cluster.processes["task_manager"].pid
        began_s, cpu_s = time.monotonic(), cpu_seconds(manager)
        _submit(cluster, jobs, size)
        taken_s = time.monotonic()
        _wait_until_queued(cluster)
        queued_s = time.monotonic()
        time.sleep(_AFTER_S)
        until_s = time.monotonic()
        cpu_s = cpu_seconds(manager) - cpu_s
        log = cluster.log("task_manager")
        time.sleep(1.0)
        idle, busy = asking.read(answers, idle_s, began_s), asking.read(answers, began_s, until_s)
        held = loop.read(late, began_s, until_s)
    failed = [answer for all_of in busy.values() for answer in all_of if answer.failure]
    yield Figure(
        f"burst of {what}: taken by HttpServer", TASKS / (taken_s - began_s), "tasks/s",
        note=f"in TaskManager's queue after {queued_s - began_s:.1f} s; {log.count('attempt.ended')} attempts ended",
    )  # fmt: skip
    yield Figure("  answers that failed", len(failed), "", 0.0, note=", ".join({a.failure for a in failed}))
    for question, all_of in busy.items():
        waits = [answer.took_s * 1000 for answer in all_of]
        alone = [answer.took_s * 1000 for answer in idle.get(question, ())] or [0.0]
        note = (
            f"median {median(waits):.1f}, longest {max(waits):.0f} of {len(waits)}; "
            f"without a burst {median(alone):.1f}, p99 {quantile(alone, 0.99):.0f}"
        )
        goal = GOAL_MS if question in _OF_SERVICE else None
        yield Figure(f"  {question}, p99", quantile(waits, 0.99), "ms", goal, note=note)
    cpu_ms, late_ms = [one.cpu_s * 1000 for one in held], [one.late_s * 1000 for one in held]
    yield Figure(
        "  TaskManager's loop, longest held by its own CPU time", max(cpu_ms, default=0.0), "ms",
        note=f"{max(late_ms, default=0.0):.0f} by the clock; in all {cpu_s / (until_s - began_s):.0%} of a core",
    )  # fmt: skip


def _start(cluster: Cluster, late: Path) -> None:
    """TaskManager with a watch on its event loop, the others as they are."""
    cluster.start(*(name for name in cluster.names if name != "task_manager"))
    config = str(cluster.folder / "headway.toml")
    with (cluster.folder / "task_manager.log").open("ab") as log:
        cluster.processes["task_manager"] = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.loop", str(late), "serve", "task_manager", "--config", config],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    cluster.wait_ready()


@contextlib.contextmanager
def _asked(cluster: Cluster, answers: Path) -> Iterator[None]:
    """Asks during the whole run, from a process of its own."""
    echo = subprocess.Popen([sys.executable, "-m", "benchmarks.asking", "echo"], stdout=subprocess.PIPE)
    try:
        assert echo.stdout is not None
        target = cluster.folder / "target.json"
        target.write_text(
            json.dumps(
                {
                    "answers": str(answers),
                    "token": (cluster.folder / "token").read_text(),
                    "task_manager": cluster.address("task_manager"),
                    "echo": f"127.0.0.1:{int(echo.stdout.readline())}",
                    "url": cluster.url,
                    "user_token": cluster.client.profile.token,
                }
            )
        )
        asker = subprocess.Popen([sys.executable, "-m", "benchmarks.asking", str(target)], stdin=subprocess.PIPE)
        try:
            yield
        finally:
            assert asker.stdin is not None
            asker.stdin.close()
            asker.wait()
    finally:
        echo.terminate()
        echo.wait()


def _submit(cluster: Cluster, jobs: int, size: int) -> None:
    """All jobs, by several clients at once."""
    chance = random.Random(1)
    headers = {"Authorization": f"Bearer {cluster.client.profile.token}", "Content-Type": "application/json"}
    texts = [a_job(*(_task(f"t{i}", chance) for i in range(size)), name=f"burst {n}") for n in range(jobs)]
    texts.reverse()
    here = threading.local()

    def submit(text: bytes) -> None:
        if not hasattr(here, "http"):
            here.http = httpx.Client(base_url=f"{cluster.url}/api/v1", headers=headers, timeout=60)
        here.http.post("/jobs", content=text, headers={"Idempotency-Key": secrets.token_hex(8)}).raise_for_status()

    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(submit, texts))


def _task(name: str, chance: random.Random) -> dict[str, Any]:
    """Most ask for one GPU; those that start end after some seconds, so that passes over the long queue go on."""
    gpus = chance.choice([0, 1, 1, 1, 1, 2, 4])
    resources = {"cpus": chance.choice([1, 2]), "memory": "1GiB"} | ({"gpus": gpus} if gpus else {})
    minutes = chance.randint(1, 600)
    return scripted_task(name, run_s=chance.uniform(2, 10), resources=resources, timeout=f"{minutes}m")


def _wait_until_queued(cluster: Cluster) -> None:
    """Until TaskManager has them all."""
    here = cluster.log

    def queued() -> bool:
        return here("task_manager").count("task.queued") >= TASKS

    soon(queued, within_s=120, every_s=0.5, what="all tasks are queued")
