"""A cluster at whose door people mean harm, and what must hold there after each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from headway.client import Client
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.raw_http import RawAnswer

API = "/api/v1"
SCRIPT = "<script>document.title='gone'</script><svg onload=alert(1)>"
MIB = 1 << 20


@contextmanager
def a_watched_cluster(folder: Path) -> Iterator[Cluster]:
    """At its end it still does its work."""
    with a_cluster(folder, worker__cpus=16, worker__memory_bytes=64 << 30) as running:
        yield running
        done = running.client.wait(running.client.submit(a_job(scripted_task()))["id"], timeout_s=30)
        assert done["state"] == "SUCCEEDED", "after all of this it does its work"


@contextmanager
def nothing_fails_inside(cluster: Cluster) -> Iterator[None]:
    """The services live, and nothing was an error inside."""
    before = {name: len(cluster.log(name)) for name in cluster.names}
    yield
    for name, process in cluster.processes.items():
        assert process.poll() is None, f"{name} ended\n{cluster.log(name)[-3000:]}"
        news = cluster.log(name)[before[name] :]
        assert "Traceback" not in news, f"{name}\n{news[-4000:]}"
        assert "http.failed" not in news, f"{name}\n{news[-4000:]}"


def a_job_with_secrets(ann: Client) -> str:
    """Ended, with a log, a secret in its environment, and script in all that may hold text."""
    task = scripted_task("t", env={"SECRET": "s3cr3t-of-ann", "HEADWAY_SCRIPTED_OUTPUT": f"{SCRIPT}\n" * 100})
    job_id = str(ann.submit(a_job(task, name=SCRIPT))["id"])
    assert ann.wait(job_id, timeout_s=30)["state"] == "SUCCEEDED"
    return job_id


def memory_of(cluster: Cluster, service: str = "httpserver") -> int:
    """Bytes of a service and its children."""
    process = psutil.Process(cluster.processes[service].pid)
    total = 0
    for one in (process, *process.children(recursive=True)):
        try:
            total += one.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def assert_problem(answer: RawAnswer, *want: int) -> None:
    assert answer.status in (want or (400, 401, 403, 404, 405, 409, 413, 414, 415, 416, 422, 431)), answer
    if answer.header("content-type") == [b"application/problem+json"]:
        assert json.loads(answer.body)["request_id"]
