"""Real containers on an engine of the benchmark's own, beside the bare docker SDK with the same options."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker

from tests.support.cluster import Cluster, a_cluster, a_job
from tests.support.dockerd import Engine, start_engine
from tests.support.images import BUSYBOX, Entry, import_busybox

from .measure import Figure, cpu_seconds, median

# Phases of one task in the paper that Headway follows, in seconds.
PAPER = {"scheduling_s": 0.939, "dispatch_s": 0.004, "startup_s": 0.692, "preparing_s": 0.016}
STARTS = 15
CONTAINERS = 200
TURNS = 4
HOME_FILES = 100_000


@contextmanager
def a_docker_cluster() -> Iterator[tuple[Cluster, Engine]]:
    """One worker with 8 CPUs on an engine of the benchmark's own."""
    with (
        start_engine() as engine,
        tempfile.TemporaryDirectory(prefix="hwb") as folder,
        a_cluster(
            Path(folder),
            worker__runtime="docker",
            worker__docker_host=engine.url,
            worker__cpus=8,
            worker__memory_bytes=32 << 30,
        ) as cluster,
    ):
        yield cluster, engine


def _task(name: str = "t", seconds: float = 0.0) -> dict[str, Any]:
    command = ["true"] if not seconds else ["sleep", str(seconds)]
    return {
        "name": name,
        "image": BUSYBOX,
        "command": command,
        "timeout": "5m",
        "resources": {"cpus": 0.5, "memory": "64MiB"},
    }


def _bare_options(engine: Engine) -> dict[str, Any]:
    """Of a container that Headway made: host options and configuration, mounts included."""
    client = engine.client()
    try:
        container = client.containers.list(all=True, filters={"label": "headway.attempt"})[0]
        return dict(client.api.inspect_container(container.id or ""))
    finally:
        client.close()


class _Bare:
    """Containers with the options of one of Headway's, by the SDK alone."""

    def __init__(self, engine: Engine, like: dict[str, Any], folder: Path) -> None:
        self.client: docker.DockerClient = engine.client()
        self.host = dict(like["HostConfig"])
        # The same number of mounts, but not the attempt's own box, which is gone or in use.
        self.host["Binds"] = [self._own(bind, folder) for bind in self.host.get("Binds") or []]
        self.host["Mounts"] = [
            {**mount, "Source": str(folder)} for mount in self.host.get("Mounts") or [] if mount["Type"] == "bind"
        ] or None
        self.networking = like["HostConfig"].get("NetworkMode")

    @staticmethod
    def _own(bind: str, folder: Path) -> str:
        return ":".join([str(folder), *bind.split(":")[1:]])

    def make(self, command: list[str]) -> str:
        """Create and start; returns once the engine says that it has started."""
        api = self.client.api
        config = {"Image": BUSYBOX, "Cmd": command, "HostConfig": self.host}
        container = str(api.create_container_from_config(config)["Id"])  # type: ignore[no-untyped-call]
        api.start(container)
        return container

    def finish(self, container: str) -> None:
        self.client.api.wait(container)
        self.client.api.remove_container(container, force=True)


def _held_container(cluster: Cluster, engine: Engine) -> dict[str, Any]:
    job = cluster.client.submit(a_job(_task(seconds=600)))["id"]
    try:
        while cluster.client.job(job)["tasks"][0]["state"] != "RUNNING":
            time.sleep(0.1)
        return _bare_options(engine)
    finally:
        cluster.client.act("cancel", job)
        cluster.client.wait(job, timeout_s=60)


def start() -> Iterator[Figure]:
    """Idle cluster: from submit to the start of the user's process."""
    with a_docker_cluster() as (cluster, engine), tempfile.TemporaryDirectory(prefix="hwb") as spare:
        bare = _Bare(engine, _held_container(cluster, engine), Path(spare))
        ours: list[float] = []
        theirs: list[float] = []
        phases: dict[str, list[float]] = {}
        # In turns, so that a noisy moment of the machine meets both.
        for number in range(STARTS + 2):
            began = time.time()
            job = cluster.client.submit(a_job(_task()))["id"]
            attempt = cluster.client.wait(job, timeout_s=60, poll_s=0.1)["tasks"][0]["attempts"][0]
            begin = time.monotonic()
            container = bare.make(["true"])
            bare_s = time.monotonic() - begin
            bare.finish(container)
            if number < 2:
                continue  # warm
            ours.append(attempt["started_at"] - began)
            theirs.append(bare_s)
            for key, value in attempt["phases"].items():
                phases.setdefault(key, []).append(value or 0.0)
            time.sleep(0.2)
    goal = 1.2 * median(theirs) + 0.05
    yield Figure("start: submit to process start, median", median(ours), "s", goal, note="goal: 1.2 × bare + 0.05 s")
    yield Figure("start: bare SDK create + start, median", median(theirs), "s")
    yield Figure("start: ratio", median(ours) / median(theirs), "ratio")
    for key, values in phases.items():
        paper = f"paper {PAPER[key]:.3f} s" if key in PAPER else ""
        yield Figure(f"  phase {key.removesuffix('_s')}", median(values), "s", note=paper)


def homes() -> Iterator[Figure]:
    """The same start from an image that left 100,000 files of root's below /root, beside a small image."""
    with a_docker_cluster() as (cluster, engine):
        client = engine.client()
        try:
            files = [Entry(f"root/lib/{n // 1_000}/{n}", b"", mode=0o600) for n in range(HOME_FILES)]
            full = import_busybox(client, "headway-benchmark/full-home:1", more=files)
        finally:
            client.close()
        took: dict[str, list[float]] = {BUSYBOX: [], full: []}
        # In turns, so that a noisy moment of the machine meets both.
        for number in range(STARTS + 2):
            for image, seconds in took.items():
                began = time.time()
                job = cluster.client.submit(a_job({**_task(), "image": image}))["id"]
                attempt = cluster.client.wait(job, timeout_s=120, poll_s=0.1)["tasks"][0]["attempts"][0]
                if number >= 2:  # those before warm up
                    seconds.append(attempt["started_at"] - began)
                time.sleep(0.2)
        copied = _copied(cluster, full)
    small, large = median(took[BUSYBOX]), median(took[full])
    yield Figure("homes: submit to process start, small image, median", small, "s")
    yield Figure(f"homes: the same, {HOME_FILES:,} files in its /root, median", large, "s")
    yield Figure("homes: ratio", large / small, "ratio", 1.1)
    yield Figure("homes: files copied for it", copied, "files", 0)


def _copied(cluster: Cluster, image: str) -> int:
    """How many files a task of this image has in its home, besides those that the image has."""
    reads = {
        **_task(),
        "image": image,
        "command": f"cat /root/lib/0/0 && ls /root/lib/{HOME_FILES // 1_000 - 1}; sleep 600",
    }
    job = cluster.client.submit(a_job(reads))["id"]
    try:
        last = f"{HOME_FILES - 1}\n".encode()
        while last not in (cluster.client.log(job, "t") if _runs(cluster, job) else b""):
            time.sleep(0.1)
        homes = cluster.folder / "workers" / cluster.workers[0] / "homes"
        return sum(path.is_file() for path in homes.glob("*/written/**/*"))
    finally:
        cluster.client.act("cancel", job)
        cluster.client.wait(job, timeout_s=60)


def _runs(cluster: Cluster, job: str) -> bool:
    return str(cluster.client.job(job)["tasks"][0]["state"]) == "RUNNING"


def many() -> Iterator[Figure]:
    """200 short containers on one worker."""
    with a_docker_cluster() as (cluster, engine), tempfile.TemporaryDirectory(prefix="hwb") as spare:
        bare = _Bare(engine, _held_container(cluster, engine), Path(spare))
        took = bare_took = 0.0
        own: dict[str, float] = {}
        # In turns, so that a noisy stretch of the machine meets both.
        for _ in range(TURNS):
            tasks = [_task(f"t{i}", 0.2) for i in range(CONTAINERS // TURNS)]
            before = {name: cpu_seconds(p.pid) for name, p in cluster.processes.items()}
            job = cluster.client.submit(a_job(*tasks))["id"]
            done = cluster.client.wait(job, timeout_s=400)
            for name, process in cluster.processes.items():
                own[name] = own.get(name, 0.0) + cpu_seconds(process.pid) - before[name]
            assert done["state"] == "SUCCEEDED", done
            took += done["ended_at"] - done["submitted_at"]
            at_once = _most_at_once(done)
            begin = time.monotonic()
            with ThreadPoolExecutor(at_once) as pool:
                list(pool.map(lambda _i: bare.finish(bare.make(["sleep", "0.2"])), range(CONTAINERS // TURNS)))
            bare_took += time.monotonic() - begin
    yield Figure(f"many: {CONTAINERS} containers, one worker", CONTAINERS / took, "tasks/s")
    yield Figure("many: bare SDK loop, as many at once", CONTAINERS / bare_took, "tasks/s", note=f"{at_once} at once")
    note = ", ".join(f"{name} {1000 * used / CONTAINERS:.0f}" for name, used in own.items())
    yield Figure("many: CPU of Headway's own processes", 1000 * sum(own.values()) / CONTAINERS, "ms/task", note=note)
    yield Figure("many: ratio", bare_took / took, "ratio", 0.9, at_most=False)


def _most_at_once(job: dict[str, Any]) -> int:
    """How many attempts the worker held at one time."""
    moments = []
    for task in job["tasks"]:
        attempt = task["attempts"][-1]
        moments += [(attempt["placed_at"], 1), (attempt["ended_at"], -1)]
    most = now = 0
    for _, step in sorted(moments):
        now += step
        most = max(most, now)
    return most
