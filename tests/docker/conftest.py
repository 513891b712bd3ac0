"""A whole Headway on the tests' engine, for the tests of jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster, a_cluster, a_job
from tests.support.dockerd import Engine
from tests.support.images import BUSYBOX
from tests.support.waiting import soon


def a_task(command: str | Sequence[str], name: str = "a", **fields: Any) -> dict[str, Any]:
    """A small task on the busybox image."""
    resources = {"cpus": 0.5, "memory": "64MiB", **fields.pop("resources", {})}
    words = command if isinstance(command, str) else list(command)
    return {"name": name, "image": BUSYBOX, "command": words, "timeout": "1m", "resources": resources, **fields}


@dataclass(frozen=True)
class Jobs:
    """Jobs on a cluster with real containers."""

    cluster: Cluster
    engine: Engine

    def begin(self, *tasks: dict[str, Any], **fields: Any) -> str:
        """Submit a job of these tasks; its id."""
        return str(self.cluster.client.submit(a_job(*tasks, **fields))["id"])

    def run(self, *tasks: dict[str, Any], within_s: float = 60, **fields: Any) -> dict[str, Any]:
        """Submit and wait; the job."""
        return self.cluster.client.wait(self.begin(*tasks, **fields), timeout_s=within_s, poll_s=0.1)

    def task(self, command: str | Sequence[str], within_s: float = 60, **fields: Any) -> dict[str, Any]:
        """Run one task; the task, with its job's id as ``job``."""
        job = self.run(a_task(command, **fields), within_s=within_s)
        return {**job["tasks"][0], "job": job["id"]}

    def out(self, task: dict[str, Any], stream: str = "stdout") -> bytes:
        """What it printed."""
        return self.cluster.client.log(task["job"], task["name"], stream=stream)

    def prints(self, command: str | Sequence[str], **fields: Any) -> bytes:
        """What a task prints that ends well."""
        task = self.task(command, **fields)
        assert task["state"] == "SUCCEEDED", (task["reason"], self.out(task, "stderr")[-500:])
        return self.out(task)

    def until_it_prints(self, job: str, text: bytes, task: str = "a", within_s: float = 30) -> None:
        """Wait until a running task has printed that."""
        soon(
            lambda: self.state(job) == "RUNNING" and text in self.cluster.client.log(job, task),
            within_s=within_s,
            every_s=0.1,
            what=f"{text!r} in the log of {task}",
        )

    def state(self, job: str) -> str:
        """Of its first task."""
        return str(self.cluster.client.job(job)["tasks"][0]["state"])

    def ended(self, job: str, within_s: float = 60) -> dict[str, Any]:
        """Wait for the end; the first task."""
        done = self.cluster.client.wait(job, timeout_s=within_s, poll_s=0.1)
        return {**done["tasks"][0], "job": job}

    def containers(self) -> list[str]:
        """Names of all containers of Headway on the engine."""
        client = self.engine.client()
        try:
            found = client.api.containers(all=True, filters={"label": "headway.attempt"})
            return [entry["Names"][0].removeprefix("/") for entry in found]
        finally:
            client.close()

    def none_is_left(self, within_s: float = 20) -> None:
        """Wait until every container is removed."""
        soon(lambda: not self.containers(), within_s=within_s, every_s=0.2, what="no container is left")

    def home(self, account: str = "admin") -> Path:
        """An account's personal space."""
        return self.cluster.mount / "homes" / account


DOCKER_SETTINGS: dict[str, Any] = {"worker__runtime": "docker", "worker__cpus": 8, "worker__memory_bytes": 16 << 30}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory, docker_engine: Engine) -> Iterator[Jobs]:
    """A cluster with one worker on the tests' engine, for all tests of a module."""
    folder = tmp_path_factory.mktemp("jobs")
    with a_cluster(
        folder,
        worker__docker_host=docker_engine.url,
        worker__pull_images=False,
        httpserver__ask_registries=False,
        worker__pids_limit=128,
        **DOCKER_SETTINGS,
    ) as cluster:
        yield Jobs(cluster, docker_engine)
    docker_engine.remove_containers()
