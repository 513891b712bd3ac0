"""Reading what may fail: logs on a mount that goes away, and archives of logs."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.errors import MountUnavailable
from headway.ids import AttemptId, new_job_id
from headway.mount import Layout
from httpserver.logs.archive import LogArchiveEntry, archive
from httpserver.logs.stored import StoredLogs, attempt_of, read_at
from tests.support.clock import FakeClock


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptId:
    attempt = attempt_of(new_job_id(1.0), "a", 1)
    Layout(tmp_path).attempt(attempt).mkdir(parents=True)
    return attempt


async def read_all(stored: StoredLogs, attempt: AttemptId) -> bytes:
    return b"".join([chunk async for chunk in stored.read(attempt, "stdout", 0)])


async def advance_until(clock: FakeClock, task: asyncio.Task[bytes], at_most_s: float) -> None:
    passed = 0.0
    while not task.done() and passed < at_most_s:
        await asyncio.sleep(0.01)  # the reading thread is real
        await clock.advance(0.5)
        passed += 0.5


async def test_a_stale_handle_is_waited_out_and_reading_goes_on_where_it_was(
    tmp_path: Path, attempt: AttemptId, clock: FakeClock
):
    """LOG-18: what used to happen was a reader at full CPU on a dead handle."""
    content = os.urandom(600_000)
    calls: list[int] = []
    stale_until = clock.monotonic() + 10

    def read(path: Path, offset: int, length: int) -> bytes:
        calls.append(offset)
        if offset and clock.monotonic() < stale_until:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return read_at(path, offset, length)

    stored = StoredLogs(Layout(tmp_path), clock, read=read)
    stored.path(attempt, "stdout").write_bytes(content)
    reading = asyncio.create_task(read_all(stored, attempt))
    await advance_until(clock, reading, 30)
    assert reading.result() == content
    assert len(calls) < 20


async def test_a_mount_that_stays_away_is_told(tmp_path: Path, attempt: AttemptId, clock: FakeClock):
    def read(path: Path, offset: int, length: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    reading = asyncio.create_task(read_all(StoredLogs(Layout(tmp_path), clock, read=read), attempt))
    await advance_until(clock, reading, 60)
    with pytest.raises(MountUnavailable):
        reading.result()


async def test_an_archive_without_one_of_its_files_is_whole_and_says_so():
    async def good() -> AsyncIterator[bytes]:
        yield b"a" * 100_000
        yield b"b"

    async def broken() -> AsyncIterator[bytes]:
        yield b"begin"
        raise MountUnavailable("The shared folder went away.")

    async def entries() -> AsyncIterator[LogArchiveEntry]:
        yield LogArchiveEntry("x/1/stdout.log", 100_001, good())
        yield LogArchiveEntry("y/1/stdout.log", 5_000, broken())

    whole = zipfile.ZipFile(io.BytesIO(b"".join([part async for part in archive(entries())])))
    assert whole.testzip() is None
    assert whole.read("x/1/stdout.log") == b"a" * 100_000 + b"b"
    assert "y/1/stdout.log: The shared folder went away." in whole.read("missing.txt").decode()
