"""An image of the market that a machine needs, beside `docker load` of the same archive on the same engine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import docker

from headway.archive import ImageInfo, ImageStore, ingest
from headway.clock import SystemClock
from headway.mount import prepare_local
from tests.support.dockerd import Engine, start_engine
from tests.support.images import Entry, import_image, layer
from tests.support.waiting import eventually
from worker.images import DiskWatermarks, ImageManager, MountedMarketArchives
from worker.launcher import launcher_path
from worker.machine.mount import MountWatch
from worker.model import ImageSource, WantedImage
from worker.ports import RegistryCredentials
from worker.runtime.docker import DockerRuntime
from worker.runtime.docker_engine import DockerEngine
from worker.runtime.docker_options import WorkerIdentity
from worker.store import WorkerStore

from .measure import Figure, median

SIZE = 1 << 30
TURNS = 3
NAME = "headway-benchmark/large:1"


def images() -> Iterator[Figure]:
    """A second worker needs an image of 1 GiB."""
    with start_engine() as engine, tempfile.TemporaryDirectory(prefix="hwb") as folder:
        archive = Path(folder) / "large.tar"
        _make(engine, archive)
        theirs, ours, found = asyncio.run(_measure(engine, archive, Path(folder)))
    goal = 1.1 * median(theirs)
    yield Figure("images: 1 GiB from the market to an engine, median", median(ours), "s", goal, note="goal: 1.1 × load")
    yield Figure("images: `docker load` of the same file, median", median(theirs), "s")
    yield Figure("images: ratio", median(ours) / median(theirs), "ratio", 1.1)
    yield Figure("images: what a start pays for an image that is there", 1000 * found, "ms", 1.0)


def _make(engine: Engine, archive: Path) -> None:
    """An image of bytes that do not compress, as a file; the engine forgets it."""
    client = engine.client(timeout_s=300)
    try:
        import_image(client, NAME, layer([Entry("bytes", os.urandom(SIZE), mode=0o644)]))
        with archive.open("wb") as file:
            for chunk in client.api.get_image(NAME):
                file.write(chunk)
        client.api.remove_image(NAME)
    finally:
        client.close()


async def _measure(engine: Engine, archive: Path, folder: Path) -> tuple[list[float], list[float], float]:
    layout = prepare_local(folder / "mount", "benchmark")
    info = await asyncio.to_thread(ingest, archive, ImageStore(layout))
    (folder / "attempts").mkdir()
    runtime = DockerRuntime(
        folder / "attempts",
        engine=DockerEngine(engine.url, timeout_s=60.0),
        identity=WorkerIdentity("benchmark", "n1", str(folder)),
        launcher=launcher_path(),
    )
    await runtime.open(lambda attempt: None)
    await runtime.check()
    mounted = MountWatch(layout, "benchmark", SystemClock(), lambda: None)
    await mounted.look()
    store = await WorkerStore.open(str(folder / "worker.db"))

    async def none(wanted: WantedImage) -> RegistryCredentials | None:
        return None

    async def no_disk() -> None:
        return None

    keeper = ImageManager(
        node_id="n1",
        runtime=runtime,
        journal=store.images,
        market=MountedMarketArchives(layout, "benchmark", mounted),
        credentials=none,
        disk=no_disk,
        needed=lambda: (),
        clock=SystemClock(),
        watermarks=DiskWatermarks(),
    )
    wanted = WantedImage("lab/large:1", info.digest, ImageSource.MARKET)
    theirs, ours = [], []
    client = engine.client()
    try:
        # In turns, so that a noisy moment of the machine meets both.
        for _ in range(TURNS):
            begin = time.monotonic()
            await asyncio.to_thread(_load, engine, archive)
            theirs.append(time.monotonic() - begin)
            await _forget(client, info)
            begin = time.monotonic()
            await keeper.prepare(wanted, lambda: None)
            ours.append(time.monotonic() - begin)
            found = await _there(keeper, wanted)
            await _forget(client, info)
    finally:
        client.close()
        keeper.close()
        await store.close()
        mounted.close()
        await runtime.close()
    return theirs, ours, found


def _load(engine: Engine, archive: Path) -> None:
    subprocess.run(["docker", "-H", engine.url, "load", "-q", "-i", str(archive)], check=True, capture_output=True)


async def _there(keeper: ImageManager, wanted: WantedImage) -> float:
    """Seconds that a start spends on an image that was brought before (ahead, say)."""
    times = []

    async def quick() -> bool:
        begin = time.perf_counter()
        await keeper.prepare(wanted, lambda: None)
        times.append(time.perf_counter() - begin)
        return times[-1] < 0.001

    await eventually(quick, within_s=10, every_s=0.05, what="the engine's events about the load have been heard")
    times.clear()
    for _ in range(100):
        await quick()
    return median(times)


async def _forget(client: docker.DockerClient, info: ImageInfo) -> None:
    def forget() -> None:
        client.api.remove_image(info.digest, force=True)
        os.sync()

    await asyncio.to_thread(forget)
