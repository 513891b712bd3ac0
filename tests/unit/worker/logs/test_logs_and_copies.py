"""Logs: kept on the mount, and read live and afterwards."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headway.errors import InvalidInput, MountUnavailable, NotFound
from tests.support.clock import FakeClock
from tests.support.waiting import eventually
from tests.unit.worker.builders import an_attempt
from tests.unit.worker.fakes import Rig, a_rig
from worker.box import IndexRecord, Stream, pack_index
from worker.logs import spool_copy as spools
from worker.logs.reader import LogChunk, WorkerLogReader
from worker.model import AttemptRecord, AttemptStage, AttemptTimes

ATTEMPT = an_attempt()


class LogRig:
    """A log, its copy, and its reader."""

    def __init__(self, parts: Rig, folder: Path) -> None:
        self.parts = parts
        self.spool = folder / "box"
        self.spool.mkdir()
        parts.runtime.spools[ATTEMPT] = self.spool
        self.record: AttemptRecord | None = AttemptRecord(
            ATTEMPT, AttemptStage.LIVE, b"launch", AttemptTimes(accepted_at=1.0), platform_log=b"noted\n"
        )
        self.target = parts.mount.job_folder(ATTEMPT)
        context = parts.context
        self.reader = WorkerLogReader(lambda _: self.record, parts.runtime, context.copier, parts.mount, parts.clock)

    def begin(self) -> None:
        self.parts.context.copier.begin(
            ATTEMPT, self.target, self.spool / "stdout", self.spool / "stderr", self.spool / "index"
        )

    def write(self, data: bytes, stream: str = "stdout") -> None:
        with (self.spool / stream).open("ab") as file:
            file.write(data)

    async def round(self) -> None:
        """One turn of the copier, to its end; it works in a thread."""
        await self.parts.clock.advance(2.0)
        await eventually(lambda: not any(job.busy for job in self.parts.context.copier.jobs), every_s=0.001)

    async def read(self, stream: str = "stdout", **more: Any) -> bytes:
        return b"".join([chunk.data for chunk in await self.chunks(stream, **more)])

    async def chunks(self, stream: str = "stdout", **more: Any) -> list[LogChunk]:
        return [chunk async for chunk in self.reader.read(ATTEMPT, stream, **more)]

    def copied(self, stream: str = "stdout") -> bytes:
        return (self.target / f"{stream}.log").read_bytes()


@pytest.fixture
async def rig(clock: FakeClock, tmp_path: Path) -> AsyncIterator[LogRig]:
    parts = a_rig(clock, tmp_path)
    yield LogRig(parts, tmp_path)
    await parts.close()


async def test_the_mount_follows_the_program(rig: LogRig) -> None:
    rig.begin()
    rig.write(b"one\n")
    rig.write(b"err\n", "stderr")
    await rig.round()
    assert rig.copied() == b"one\n"
    assert rig.copied("stderr") == b"err\n"
    rig.write(b"two")
    await rig.round()
    assert rig.copied() == b"one\ntwo"


async def test_when_which_bytes_came_is_kept(rig: LogRig) -> None:
    """Used to: the order of the two streams was lost with the attempt's folder."""
    index = pack_index([IndexRecord(1, 0, 4, Stream.STDOUT), IndexRecord(2, 0, 4, Stream.STDERR)])
    rig.begin()
    rig.write(index, "index")
    rig.write(b"one\n")
    assert await rig.read("index") == index
    await rig.round()
    rig.write(b"err\n", "stderr")
    await rig.round()
    assert not (rig.target / "index.log").exists(), "once, at the end"
    rig.parts.context.copier.finish(ATTEMPT, platform_log=b"noted\n")
    assert await rig.parts.context.copier.wait(ATTEMPT, 5.0)
    assert rig.copied("index") == index
    assert sorted(path.name for path in rig.target.iterdir()) == [
        "index.log", "platform.log", "stderr.log", "stdout.log",
    ]  # fmt: skip
    rig.record = None
    assert await rig.read("index") == index


async def test_one_stream_has_times_to_keep(rig: LogRig) -> None:
    index = pack_index([IndexRecord(1, 0, 4, Stream.STDOUT)])
    rig.begin()
    rig.write(index, "index")
    rig.write(b"one\n")
    rig.parts.context.copier.finish(ATTEMPT, platform_log=b"noted\n")
    assert await rig.parts.context.copier.wait(ATTEMPT, 5.0)
    assert rig.copied("index") == index


async def test_no_output_has_no_times_to_keep(rig: LogRig) -> None:
    rig.begin()
    rig.write(b"", "index")
    rig.parts.context.copier.finish(ATTEMPT, platform_log=b"noted\n")
    assert await rig.parts.context.copier.wait(ATTEMPT, 5.0)
    assert not (rig.target / "index.log").exists()


async def test_a_link_in_the_place_of_the_index_is_not_followed(rig: LogRig) -> None:
    outside = rig.spool.parent / "secret"
    outside.write_bytes(b"of others")
    (rig.spool / "index").symlink_to(outside)
    rig.write(b"one\n")
    rig.write(b"err\n", "stderr")
    rig.begin()
    rig.parts.context.copier.finish(ATTEMPT, platform_log=b"noted\n")
    assert await rig.parts.context.copier.wait(ATTEMPT, 5.0)
    assert not (rig.target / "index.log").exists(), "a link that a task put there is not followed"


async def test_a_full_mount_holds_the_copy_and_says_so_then_it_goes_on(
    rig: LogRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tries = os.pwrite, 0

    def full(descriptor: int, data: bytes, offset: int) -> int:
        nonlocal tries
        tries += 1
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spools.os, "pwrite", full)
    rig.begin()
    rig.write(b"kept")
    for _ in range(60):
        await rig.round()
    assert [job.problem for job in rig.parts.context.copier.held] == ["No space left on device"]
    assert tries < 12, "it backs off"
    monkeypatch.setattr(spools.os, "pwrite", real)
    for _ in range(20):
        await rig.round()
    assert rig.copied() == b"kept"
    assert not rig.parts.context.copier.held


async def test_the_end_of_a_log_waits_for_a_mount_that_comes_back(rig: LogRig) -> None:
    rig.begin()
    rig.write(b"last words")
    rig.parts.mount.problem = "The marker is missing."
    job = rig.parts.context.copier.finish(ATTEMPT, platform_log=b"ended\n", trailer=b"")
    assert job is not None
    await rig.round()
    assert not job.done
    assert not rig.target.exists(), "nothing is written behind the mount point"
    rig.parts.mount.problem = ""
    for _ in range(5):
        await rig.round()
    await eventually(lambda: job.done)
    assert rig.copied() == b"last words"
    assert rig.copied("platform") == b"ended\n"


async def test_of_platform_logs_that_are_copied_together_one_that_fails_fails_alone(rig: LogRig) -> None:
    copier, mount = rig.parts.context.copier, rig.parts.mount
    attempts = [an_attempt(task) for task in ("one", "two", "three")]
    folders = [mount.job_folder(attempt) for attempt in attempts]
    folders[1].parent.mkdir(parents=True)
    folders[1].write_bytes(b"not a folder")
    for attempt, folder in zip(attempts, folders, strict=True):
        copier.begin(attempt, folder, None, None)
        copier.finish(attempt, platform_log=f"ended {attempt.task.name}\n".encode())
    await rig.round()
    assert [job.attempt.task.name for job in copier.held] == ["two"]
    assert (folders[0] / "platform.log").read_bytes() == b"ended one\n"
    assert (folders[2] / "platform.log").read_bytes() == b"ended three\n"
    folders[1].unlink()
    for _ in range(5):
        await rig.round()
    assert all(job.done for job in copier.jobs)
    assert (folders[1] / "platform.log").read_bytes() == b"ended two\n"


async def test_what_was_dropped_is_told_in_the_last_line(rig: LogRig) -> None:
    rig.begin()
    rig.write(b"output")
    job = rig.parts.context.copier.finish(
        ATTEMPT, platform_log=b"", trailer=b"\n[headway] 5MiB of output were dropped\n"
    )
    assert job is not None
    await eventually(lambda: job.done)
    assert rig.copied().endswith(b"output\n[headway] 5MiB of output were dropped\n")
    assert await rig.read() == rig.copied()


async def test_live_bytes_come_from_the_spool_whatever_the_mount_does(rig: LogRig) -> None:
    rig.parts.mount.problem = "It hangs."
    rig.write(b"\x00\xff\r10%\r")
    assert await rig.read() == b"\x00\xff\r10%\r"
    assert await rig.read(offset=2) == b"\r10%\r"
    assert await rig.read(tail=4) == b"10%\r"
    assert await rig.read(limit=2) == b"\x00\xff"
    assert await rig.read(offset=99) == b""
    assert await rig.read("stderr") == b""
    assert await rig.read("platform") == b"noted\n"


async def test_punched_bytes_are_read_from_the_mount(rig: LogRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "PUNCH_BYTES", 64 << 10)
    data = os.urandom(500_000)
    rig.begin()
    rig.write(data)
    await rig.round()
    job = rig.parts.context.copier.get(ATTEMPT)
    assert job is not None
    assert job.spools["stdout"].safe > 400_000
    rig.write(b"fresh")
    assert await rig.read() == data + b"fresh"
    assert await rig.read(offset=499_999) == data[-1:] + b"fresh"


async def test_a_hole_that_opens_under_a_read_is_noticed(rig: LogRig, monkeypatch: pytest.MonkeyPatch) -> None:
    data = os.urandom(100_000)
    rig.begin()
    rig.write(data)
    await rig.round()
    job = rig.parts.context.copier.get(ATTEMPT)
    assert job is not None
    copy = job.spools["stdout"]
    real = asyncio.to_thread

    async def read_then_punch(call: Any, *args: Any) -> Any:
        # Between the look at the source and the read, everything was made safe and punched out.
        monkeypatch.setattr(asyncio, "to_thread", real)
        copy.step(final=True)
        assert copy.safe == len(data)
        return await real(call, *args)

    monkeypatch.setattr(asyncio, "to_thread", read_then_punch)
    assert await rig.read() == data


async def test_following_ends_shortly_after_the_end(rig: LogRig) -> None:
    rig.write(b"a")
    reading = asyncio.ensure_future(rig.chunks(follow=True))
    for data in (b"b", b"", b"c"):
        rig.write(data)
        await rig.parts.clock.advance(1.0)
        await asyncio.sleep(0.01)
    assert not reading.done()
    assert rig.record is not None
    rig.record.stage = AttemptStage.ENDED
    for _ in range(4):
        await rig.parts.clock.advance(0.5)
        await asyncio.sleep(0.01)
    chunks = await asyncio.wait_for(reading, 5)
    assert b"".join(chunk.data for chunk in chunks) == b"abc"
    assert chunks[-1].ended
    assert [chunk.ended for chunk in chunks].count(True) == 1


async def test_large_logs_come_in_chunks(rig: LogRig) -> None:
    rig.write(b"x" * 1_000_000)
    chunks = await rig.chunks()
    assert max(len(chunk.data) for chunk in chunks) <= 256 << 10
    assert sum(len(chunk.data) for chunk in chunks) == 1_000_000
    assert [chunk.offset for chunk in chunks] == [0, 262_144, 524_288, 786_432]


async def test_marks_tell_when(rig: LogRig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.write(b"0123456789")
    index = rig.spool / "index"
    index.write_bytes(
        pack_index(
            [
                IndexRecord(1_000_000_000, 0, 4, Stream.STDOUT),
                IndexRecord(2_000_000_000, 0, 9, Stream.STDERR),
                IndexRecord(3_000_000_000, 4, 6, Stream.STDOUT),
            ]
        )
        + b"half"
    )
    monkeypatch.setattr(rig.parts.runtime, "index", lambda attempt: index)
    (chunk,) = await rig.chunks()
    assert chunk.marks == ((0, 1.0), (4, 3.0))
    (chunk,) = await rig.chunks(offset=6)
    assert chunk.marks == ((6, 3.0),)
    # Who reads in many small pieces and needs none would have the whole index read for each.
    (chunk,) = await rig.chunks(offset=6, with_marks=False)
    assert chunk.marks == ()


async def test_afterwards_the_mount_has_it(rig: LogRig) -> None:
    rig.target.mkdir(parents=True)
    (rig.target / "stdout.log").write_bytes(b"all of it")
    assert rig.record is not None
    rig.record.stage = AttemptStage.DONE
    assert await rig.read() == b"all of it"
    assert (await rig.chunks())[-1].ended
    assert await rig.read("stderr") == b"", "a stream without a byte has no file"
    rig.record = None
    assert await rig.read() == b"all of it"


async def test_what_nobody_knows_is_not_found(rig: LogRig) -> None:
    rig.record = None
    with pytest.raises(NotFound):
        await rig.read()
    with pytest.raises(InvalidInput):
        await rig.read("../../etc/passwd")
    rig.parts.mount.problem = "It is gone."
    with pytest.raises(MountUnavailable):
        await rig.read()
