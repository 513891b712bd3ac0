"""An image on its way to the machines: uploaded, pinned at submit, brought while its task waits, loaded once for all.

Five services, two machines with an engine each, one shared mount. Everything is asserted by what happened in which
order, nothing by how long it took.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.docker.conftest import DOCKER_SETTINGS
from tests.support.cluster import Cluster, a_job
from tests.support.dockerd import Engine, start_engine
from tests.support.images import BUSYBOX, Entry, import_busybox
from tests.support.waiting import soon

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(300)]

_NOT_HERE_YET = "is not on this machine yet"


@dataclass(frozen=True)
class Machines:
    """Two of them, n1 and n2, and what their engines say."""

    cluster: Cluster
    engines: dict[str, Engine]
    began: float

    def loads(self, node: str, digest: str) -> list[float]:
        """When the node's engine took this image in, epoch seconds."""
        client = self.engines[node].client()
        try:
            events = client.api.events(
                since=int(self.began), until=int(time.time()) + 1, decode=True, filters={"type": "image"}
            )
            return [e["timeNano"] / 1e9 for e in events if e["Action"] == "load" and e["Actor"]["ID"] == digest]
        finally:
            client.close()

    def journal(self, node: str) -> dict[str, tuple[str, float]]:
        """Of the Worker's images: key to id and the moment at which its fetch began."""
        with closing(sqlite3.connect(f"file:{self.folder(node)}/worker.db?mode=ro", uri=True)) as db:
            return {
                key: (image_id, at) for key, image_id, at in db.execute("SELECT key, image_id, brought_at FROM images")
            }

    def has_brought(self, node: str, digest: str) -> bool:
        """Whether its fetch is over."""
        return self.journal(node).get(digest, ("", 0.0))[0] == digest

    def folder(self, node: str) -> Path:
        return self.cluster.folder / "workers" / node

    def notes(self, job: str, task: str) -> str:
        """The platform's log of a task's first attempt."""
        path = self.cluster.mount / "jobs" / job / task / "1" / "platform.log"
        return soon(lambda: path.is_file() and path.read_text(), within_s=30, what=f"{path} is on the mount")


@pytest.fixture
def machines(tmp_path: Path, docker_engine: Engine) -> Iterator[Machines]:
    began = time.time()
    with start_engine() as second:
        engines = {"n1": docker_engine, "n2": second}
        cluster = Cluster(
            tmp_path,
            tuple(engines),
            {key.replace("__", "."): value for key, value in DOCKER_SETTINGS.items()}
            | {"worker.pull_images": False, "resource_manager.poll_s": 1},
            {node: {"worker.docker_host": engine.url} for node, engine in engines.items()},
        )
        try:
            cluster.start()
            cluster.wait_ready()
            yield Machines(cluster, engines, began)
        finally:
            cluster.close()
            docker_engine.remove_containers()


def until(name: str) -> str:
    """A script that runs until that file is in its home."""
    return f"echo up; until [ -e /root/nfs/{name} ]; do sleep 0.1; done"


def a_task(name: str, command: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "command": command, "timeout": "5m", "resources": {"cpus": 8, "memory": "64MiB"}, **fields}


def test_an_image_is_loaded_before_its_task_is_placed_and_once_for_ten(machines: Machines, tmp_path: Path) -> None:
    cluster, client = machines.cluster, machines.cluster.client
    home = cluster.mount / "homes" / "admin"
    archive = tmp_path / "box.tar"
    docker = machines.engines["n2"].client()
    try:
        # One that neither engine has, once it is archived.
        name = import_busybox(docker, "headway-test/ahead:1", more=[Entry("word", os.urandom(8).hex().encode())])
        with archive.open("wb") as file:
            file.writelines(docker.images.get(name).save())
        docker.images.remove(name)
    finally:
        docker.close()
    pushed = cluster.headway("images", "push", "box:1", "--from", str(archive))
    assert pushed.returncode == 0, pushed.stderr.decode()
    digest = pushed.stdout.decode().split()[-1]

    # The only machine that could run it is busy.
    client.node_action("n2", "cordon")
    busy = client.submit(a_job(a_task("busy", until("done"), image=BUSYBOX)))["id"]
    soon(lambda: client.job(busy)["tasks"][0]["state"] == "RUNNING", within_s=60, every_s=0.2, what="n1 is busy")
    job = client.submit(a_job(a_task("first", f"cat /word; {until('first-done')}", image="admin/box:1")))["id"]
    (task,) = client.job(job)["tasks"]
    assert (task["state"], task["image_digest"], task["image_source"]) == ("QUEUED", digest, "market")
    assert f"image admin/box:1 is {digest}" in cluster.headway("show", job).stdout.decode()
    soon(lambda: machines.has_brought("n1", digest), within_s=60, every_s=0.2, what="n1 has brought it meanwhile")
    (task,) = client.job(job)["tasks"]
    assert (task["state"], task["attempts"]) == ("QUEUED", [])
    (loaded_at,) = machines.loads("n1", digest)
    assert machines.loads("n2", digest) == [], "no task can run there now"

    # It starts without paying for it.
    (home / "done").touch()
    soon(lambda: client.job(job)["tasks"][0]["state"] == "RUNNING", within_s=60, every_s=0.2, what="it starts")
    (attempt,) = soon(lambda: client.job(job)["tasks"][0]["attempts"], within_s=30, what="its attempt is seen")
    image_id, fetched_at = machines.journal("n1")[digest]
    assert image_id == digest
    assert fetched_at < loaded_at < attempt["placed_at"]
    assert attempt["node_id"] == "n1"

    # n1 is full; ten tasks meet on n2, where the image never was.
    client.node_action("n2", "uncordon")
    small = {"image": "admin/box:1", "resources": {"cpus": 0.5, "memory": "64MiB"}}
    ten = client.submit(a_job(*(a_task(f"t{number}", "cat /word", **small) for number in range(10))))["id"]
    done = client.wait(ten, timeout_s=120, poll_s=0.2)
    assert done["state"] == "SUCCEEDED", [t["reason"] for t in done["tasks"]]
    assert {t["attempts"][-1]["node_id"] for t in done["tasks"]} == {"n2"}
    assert {t["image_digest"] for t in done["tasks"]} == {digest}
    assert len(machines.loads("n2", digest)) == 1
    assert any(_NOT_HERE_YET in machines.notes(ten, t["name"]) for t in done["tasks"]), "some have waited for the load"

    (home / "first-done").touch()
    ended = client.wait(job, timeout_s=60, poll_s=0.2)
    assert (ended["state"], [a["image_id"] for a in ended["tasks"][0]["attempts"]]) == ("SUCCEEDED", [digest])
    assert client.log(job, "first").removesuffix(b"up\n") == client.log(ten, "t0")
    assert _NOT_HERE_YET not in machines.notes(job, "first")
    assert len(machines.loads("n1", digest)) == 1
