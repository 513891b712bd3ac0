"""Archives are taken in by a process of their own: what it says comes back, and its end is survived."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from headway.archive import ArchiveRefused, ImageStore, SeveralImages
from headway.errors import HeadwayError, Unavailable
from headway.mount import Layout, prepare_local
from httpserver.market import ingest_process
from httpserver.market.ingest_process import ingest_apart
from httpserver.uploads.ports import FinishWatch
from tests.support.archives import docker_save, tiny_image

FILE = PurePosixPath("upload")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return prepare_local(tmp_path / "mount", "headway")


async def take(layout: Layout, data: bytes, *, choose: str = "", watch: FinishWatch | None = None) -> str:
    (layout.root / FILE).write_bytes(data)
    info = await ingest_apart(
        layout.root, "headway", FILE, choose=choose, keep_free_bytes=0, watch=watch or FinishWatch()
    )
    return info.digest


async def test_an_image_a_question_and_a_refusal_come_back_as_they_are(layout: Layout) -> None:
    one, two = tiny_image(tags=("x:1",)), tiny_image(tags=("x:2",), env={"A": "b"})
    assert await take(layout, docker_save(one)) == one.digest
    assert ImageStore(layout).list() == [one.digest]
    with pytest.raises(SeveralImages) as asked:
        await take(layout, docker_save(one, two))
    assert await take(layout, docker_save(one, two), choose=asked.value.choices[1]) == two.digest
    with pytest.raises(ArchiveRefused):
        await take(layout, b"PK\x03\x04 a zip")


def _when_started(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> None:
    real = asyncio.create_subprocess_exec

    async def start(*args: str, **options: object) -> asyncio.subprocess.Process:
        child = await real(*args, **options)  # type: ignore[arg-type]
        act(child.pid)
        return child

    monkeypatch.setattr(ingest_process.asyncio, "create_subprocess_exec", start)


async def test_a_killed_check_is_to_be_made_again(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    _when_started(monkeypatch, lambda pid: os.kill(pid, signal.SIGKILL))
    with pytest.raises(Unavailable, match="made again"):
        await take(layout, docker_save(tiny_image()))
    assert ImageStore(layout).list() == []


async def test_a_cancelled_check_publishes_nothing(layout: Layout) -> None:
    watch = FinishWatch()
    watch.cancel()
    with pytest.raises(HeadwayError):
        await take(layout, docker_save(tiny_image()), watch=watch)
    assert ImageStore(layout).list() == []
