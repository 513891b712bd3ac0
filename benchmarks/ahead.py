"""Starts of queued tasks: with an image that was fetched while they waited, and with one that was there before."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.cluster import Cluster, a_job
from tests.support.dockerd import Engine
from tests.support.images import BUSYBOX, Entry, import_busybox
from tests.support.waiting import soon

from .containers import a_docker_cluster
from .measure import Figure, median

TURNS = 10
IMAGE_BYTES = 32 << 20


def ahead() -> Iterator[Figure]:
    """The machine is full; when it gets free, the queued task starts."""
    brought: list[float] = []
    there: list[float] = []
    with a_docker_cluster() as (cluster, engine), tempfile.TemporaryDirectory(prefix="hwb") as spare:
        # In turns, so that a noisy moment of the machine meets both.
        for number in range(TURNS + 1):
            name, digest = _upload(cluster, engine, Path(spare), number)
            prefetched = _queued(cluster, name, digest)
            loaded = _queued(cluster, BUSYBOX)
            if number:  # the first is to warm up
                brought.append(prefetched)
                there.append(loaded)
    yield Figure("ahead: machine free to process start, image came meanwhile", median(brought), "s")
    yield Figure("ahead: the same, image was there", median(there), "s")
    yield Figure("ahead: ratio", median(brought) / median(there), "ratio", 1.1, note=f"{IMAGE_BYTES >> 20} MiB")


def _upload(cluster: Cluster, engine: Engine, folder: Path, number: int) -> tuple[str, str]:
    """An image that the engine does not have: name and digest."""
    tag, archive = f"headway-benchmark/ahead:{number}", folder / "ahead.tar"
    client = engine.client()
    try:
        import_busybox(client, tag, more=[Entry("bytes", os.urandom(IMAGE_BYTES), mode=0o644)])
        with archive.open("wb") as file:
            file.writelines(client.images.get(tag).save())
        client.images.remove(tag)
    finally:
        client.close()
    pushed = cluster.headway("images", "push", f"ahead:{number}", "--from", str(archive))
    assert pushed.returncode == 0, pushed.stderr.decode()
    return f"admin/ahead:{number}", pushed.stdout.decode().split()[-1]


def _queued(cluster: Cluster, image: str, digest: str = "") -> float:
    """Seconds from the end of the task that has the whole machine to the start of the one behind it."""
    flag = cluster.mount / "homes" / "admin" / "free"
    flag.unlink(missing_ok=True)
    client = cluster.client
    first = client.submit(a_job(_task("until [ -e /root/nfs/free ]; do sleep 0.05; done", BUSYBOX)))["id"]
    soon(lambda: client.job(first)["tasks"][0]["state"] == "RUNNING", within_s=60, every_s=0.1)
    second = client.submit(a_job(_task("true", image)))["id"]
    if digest:
        soon(lambda: _is_here(cluster, digest), within_s=120, every_s=0.2, what=f"{image} is brought ahead")
    time.sleep(1.0)  # a quiet machine
    flag.touch()
    attempt = client.wait(second, timeout_s=60, poll_s=0.2)["tasks"][0]["attempts"][0]
    ended = client.wait(first, timeout_s=60, poll_s=0.2)["tasks"][0]["attempts"][0]["ended_at"]
    return float(attempt["started_at"] - ended)


def _is_here(cluster: Cluster, digest: str) -> bool:
    """Whether the Worker has noted that it brought the image."""
    file = cluster.folder / "workers" / "n1" / "worker.db"
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        return db.execute("SELECT 1 FROM images WHERE image_id = ?", [digest]).fetchone() is not None


def _task(command: str, image: str) -> dict[str, Any]:
    resources = {"cpus": 8, "memory": "64MiB"}
    return {"name": "t", "image": image, "command": command, "timeout": "5m", "resources": resources}
