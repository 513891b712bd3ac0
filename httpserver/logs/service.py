"""Logs over HTTP: whole, ranges, tails, followed, and all of a job as one ZIP archive."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing

from fastapi.responses import StreamingResponse
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headway.clock import Clock
from headway.errors import NotFound, RangeInvalid
from headway.ids import JobId, TaskId, is_task_name
from headway.rpc.v1 import task_manager_pb2 as tm

from .. import schemas as s
from ..auth.model import Account
from ..http import ranges
from ..http.disposition import attachment
from ..jobs.service import Jobs
from . import lines, times
from .archive import LogArchiveEntry, archive
from .feed import PIECE_BYTES, OpenedLog, Opener, feed
from .places import FollowPlaces
from .reader import AttemptLogReader
from .snapshot import LocatedAttempt, LogSnapshot

_STREAMS = ("stdout", "stderr", "platform")


class Logs:
    """Owner and admins only: what a task prints is as private as what it is told."""

    def __init__(self, jobs: Jobs, reader: AttemptLogReader, clock: Clock) -> None:
        self._jobs = jobs
        self._reader = reader
        self._clock = clock
        self.streams = 0  # answers that follow several logs
        self.places = FollowPlaces()

    async def respond(
        self,
        account: Account,
        ref: str,
        task_name: str,
        number: int,
        stream: str,
        *,
        byte_range: str | None,
        tail: int | None,
        offset: int | None,
        follow: bool,
    ) -> Response:
        """The answer to one log request; ``number`` 0: the latest attempt.

        Raises:
            NotAllowed: somebody else's job.
            NotFound: no such task or attempt.
            RangeInvalid: the range starts beyond the end (of a log that ended, when following).
        """
        task, found = await self._found(account, ref, task_name, number)
        headers = {
            # Shown by nothing: what a task printed must not become a page of this origin (see also nosniff, CSP).
            "Content-Disposition": attachment(f"{task.job_id}.{task_name}.{found.number}.{stream}.log"),
            "X-Log-Attempt": str(found.number),
            "X-Log-Ended": "true" if found.ended else "false",
            "Accept-Ranges": "bytes",
        }
        wanted = ranges.parse(byte_range) if tail is None and offset is None else None
        if follow:
            start = wanted.first if wanted is not None and wanted.first is not None else offset or 0
            suffix = wanted.last if wanted is not None and wanted.first is None else tail
            start = await self._start(task, found, stream, start, suffix)
            headers |= {"X-Log-Offset": str(start), "X-Accel-Buffering": "no"}
            return _stream(self._reader.follow(task, found, stream, start), 200, headers)
        if wanted is not None:
            return await self._range(task, found, stream, wanted, headers)
        opened = await self._reader.open(task, found, stream, start=offset or 0, tail=tail)
        headers["X-Log-Offset"] = str(min(opened.start, opened.size))
        headers["Content-Length"] = str(max(0, opened.size - opened.start))
        return _stream(opened.chunks, 200, headers)

    def follow(self, account: Account, wanted: Sequence[s.FollowedLog], still_allowed: Callable[[], bool]) -> Response:
        """Frames of several logs; what would be refused alone is a frame of its own.

        A log that is wanted from the same byte on more than once is read once.
        """
        places: dict[str, list[int]] = {}
        for number, one in enumerate(wanted):
            places.setdefault(one.model_dump_json(), []).append(number)
        logs = [wanted[numbers[0]] for numbers in places.values()]
        # Both streams in order are three logs that are read: each of them, and their index.
        cost = sum(3 if one.stream is s.LogStream.BOTH else 1 for one in logs)
        frames = self._frames(account, logs, list(places.values()), still_allowed)
        return _Following(frames, self.places, account.name, cost)

    async def _frames(
        self,
        account: Account,
        wanted: Sequence[s.FollowedLog],
        numbers: Sequence[Sequence[int]],
        still_allowed: Callable[[], bool],
    ) -> AsyncGenerator[bytes, None]:

        def opener(one: s.FollowedLog) -> Opener:
            async def opened() -> OpenedLog:
                task, found = await self._found(account, one.job, one.task, one.attempt)
                start = await self._start(task, found, one.stream, one.offset or 0, one.tail)
                if start and one.tail is None and not found.ended and found.worker_address:
                    size = await self._reader.size_at_worker(task, found, one.stream)
                    if size is not None and start > size:
                        raise RangeInvalid(f"The log has {size} bytes so far; the offset lies beyond.")
                chunks = self._reader.follow(task, found, one.stream, start, piece=PIECE_BYTES)
                return OpenedLog(found.number, start, found.ended, chunks)

            return opened

        self.streams += 1
        try:
            openers = [opener(one) for one in wanted]
            async with aclosing(feed(openers, self._clock, still_allowed, numbers)) as frames:
                async for some in frames:
                    yield some
        finally:
            self.streams -= 1

    async def _start(self, task: TaskId, found: LocatedAttempt, stream: str, start: int, tail: int | None) -> int:
        """The byte at which a follower begins."""
        if tail is not None:
            opened = await self._reader.open(task, found, stream, tail=tail)
            await _close(opened)
            return opened.start
        if start and found.ended:
            opened = await self._reader.open(task, found, stream, start=start)
            await _close(opened)
            if start > opened.size:
                raise _outside(opened.size)
        return start

    async def line(
        self, account: Account, ref: str, task_name: str, number: int, stream: str, *, line: int | None, offset: int
    ) -> s.LogLine:
        """Where a line begins: that of this number, or the one that has the byte at ``offset``.

        Raises:
            NotAllowed: somebody else's job.
            NotFound: no such task or attempt.
        """
        task, found = await self._found(account, ref, task_name, number)
        opened = await self._reader.open(task, found, stream)
        try:
            wanted = lines.line_at(opened.chunks, offset) if line is None else lines.begin_of(opened.chunks, line)
            seen, begin = await wanted
        finally:
            await _close(opened)
        return s.LogLine(line=seen, offset=begin, size=opened.size, ended=found.ended)

    async def times(
        self, account: Account, ref: str, task_name: str, number: int, stream: str, *, offset: int, length: int
    ) -> s.LogTimes:
        """When the bytes from ``offset`` on came.

        Raises:
            NotAllowed: somebody else's job.
            NotFound: no such task or attempt.
        """
        task, found = await self._found(account, ref, task_name, number)
        marks = await times.times_of(self._reader, task, found, stream, offset, length)
        return s.LogTimes(offsets=marks.offsets, at=marks.at, end=marks.end, ended=found.ended)

    async def _found(self, account: Account, ref: str, task_name: str, number: int) -> tuple[TaskId, LocatedAttempt]:
        job = await self._jobs.own(account, ref)
        if not is_task_name(task_name):
            raise NotFound(f"The job {job.id} has no task `{task_name[:64]}`.")
        task = TaskId(JobId(job.id), task_name)
        try:
            return task, await self._reader.locate(task, number)
        except NotFound:
            await self._jobs.check_task(job.id, task_name)
            raise

    async def _range(
        self, task: TaskId, found: LocatedAttempt, stream: str, wanted: ranges.ByteRange, headers: dict[str, str]
    ) -> Response:
        tail = wanted.last if wanted.first is None else None
        opened = await self._reader.open(task, found, stream, start=wanted.first or 0, tail=tail)
        try:
            start, length = wanted.of(opened.size)
        except RangeInvalid:
            await _close(opened)
            raise
        headers["X-Log-Offset"] = str(start)
        headers["Content-Length"] = str(length)
        headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{opened.size}"
        return _stream(_first(opened.chunks, length), 206, headers)

    async def zip(self, account: Account, ref: str) -> tuple[str, AsyncIterator[bytes]]:
        """File name and bytes of an archive of all logs, ``<task>/<attempt>/stdout.log`` and so on.

        Raises:
            NotAllowed: somebody else's job.
            Unavailable: TaskManager, which knows the attempts, is away.
        """
        job = await self._jobs.own(account, ref)
        attempts = await self._jobs.attempts(job.id)
        return f"{job.id}-logs.zip", archive(self._entries(JobId(job.id), attempts))

    async def _entries(
        self, job_id: JobId, attempts: Mapping[str, Sequence[tm.AttemptView]]
    ) -> AsyncIterator[LogArchiveEntry]:
        for name, of_task in attempts.items():
            task = TaskId(job_id, name)
            for view in of_task:
                found = await self._reader.locate(task, view.attempt.number)
                for stream in _STREAMS:
                    opened = await self._reader.open(task, found, stream)
                    if opened.size:
                        yield LogArchiveEntry(f"{name}/{found.number}/{stream}.log", opened.size, opened.chunks)
                    else:
                        await _close(opened)


class _Following(StreamingResponse):
    """Holds its places for as long as it is sent, however that ends."""

    def __init__(self, frames: AsyncGenerator[bytes, None], places: FollowPlaces, account: str, cost: int) -> None:
        super().__init__(
            frames,
            media_type="application/octet-stream",
            headers={"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"},
        )
        self._places = places
        self._account = account
        self._cost = cost

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._places.taken(self._account, self._cost):
            await super().__call__(scope, receive, send)


def _stream(chunks: AsyncIterator[bytes], status: int, headers: dict[str, str]) -> Response:
    response = StreamingResponse(chunks, status, headers)
    # Set by hand: Starlette would add a charset, and nobody knows what a task writes.
    response.headers["Content-Type"] = "text/plain"
    return response


def _outside(size: int) -> RangeInvalid:
    return RangeInvalid(f"The log has {size} bytes and has ended; the range lies beyond.", extra={"size": size})


async def _first(chunks: AsyncGenerator[bytes, None], length: int) -> AsyncIterator[bytes]:
    try:
        async for chunk in chunks:
            yield chunk[:length]
            length -= len(chunk)
            if length <= 0:
                return
    finally:
        await chunks.aclose()


async def _close(opened: LogSnapshot) -> None:
    await opened.chunks.aclose()
