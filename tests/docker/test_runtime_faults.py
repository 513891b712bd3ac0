"""The Docker runtime when the engine's answers get lost, come late, or are refusals."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from headway.model.reasons import EndWord
from tests.contracts.subjects import DockerSubject
from tests.support.dockerd import Engine
from tests.support.waiting import eventually
from tests.support.worker_rig import an_attempt
from worker.model import ImageSource, WantedImage
from worker.ports import ContainerState, EngineUnavailable, RuntimeRefused
from worker.runtime.docker_options import container_name

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120)]


class Between:
    """A socket between runtime and engine. ``lose``: answers to requests that contain it are dropped with the
    connection; ``late_s``: they come so late instead."""

    def __init__(self, path: Path, engine: Path) -> None:
        self.url = f"unix://{path}"
        self.lose = b""
        self.late_s = 0.0
        self.lost = 0
        self.requests: list[bytes] = []
        self._path, self._engine = path, engine

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self._path)

    def close(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_unix_connection(self._engine)
        hit = False

        async def there() -> None:
            nonlocal hit
            while data := await reader.read(1 << 16):
                if data[:5] in (b"POST ", b"GET /", b"DELET"):
                    self.requests.append(data.split(b"\r\n")[0])
                    hit = bool(self.lose) and self.lose in data
                up_writer.write(data)
            up_writer.close()

        async def back() -> None:
            while data := await up_reader.read(1 << 16):
                if hit:
                    self.lost += 1
                    await asyncio.sleep(self.late_s)
                    if not self.late_s:
                        break
                writer.write(data)
            writer.close()

        # Cancelled when the test's loop ends: a stream's handler must not end so.
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await asyncio.gather(there(), back())


@pytest.fixture
async def between(tmp_path: Path, docker_engine: Engine) -> AsyncIterator[Between]:
    between = Between(Path(os.environ.get("TMPDIR", "/tmp")) / f"hw-between-{os.getpid()}.sock", docker_engine.socket)
    between._path.unlink(missing_ok=True)
    await between.open()
    yield between
    between.close()
    between._path.unlink(missing_ok=True)


@pytest.fixture
async def subject(tmp_path: Path, between: Between) -> AsyncIterator[DockerSubject]:
    subject = DockerSubject(tmp_path, between.url, timeout_s=3.0)
    await subject.open()
    yield subject
    between.lose = b""
    for attempt in await subject.runtime.list():
        await subject.runtime.remove(attempt)
    await subject.abandon()


def containers(client: docker.DockerClient) -> list[str]:
    return [entry["Names"][0] for entry in client.api.containers(all=True)]


@pytest.mark.parametrize("late_s", [0.0, 4.0])
@pytest.mark.parametrize("call", [b"/containers/create", b"/start"])
async def test_a_lost_answer_makes_no_second_container(
    subject: DockerSubject, between: Between, docker_client: docker.DockerClient, call: bytes, late_s: float
) -> None:
    """REC-17: creation had worked, the answer never came, and each retry made one more."""
    attempt = an_attempt()
    order = await subject.order(attempt, run_s=1.0, output="once\n")
    between.lose, between.late_s = call, late_s
    for _ in range(2):
        with contextlib.suppress(EngineUnavailable):
            await subject.runtime.start(order)
    assert between.lost >= 1
    between.lose = b""

    async def start() -> bool:
        with contextlib.suppress(EngineUnavailable):
            await subject.runtime.start(order)
            return True
        return False

    await eventually(start, within_s=20, every_s=0.2)

    async def ended() -> bool:
        return (await subject.runtime.progress(attempt)).end is not None

    await eventually(ended, within_s=20)
    assert subject.runtime.box(attempt).stdout.read_bytes() == b"once\n"
    assert containers(docker_client) == ["/" + container_name("test", attempt.folder)]


async def test_a_start_is_two_calls(subject: DockerSubject, between: Between) -> None:
    """As soon as the engine's events are followed: until then an image is asked for at each start."""
    numbers = itertools.count()

    async def start() -> list[bytes]:
        order = await subject.order(an_attempt(f"t{next(numbers)}"))
        between.requests.clear()
        await subject.runtime.start(order)
        calls = [request.split(b"?")[0].split(b"/", 2)[2] for request in between.requests]
        # Of a thread of its own, which may connect again at any moment.
        return [call for call in calls if not call.startswith((b"events", b"info", b"version"))]

    async def calls() -> list[bytes] | None:
        found = await start()
        return found if not any(b"images/" in call for call in found) else None

    posts = await eventually(calls, within_s=20, every_s=0.2)
    assert len(posts) == 2, posts
    assert posts[0].startswith(b"containers/create")
    assert b"/start" in posts[1]


async def test_a_remove_after_a_cancelled_start_finds_what_it_made(
    subject: DockerSubject, docker_client: docker.DockerClient
) -> None:
    """TIME-15."""
    for pause_s in (0.0, 0.01, 0.05, 0.1, 0.2):
        attempt = an_attempt(f"t{round(pause_s * 100)}")
        start = asyncio.create_task(subject.runtime.start(await subject.order(attempt, run_s=60)))
        await asyncio.sleep(pause_s)
        start.cancel()
        await asyncio.wait({start})
        await subject.runtime.remove(attempt)
    assert containers(docker_client) == []


async def test_an_engine_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    subject = DockerSubject(tmp_path, f"unix://{tmp_path}/none.sock", timeout_s=3.0)
    await subject.open()
    with pytest.raises(EngineUnavailable, match=r"none\.sock can't be reached: No such file"):
        await subject.runtime.check()
    with pytest.raises(EngineUnavailable):
        await subject.runtime.list()
    await subject.abandon()


async def test_a_container_of_another_worker_is_left_alone(
    subject: DockerSubject, between: Between, tmp_path: Path, docker_client: docker.DockerClient
) -> None:
    """Two clusters of one name on one machine took each other's containers for orphans."""
    attempt = an_attempt()
    (tmp_path / "other").mkdir()
    other = DockerSubject(tmp_path / "other", between.url)
    await other.open()
    await other.runtime.start(await other.order(attempt, run_s=30))
    assert attempt not in await subject.runtime.list()
    assert (await subject.runtime.inspect(attempt)).state is ContainerState.ABSENT
    await other.runtime.remove(attempt)
    await other.abandon()


async def test_a_folder_that_is_gone(subject: DockerSubject, tmp_path: Path) -> None:
    """RES-08, STO-07: the engine must not make the folder of a mount that went away."""
    order = replace(await subject.order(an_attempt()), home=tmp_path / "mount" / "homes" / "ann")
    with pytest.raises(RuntimeRefused) as caught:
        await subject.runtime.start(order)
    assert (caught.value.word, caught.value.elsewhere) == (EndWord.MOUNT_UNAVAILABLE, True)
    assert not (tmp_path / "mount").exists()
    assert await subject.runtime.list() == {}


async def test_datasets_are_read_only(subject: DockerSubject, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "x").write_text("data\n")
    order = await subject.order(an_attempt())
    script = "cat /root/datasets/mnist/x; touch /root/datasets/mnist/y 2>/dev/null && exit 9; exit 0"
    order = replace(
        order, datasets={"mnist": tmp_path / "set"}, spec=replace(order.spec, args=("/bin/sh", "-c", script))
    )
    await subject.runtime.start(order)

    async def code() -> list[int | None]:
        end = (await subject.runtime.progress(order.attempt)).end
        return [end.exit_code] if end else []

    assert await eventually(code, within_s=20) == [0]
    assert subject.runtime.box(order.attempt).stdout.read_bytes() == b"data\n"


async def test_an_unreachable_registry_is_told_in_seconds(subject: DockerSubject) -> None:
    """IMG-21."""
    wanted = WantedImage("127.0.0.1:9/no/such:1")
    assert await subject.runtime.find_image(wanted) is None
    with pytest.raises(RuntimeRefused) as caught:
        await asyncio.wait_for(subject.runtime.resolve_image(wanted, None), timeout=30)
    assert (caught.value.word, caught.value.elsewhere) == (EndWord.IMAGE_PULL_FAILED, True)
    pinned = replace(wanted, digest=f"sha256:{'0' * 64}", source=ImageSource.REGISTRY)
    with pytest.raises(RuntimeRefused) as caught:
        await asyncio.wait_for(subject.runtime.pull_image(pinned, None), timeout=30)
    assert (caught.value.word, caught.value.elsewhere) == (EndWord.IMAGE_PULL_FAILED, True)


async def test_an_image_that_comes_is_seen_at_once(subject: DockerSubject, docker_client: docker.DockerClient) -> None:
    moving = WantedImage("headway-test/moving:1")
    image = await subject.runtime.find_image(WantedImage("headway-test/busybox:1"))
    docker_client.api.tag("headway-test/static:1", "headway-test/moving", "1")
    first = await subject.runtime.find_image(moving)
    assert image is not None
    assert first is not None
    docker_client.api.tag(image.id, "headway-test/moving", "1")

    async def moved() -> bool:
        found = await subject.runtime.find_image(moving)
        return found is not None and found.id == image.id

    await eventually(moved, within_s=5)
    assert first.id != image.id
    assert any("headway-test/moving:1" in found.names for found in await subject.runtime.images())
