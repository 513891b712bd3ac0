"""Reads one attempt's logs, live and afterwards.

While the attempt is here its spools count, and the mount for the part that was freed from them. Afterwards the mount
counts. Live readers come here, since the caches of the mount would delay them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import InvalidInput, MountUnavailable, NotFound
from headway.ids import AttemptId

from ..box import INDEX_RECORD_BYTES, BoxError, Stream, open_regular, unpack_index
from ..machine.mount import SharedMount
from ..model import AttemptRecord, AttemptStage
from ..ports import Runtime
from .copier import STREAMS, LogCopier
from .spool_copy import SpoolCopy

CHUNK_BYTES = 256 << 10
_MIN_PAUSE_S = 0.05
_MAX_PAUSE_S = 0.5
_MAX_MARKS = 512
INDEX = "index"  # of both streams: 24 bytes a piece, see box/index.py
_INDEX_BLOCK = 4_096


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of a log; see LogChunk of the contract. ``marks`` are (offset, epoch seconds)."""

    data: bytes
    offset: int
    size: int
    ended: bool
    marks: tuple[tuple[int, float], ...] = ()


@dataclass(slots=True)
class _Source:
    """Where the bytes of one stream are: before ``mount_until`` on the mount, then in ``spool``, then in ``tail``.

    ``tail`` is in memory.
    """

    size: int
    ended: bool
    mount: Path | None = None
    mount_only: int = 0
    copy: SpoolCopy | None = None
    spool: Path | None = None
    spool_size: int = 0
    tail: bytes = b""
    index: Path | None = None
    stream: Stream | None = None

    @property
    def mount_until(self) -> int:
        """It grows while the copier works."""
        return self.copy.safe if self.copy is not None else self.mount_only


@dataclass(slots=True)
class _Marks:
    """How far the index was read."""

    record: int = 0


class WorkerLogReader:
    """See the module."""

    def __init__(
        self,
        find: Callable[[AttemptId], AttemptRecord | None],
        runtime: Runtime,
        copier: LogCopier,
        mounted: SharedMount,
        clock: Clock,
    ) -> None:
        self._find = find
        self._runtime = runtime
        self._copier = copier
        self._mounted = mounted
        self._clock = clock

    async def read(
        self,
        attempt: AttemptId,
        stream: str,
        *,
        offset: int = 0,
        limit: int = 0,
        tail: int | None = None,
        follow: bool = False,
        with_marks: bool = True,
    ) -> AsyncIterator[LogChunk]:
        """The bytes from ``offset`` on, or the last ``tail`` ones, in chunks. At most ``limit`` bytes, 0: all.

        There is always a first chunk, perhaps empty, so that the caller learns the size. With ``follow`` it goes on
        until the attempt has ended. Without, it ends with what is there now.

        Raises:
            NotFound: neither this machine nor the mount knows the attempt.
            InvalidInput: there is no such stream.
            MountUnavailable: a part of the log is only on the mount, which can't be read now.
        """
        if stream not in (*STREAMS, INDEX):
            raise InvalidInput(f"A log is one of {', '.join(STREAMS)}, not {stream!r}.")
        source = await self._source(attempt, stream)
        at = offset if tail is None else max(0, source.size - tail)
        left = limit or None
        pauses = Backoff(_MIN_PAUSE_S, _MAX_PAUSE_S, factor=1.5)
        first, marks = True, _Marks()
        while True:
            want = CHUNK_BYTES if left is None else min(CHUNK_BYTES, left)
            data = b""
            if at < source.size:
                data = await self._bytes(source, at, want)
            over = source.ended and at + len(data) >= source.size
            if data or first or over:
                new_marks: tuple[tuple[int, float], ...] = ()
                if data and with_marks:
                    new_marks = await asyncio.to_thread(_marks_of, source, marks, at, len(data))
                yield LogChunk(data, at, source.size, over, new_marks)
                first = False
            at += len(data)
            if left is not None:
                left -= len(data)
            if over or left == 0 or (not follow and at >= source.size):
                return
            if data:
                pauses.reset()
            else:
                await self._clock.sleep(pauses.next_s())
            if at >= source.size or not data:
                source = await self._source(attempt, stream)

    async def _source(self, attempt: AttemptId, stream: str) -> _Source:
        record = self._find(attempt)
        if record is None or record.launch is None or record.stage is AttemptStage.DONE:
            return await self._on_mount(attempt, stream, known=record is not None)
        ended = record.stage is not AttemptStage.LIVE
        job = self._copier.get(attempt)
        if stream == "platform":
            return _Source(len(record.platform_log), ended, tail=record.platform_log)
        if stream == INDEX:
            path = self._runtime.index(attempt)
            size = _spool_size(path)
            return _Source(size, ended, spool=path, spool_size=size)
        which = Stream.STDOUT if stream == "stdout" else Stream.STDERR
        spool = self._runtime.spool(attempt, which)
        if spool is None:
            return _Source(0, ended)
        spool_size = _spool_size(spool)
        copy = job.spools.get(stream) if job is not None else None
        tail = job.trailer if job is not None and job.final and stream == "stdout" else b""
        return _Source(
            size=spool_size + len(tail),
            ended=ended,
            mount=copy.target if copy is not None else None,
            copy=copy,
            spool=spool,
            spool_size=spool_size,
            tail=tail,
            index=self._runtime.index(attempt),
            stream=which,
        )

    async def _bytes(self, source: _Source, at: int, want: int) -> bytes:
        spool, mount = source.spool, source.mount
        if spool is not None and source.mount_until <= at < source.spool_size:
            try:
                data = await asyncio.to_thread(_pread, spool, at, min(want, source.spool_size - at))
            except OSError as error:
                # A task that is root in its container can put a link there.
                raise NotFound(f"The output is no longer where it was written: {error.strerror}.") from error
            # A hole may have been punched during this read, which then saw zeros.
            if at >= source.mount_until:
                return data
        until = source.mount_until if spool is None else min(source.mount_until, source.spool_size)
        if mount is not None and at < until:
            try:
                return await self._mounted.call(lambda: _pread(mount, at, min(want, until - at)))
            except OSError as error:
                raise MountUnavailable(f"The log can't be read on the shared mount: {error.strerror}.") from error
        start = at - source.spool_size
        return source.tail[start : start + want]

    async def _on_mount(self, attempt: AttemptId, stream: str, *, known: bool) -> _Source:
        path = self._mounted.job_folder(attempt) / f"{stream}.log"
        if self._mounted.problem:
            raise MountUnavailable(f"The log is on the shared mount, which can't be used now: {self._mounted.problem}")

        def size() -> int | None:
            try:
                return path.stat().st_size
            except FileNotFoundError:
                # A stream without a byte may have no file.
                return 0 if known or path.parent.is_dir() else None

        found = await self._mounted.call(size)
        if found is None:
            raise NotFound(f"There is no log of {attempt} here.")
        return _Source(found, ended=True, mount=path, mount_only=found)


def _spool_size(path: Path | None) -> int:
    if path is not None:
        with contextlib.suppress(FileNotFoundError):
            return path.lstat().st_size
    return 0


def _pread(path: Path, at: int, want: int) -> bytes:
    descriptor = open_regular(path)
    try:
        return os.pread(descriptor, want, at)
    finally:
        os.close(descriptor)


def _marks_of(source: _Source, marks: _Marks, at: int, length: int) -> tuple[tuple[int, float], ...]:
    """When the bytes in [at, at + length) were written, by the index. At most some hundred marks."""
    if source.index is None or source.stream is None:
        return ()
    found: list[tuple[int, float]] = []
    try:
        with os.fdopen(open_regular(source.index), "rb") as file:
            file.seek(marks.record * INDEX_RECORD_BYTES)
            while data := file.read(_INDEX_BLOCK * INDEX_RECORD_BYTES):
                for record in unpack_index(data):
                    if record.stream is source.stream:
                        if record.offset >= at + length:
                            return _thinned(found)
                        if record.offset + record.length > at:
                            found.append((max(record.offset, at), record.wall_ns / 1e9))
                    marks.record += 1
                if len(data) % INDEX_RECORD_BYTES:
                    break  # the last record is being written
    except (OSError, BoxError):
        return ()
    return _thinned(found)


def _thinned(found: list[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    if len(found) > _MAX_MARKS:
        step = -(-len(found) // _MAX_MARKS)
        found = found[::step]
    return tuple(found)
