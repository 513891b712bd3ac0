"""Images of the market on a real engine: from an archive on the shared mount, and away again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException, ImageNotFound

from headway.archive import ImageInfo, ImageStore, ingest
from headway.clock import SystemClock
from headway.errors import MountUnavailable
from headway.model.reasons import EndWord
from headway.mount import Layout, prepare_local
from headway.rpc.v1 import common_pb2, worker_pb2
from tests.contracts.subjects import DockerSubject
from tests.support.archives import tiny_image
from tests.support.dockerd import Engine
from tests.support.images import Entry, import_busybox, import_image, layer
from tests.support.registry import PASSWORD, PROGRAM, USER, Registry
from tests.support.small_disks import small_disks
from tests.support.waiting import eventually, soon
from tests.support.worker_rig import a_launch, an_attempt, worker_rig
from worker.images import DiskWatermarks, ImageManager, MountedMarketArchives
from worker.machine.disk_watch import read_disks
from worker.machine.disks import DiskReading
from worker.machine.mount import MountWatch
from worker.model import ImageSource, WantedImage
from worker.ports import EngineUnavailable, RegistryCredentials, RuntimeRefused
from worker.runtime.docker_images import MARK
from worker.store import WorkerStore

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120)]


class Market:
    """A shared mount with images, and a Worker's keeper of them on the tests' engine."""

    def __init__(self, folder: Path, client: docker.DockerClient, url: str, *, cluster: str = "test") -> None:
        self.folder = folder
        self.client = client
        self.layout = prepare_local(folder / "mount", cluster)
        self.images = ImageStore(self.layout)
        self.subject = DockerSubject(folder, url)
        self.needed: set[str] = set()
        self.disk: DiskReading | None = None  # None: as it is
        self.marks = DiskWatermarks(high=1.0, low=1.0, reserve_bytes=0)
        self.fetches = 0
        self.credentials: RegistryCredentials | None = None

    async def open(self) -> None:
        (self.folder / "worker").mkdir(exist_ok=True)
        await self.subject.open()
        await eventually(self._trusted, within_s=10, what="the engine's events are heard")
        self.store = await WorkerStore.open(str(self.folder / "worker" / "worker.db"))
        self.mounted = MountWatch(self.layout, "test", SystemClock(), lambda: None)
        await self.mounted.look()
        self.keeper = ImageManager(
            node_id="n1",
            runtime=self.subject.runtime,
            journal=self.store.images,
            market=MountedMarketArchives(self.layout, "test", self.mounted),
            credentials=self._credentials,
            disk=self._disk,
            needed=lambda: self.needed,
            clock=SystemClock(),
            watermarks=self.marks,
        )
        await self.keeper.open()
        await self.subject.runtime.check()

    async def abandon(self) -> None:
        """As a killed Worker."""
        self.keeper.close()
        await self.store.close()
        self.mounted.close()
        await self.subject.abandon()

    def publish(self, name: str, entries: list[Entry] | None = None, *, base: bool = True) -> ImageInfo:
        """Make an image, put it into the market, and take it from the engine again."""
        tag = f"headway-test/{name}:1"
        if base:
            # A layer of its own: one that the engine has already would not be read at all.
            more = entries or [Entry("unique", os.urandom(16))]
            import_busybox(self.client, tag, more=more, environment={"NAME": name})
        else:
            import_image(self.client, tag, layer(entries or []))
        archive = self.folder / f"{name}.tar"
        with archive.open("wb") as file:
            for chunk in self.client.api.get_image(tag):
                file.write(chunk)
        self.client.api.remove_image(tag)
        return ingest(archive, self.images)

    def wanted(self, info: ImageInfo, name: str = "lab/tool:1") -> WantedImage:
        return WantedImage(name, info.digest, ImageSource.MARKET, "ann", info.size_bytes)

    async def prepare(self, info: ImageInfo) -> str:
        def fetching() -> None:
            self.fetches += 1

        return (await self.keeper.prepare(self.wanted(info), fetching)).id

    def there(self, digest: str) -> bool:
        with contextlib.suppress(ImageNotFound):
            self.client.api.inspect_image(digest)  # type: ignore[no-untyped-call]
            return True
        return False

    async def _trusted(self) -> bool:
        return self.subject.runtime._images._trusted

    async def _disk(self) -> DiskReading | None:
        if self.disk is not None:
            return self.disk
        found = read_disks([(folder, "the engine") for folder in self.subject.runtime.data_folders()])
        return found[0] if found else None

    async def _credentials(self, wanted: WantedImage) -> RegistryCredentials | None:
        return self.credentials


@pytest.fixture
async def market(tmp_path: Path, docker_engine: Engine, docker_client: docker.DockerClient) -> AsyncIterator[Market]:
    market = Market(tmp_path, docker_client, docker_engine.url)
    before = {image["Id"] for image in docker_client.api.images()}
    await market.open()
    yield market
    await market.abandon()
    for image in docker_client.api.images():
        if image["Id"] not in before:
            with contextlib.suppress(DockerException):
                docker_client.api.remove_image(image["Id"], force=True)


async def test_ten_tasks_that_wait_for_an_image_cause_one_load(
    market: Market, docker_client: docker.DockerClient
) -> None:
    info = market.publish("tool")
    assert not market.there(info.digest)
    began = docker_client.api.events(decode=True, filters={"type": "image", "event": "load"})
    waiters = [asyncio.create_task(market.prepare(info)) for _ in range(10)]
    await asyncio.sleep(0)
    waiters[0].cancel()  # one that gives up leaves the load to the others
    found = await asyncio.gather(*waiters[1:])
    assert set(found) == {info.digest}
    docker_client.api.tag(info.digest, "headway-test/after", "1")
    began.close()
    tags = docker_client.api.inspect_image(info.digest)["RepoTags"]  # type: ignore[no-untyped-call]
    assert f"{MARK}:{info.digest[7:]}" in tags
    assert not [tag for tag in tags if tag.startswith("headway-test/tool")], "the archive's own tag is not set"
    listed = {image.id: ours for image, ours in await market.keeper.listing()}
    assert listed[info.digest] is True
    docker_client.api.remove_image("headway-test/after:1")


async def test_a_layer_that_the_engine_has_is_not_sent_again(market: Market) -> None:
    """Ten images on one base cost the base once."""
    base = [Entry("unique", os.urandom(16))]
    info, other = market.publish("tool", base), market.publish("other", base)
    await market.prepare(info)
    assert await market.subject.runtime.layers_there([layer.digest for layer in info.layers]) == len(info.layers)
    assert info.digest != other.digest
    for path in (market.layout.root / "images" / "layers").iterdir():
        path.unlink()
    assert await market.prepare(other) == other.digest
    await market.subject.runtime.remove_image(info.digest, ())
    await market.subject.runtime.remove_image(other.digest, ())
    assert await market.subject.runtime.layers_there([layer.digest for layer in info.layers]) == 0


async def _missing_layer(market: Market, info: ImageInfo) -> None:
    for path in (market.layout.root / "images" / "layers").iterdir():
        path.unlink()


async def _other_config(market: Market, info: ImageInfo) -> None:
    path = market.layout.image(info.digest) / "config.json"
    path.write_bytes(path.read_bytes().replace(b'"NAME=tool"', b'"NAME=evil"'))


async def _other_layer(market: Market, info: ImageInfo) -> None:
    for path in (market.layout.root / "images" / "layers").iterdir():
        data = bytearray(path.read_bytes())
        data[600] ^= 1
        path.chmod(0o644)
        path.write_bytes(data)


async def _image_gone(market: Market, info: ImageInfo) -> None:
    market.images.remove(info.digest)


async def _mount_gone(market: Market, info: ImageInfo) -> None:
    market.layout.root.rename(market.folder / "elsewhere")
    market.layout.root.mkdir()


@pytest.mark.parametrize(
    ("fault", "want", "sentence"),
    [
        (_missing_layer, EndWord.IMAGE_BAD, "upload"),
        (_other_config, EndWord.IMAGE_BAD, "upload it again"),
        (_other_layer, EndWord.IMAGE_BAD, "upload it again"),
        (_image_gone, EndWord.IMAGE_NOT_FOUND, "no longer in the market"),
        (_mount_gone, EndWord.MOUNT_UNAVAILABLE, "mount"),
    ],
)
async def test_a_load_that_fails_says_why_and_leaves_nothing(
    market: Market,
    docker_client: docker.DockerClient,
    fault: Callable[[Market, ImageInfo], object],
    want: EndWord,
    sentence: str,
) -> None:
    info = market.publish("tool")
    before = {image["Id"] for image in docker_client.api.images(all=True)}
    await fault(market, info)  # type: ignore[misc]
    with pytest.raises((RuntimeRefused, MountUnavailable)) as caught:
        await market.prepare(info)
    word = caught.value.word if isinstance(caught.value, RuntimeRefused) else EndWord.MOUNT_UNAVAILABLE
    assert (word, sentence in str(caught.value).lower()) == (want, True), str(caught.value)
    assert {image["Id"] for image in docker_client.api.images(all=True)} == before
    assert await market.store.images.load() == [] or list(market.keeper._ledger) == []


async def test_an_engine_that_is_killed_in_the_middle_is_asked_again(
    market: Market, docker_engine: Engine, docker_client: docker.DockerClient
) -> None:
    info = market.publish("tool", [Entry("big", os.urandom(64 << 20))])
    first = asyncio.create_task(market.prepare(info))
    tmp = docker_engine.folder / "data" / "tmp"
    await eventually(lambda: any(tmp.glob("docker-import-*/*")), every_s=0.001, what="the engine takes the archive")
    docker_engine.kill9()
    try:
        with pytest.raises(EngineUnavailable):
            await first
    finally:
        docker_engine.start()

    async def loaded() -> bool:
        with contextlib.suppress(EngineUnavailable):
            return await market.prepare(info) == info.digest
        return False

    await eventually(loaded, within_s=30, every_s=0.2)
    assert not list(tmp.glob("docker-import-*"))
    assert not list(docker_engine.folder.glob("data/tmp-old/docker-import-*"))


async def test_a_worker_that_was_killed_in_between_knows_what_it_brought(
    market: Market, docker_client: docker.DockerClient
) -> None:
    info = market.publish("tool")
    marking = market.subject.runtime.mark_image

    async def killed(image_id: str) -> None:
        raise asyncio.CancelledError

    market.subject.runtime.mark_image = killed  # type: ignore[method-assign]
    with pytest.raises(asyncio.CancelledError):
        await market.prepare(info)
    market.subject.runtime.mark_image = marking  # type: ignore[method-assign]
    await market.abandon()
    await market.open()
    await market.keeper.reconcile()
    assert f"{MARK}:{info.digest[7:]}" in docker_client.api.inspect_image(info.digest)["RepoTags"]  # type: ignore[no-untyped-call]
    assert [one.image_id for one in await market.store.images.load()] == [info.digest]


async def test_the_least_recently_used_goes_and_nothing_that_others_brought(
    market: Market, docker_client: docker.DockerClient
) -> None:
    infos = [market.publish(name) for name in ("a", "b", "c", "d")]
    a, b, c, d = (info.digest for info in infos)
    for info in infos[:3]:
        await market.prepare(info)
    docker_client.api.tag(b, "headway-test/mine", "1")  # a person of the machine likes it
    await market.prepare(infos[0])  # used again: now b is the oldest, then c
    foreign = {image["Id"] for image in docker_client.api.images()} - {a, b, c}
    market.disk = DiskReading(1, Path("/"), "the engine", free_bytes=1, total_bytes=100)
    market.needed = {a}
    with pytest.raises(RuntimeRefused, match=r"Not enough disk on the machine n1 for the image lab/tool:1: .*, and 1"):
        await market.prepare(infos[3])
    assert (market.there(a), market.there(b), market.there(c), market.there(d)) == (True, True, False, False)
    tags = docker_client.api.inspect_image(b)["RepoTags"]  # type: ignore[no-untyped-call]
    assert tags == ["headway-test/mine:1"], "only our mark went"
    assert foreign <= {image["Id"] for image in docker_client.api.images()}
    assert [one.image_id for one in market.keeper._ledger] == [a]
    docker_client.api.remove_image("headway-test/mine:1")


async def test_an_image_in_use_by_a_container_stays(market: Market, docker_client: docker.DockerClient) -> None:
    info = market.publish("tool")
    await market.prepare(info)
    container = docker_client.api.create_container_from_config({"Image": info.digest, "Cmd": ["true"]})["Id"]  # type: ignore[no-untyped-call]
    market.disk = DiskReading(1, Path("/"), "the engine", free_bytes=1, total_bytes=100)
    other = market.publish("other")
    with pytest.raises(RuntimeRefused, match="Not enough disk"):
        await market.prepare(other)
    assert market.there(info.digest)
    docker_client.api.remove_container(container)


@pytest.fixture
def small_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine whose disk has 60 MiB."""
    folder = Path(os.environ.get("HEADWAY_TESTS_SCRATCH", "/tmp")) / f"hwsmall{os.getpid()}"
    folder.mkdir()
    try:
        with small_disks((folder / "data", 60)):
            engine = Engine(folder, gpu_hook=False)
            try:
                yield engine.start()
            finally:
                engine.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
async def test_a_disk_that_fills_up_is_told_and_half_layers_go(
    small_engine: Engine, tmp_path: Path, docker_client: docker.DockerClient
) -> None:
    """IMG-22."""
    client = small_engine.client()
    market = Market(tmp_path, docker_client, small_engine.url)
    await market.open()
    try:
        info = market.publish("tool", [Entry("big", os.urandom(40 << 20))], base=False)
        data = small_engine.folder / "data"
        free = shutil.disk_usage(data).free
        with pytest.raises(RuntimeRefused) as caught:
            await market.prepare(info)
        assert (caught.value.word, caught.value.elsewhere) == (EndWord.IMAGE_PULL_FAILED, True)
        assert str(caught.value).startswith(
            "Not enough disk on the machine n1 for the image lab/tool:1: it needs 80MiB, and "
        )
        # The same where the Worker could not know: the engine itself runs out of space.
        market.disk = DiskReading(1, data, "the engine", free_bytes=1 << 40, total_bytes=1 << 41)
        with pytest.raises(RuntimeRefused) as caught:
            await market.prepare(info)
        assert str(caught.value) == "Not enough disk on the machine n1 for the image lab/tool:1"
        assert client.api.images(all=True) == []
        await eventually(lambda: shutil.disk_usage(data).free > free - (2 << 20), what="its space has come back")
    finally:
        client.close()
        await market.abandon()


async def test_a_worker_runs_a_pinned_image_with_code_and_data_and_fetches_ahead(
    tmp_path: Path, docker_engine: Engine, docker_client: docker.DockerClient
) -> None:
    settings = {"worker__runtime": "docker", "worker__docker_host": docker_engine.url, "worker__pull_images": False}
    async with worker_rig(tmp_path, **settings) as rig:
        layout = Layout(rig.mount)
        market = Market(tmp_path, docker_client, docker_engine.url, cluster="headway")
        info, ahead = market.publish("tool"), market.publish("ahead")
        code = f"sha256:{'c' * 64}"
        for folder, text in ((layout.code("ann", code), "code"), (layout.dataset("mnist", "2"), "two")):
            folder.mkdir(parents=True)
            (folder / "x").write_text(text)
        layout.dataset("mnist", "3").mkdir()  # newer, and not what the job was submitted with
        incarnation = await rig.start()
        attempt, missing = an_attempt(), an_attempt("missing")
        pinned = {
            "image": "lab/tool:1",
            "image_digest": info.digest,
            "image_source": common_pb2.IMAGE_SOURCE_MARKET,
            "datasets": ["mnist"],
        }
        script = "pwd; cat x /root/datasets/mnist/x; touch y 2>/dev/null && echo writable; echo $NAME"
        await rig.launch(
            a_launch(
                attempt,
                incarnation=incarnation,
                script=script,
                uid=20_001,
                timeout_s=20,
                code=code,
                dataset_pins=[common_pb2.DatasetPin(name="mnist", version="2")],
                **pinned,
            ),
            a_launch(
                missing,
                incarnation=incarnation,
                uid=20_001,
                dataset_pins=[common_pb2.DatasetPin(name="mnist", version="1")],
                **pinned,
            ),
        )
        end = await rig.ended(attempt, within_s=60)
        assert (end.reason.exit_code, end.image_id) == (0, info.digest), end
        assert await rig.read(attempt) == b"/root/code\ncodetwotool\n"
        assert "PULL_STARTED" in rig.task_manager.kinds(attempt), "TIME-05: a state of its own"
        lost = await rig.ended(missing, within_s=60)
        assert (lost.reason.word, "Version 1 of the dataset mnist" in lost.reason.detail) == ("mount_unavailable", True)

        request = worker_pb2.PrepareImagesRequest()
        request.images.add(
            image="lab/ahead:1", digest=ahead.digest, source=common_pb2.IMAGE_SOURCE_MARKET, account="ann"
        )
        await rig.peer.call(rig.stub.PrepareImages, request, deadline_s=5)

        async def both() -> bool:
            status = await rig.status()
            return {info.digest, ahead.digest} <= {image.id for image in status.engine_images if image.ours}

        await eventually(both, within_s=30, every_s=0.2, what="the image that was wished for is here")
        foreign = [image for image in (await rig.status()).engine_images if not image.ours]
        assert foreign
        assert not any(image.names for image in foreign), "names of others are told only where jobs may use them"
    for digest in (info.digest, ahead.digest):
        docker_client.api.remove_image(digest, force=True)


@contextmanager
def seen_by(engine: Engine, registry: Registry) -> Iterator[None]:
    """The registry as the engine's own network has it; on this machine's it is stopped."""
    registry.stop()
    network = ("nsenter", f"--net=/proc/{os.getpid()}/fd/{engine._network}", "--")
    server = subprocess.Popen(
        [*network, str(PROGRAM), "serve", str(registry.folder / "config.yml")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "OTEL_TRACES_EXPORTER": "none"},
    )
    asks = [*network, sys.executable, "-c", f"import socket; socket.create_connection(('127.0.0.1', {registry.port}))"]
    try:
        soon(
            lambda: subprocess.run(asks, check=False, capture_output=True).returncode == 0,
            within_s=20,
            what="the registry listens",
        )
        yield
    finally:
        server.kill()
        server.wait()


async def test_a_private_registry_gets_the_accounts_credentials(
    market: Market, docker_engine: Engine, docker_client: docker.DockerClient, tmp_path: Path
) -> None:
    registry = Registry(tmp_path / "registry", private=True)
    try:
        pushed = registry.start().push("team/tool", "1", tiny_image())
        wanted = WantedImage(registry.name("team/tool:1"), pushed.digest, ImageSource.REGISTRY, "ann", 1000)
        with seen_by(docker_engine, registry):
            for login in (None, RegistryCredentials(USER, "wrong")):
                market.credentials = login
                with pytest.raises(RuntimeRefused) as caught:
                    await market.keeper.prepare(wanted, lambda: None)
                assert caught.value.word is EndWord.IMAGE_PULL_FAILED, caught.value
                assert "wrong" not in str(caught.value)
            market.credentials = RegistryCredentials(USER, PASSWORD)
            facts = await market.keeper.prepare(wanted, lambda: None)
            found = docker_client.api.inspect_image(facts.id)  # type: ignore[no-untyped-call]
            assert found["RepoDigests"] == [f"{registry.host}/team/tool@{pushed.digest}"]
            assert found["RepoTags"] == [f"{MARK}:{facts.id[7:]}"]
            # The same image by names that were not pinned at submit: for who may have it, and for nobody else.
            digested = f"team/tool@{pushed.digest}"
            for name in ("team/tool:1", digested):
                again = await market.keeper.prepare(WantedImage(registry.name(name), account="ann"), lambda: None)
                assert again.id == facts.id
            market.credentials = None
            others = (registry.name("team/tool:1"), registry.name(digested), f"x@{facts.id}", facts.id, facts.id[7:19])
            for name in (*others, f"{MARK}:{facts.id[7:]}"):
                with pytest.raises(RuntimeRefused) as caught:
                    await market.keeper.prepare(WantedImage(name, account="bob"), lambda: None)
                assert caught.value.word in (EndWord.IMAGE_PULL_FAILED, EndWord.IMAGE_NOT_FOUND), caught.value
            tagless = docker_client.api.inspect_image(facts.id)  # type: ignore[no-untyped-call]
            assert tagless["RepoTags"] == [f"{MARK}:{facts.id[7:]}"], "no name of the engine has changed"
            market.credentials = RegistryCredentials(USER, PASSWORD)
            absent = WantedImage(registry.name("team/tool:1"), f"sha256:{'0' * 64}", ImageSource.REGISTRY, "ann")
            with pytest.raises(RuntimeRefused) as caught:
                await market.keeper.prepare(absent, lambda: None)
            assert caught.value.word is EndWord.IMAGE_NOT_FOUND
        market.disk = DiskReading(1, Path("/"), "the engine", free_bytes=1, total_bytes=100)
        with pytest.raises(RuntimeRefused, match="Not enough disk"):
            await market.prepare(market.publish("other"))
        assert not market.there(facts.id), "it goes with the name that its pull gave it"
    finally:
        registry.stop()
