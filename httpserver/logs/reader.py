"""One log of one attempt, wherever its bytes are now."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import HeadwayError, MountUnavailable, NotFound, Unavailable
from headway.ids import TaskId
from headway.logs import get_logger
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.rpc.v1 import worker_pb2 as wk

from ..peers.clients import ServiceClients
from . import merged
from .snapshot import LocatedAttempt, LogSnapshot
from .stored import StoredLogs, attempt_of

log = get_logger(__name__)

# How long a follower waits for the copy of an ended attempt whose worker doesn't answer, in looks.
_LAST_LOOKS = 10
# So much is asked of a worker at once. What a slow reader has not taken waits in gRPC on both sides, up to its window
# of some MiB a call, so a call never carries more than this.
PIECE_BYTES = 256 * 1024
_PAUSE_S = 0.3
_LONGEST_PAUSE_S = 3.0


class AttemptLogReader:
    """Finds and reads logs."""

    def __init__(self, services: ServiceClients, stored: StoredLogs, clock: Clock) -> None:
        self._services = services
        self._stored = stored
        self._clock = clock

    async def locate(self, task: TaskId, number: int) -> LocatedAttempt:
        """The attempt; ``number`` 0: the latest. With TaskManager away, what lies on the mount still counts.

        Raises:
            NotFound: there is no such attempt.
            Unavailable: TaskManager is away and the mount knows nothing of it.
        """
        request = tm.LocateAttemptRequest(task=common.Task(job_id=task.job_id, name=task.name), number=number)
        try:
            reply: tm.LocateAttemptReply = await self._services.tasks.call("LocateAttempt", request)
        except Unavailable:
            known = number or await self._stored.latest(task)
            if not known or await self._stored.size(attempt_of(task.job_id, task.name, known), "stdout") is None:
                raise
            return LocatedAttempt(known, None, "")
        return LocatedAttempt(reply.attempt.attempt.number, reply.attempt, reply.worker_address)

    async def open(
        self, task: TaskId, found: LocatedAttempt, stream: str, *, start: int = 0, tail: int | None = None
    ) -> LogSnapshot:
        """What there is now from ``start``, or the last ``tail`` bytes.

        Raises:
            MountUnavailable: neither worker nor mount can give it.
        """
        if stream == merged.BOTH:
            return await merged.opened(self, task, found, start=start, tail=tail)
        attempt = attempt_of(task.job_id, task.name, found.number)
        stored: int | None = None
        if found.ended:
            # While the mount fails the worker may have all of it still; only when it has not, the mount is waited for.
            with contextlib.suppress(MountUnavailable):
                stored = await self._stored.size(attempt, stream, patience_s=0.0)
            whole = found.bytes_of(stream)
            if stored is not None and (stored >= (whole or 0)):
                return self._from_mount(task, found, stream, stored, start, tail)
        if found.worker_address:
            try:
                return await self._from_worker(task, found, stream, start, tail)
            except (Unavailable, NotFound, MountUnavailable) as error:
                log.info("logs.worker_has_none", attempt=str(attempt), reason=error.message)
        if stored is None:
            stored = await self._stored.size(attempt, stream)
        return self._from_mount(task, found, stream, stored or 0, start, tail)

    def _from_mount(
        self, task: TaskId, found: LocatedAttempt, stream: str, size: int, start: int, tail: int | None
    ) -> LogSnapshot:
        begin = max(0, size - tail) if tail is not None else start
        attempt = attempt_of(task.job_id, task.name, found.number)
        return LogSnapshot(begin, size, found.ended, self._stored.read(attempt, stream, begin, size))

    async def _from_worker(
        self, task: TaskId, found: LocatedAttempt, stream: str, start: int, tail: int | None
    ) -> LogSnapshot:
        chunks = self._ask_worker(task, found, stream, start, tail, follow=False)
        try:
            first = await anext(chunks, None)
        except BaseException:
            await chunks.aclose()
            raise
        if first is None:
            return LogSnapshot(start, start, found.ended, _nothing())
        begin = first.offset if tail is not None or first.data else start
        return LogSnapshot(begin, first.size, found.ended, _until(first, chunks, begin, first.size))

    async def _ask_worker(
        self,
        task: TaskId,
        found: LocatedAttempt,
        stream: str,
        start: int,
        tail: int | None,
        *,
        follow: bool,
        piece: int = PIECE_BYTES,
    ) -> AsyncGenerator[wk.LogChunk, None]:
        """Each call brings ``piece`` bytes at most. The next is made once the reader has taken them."""
        at = start
        while True:
            worker = await self._services.worker(found.node_id, found.worker_address)
            request = wk.ReadLogRequest(
                attempt=common.Attempt(task=common.Task(job_id=task.job_id, name=task.name), number=found.number),
                stream=stream,
                offset=0 if tail is not None else at,
                limit=piece,
                follow=follow,
                without_marks=True,
            )
            if tail is not None:
                request.tail = tail
            got = 0
            async with aclosing(worker.parts("ReadLog", request, deadline_s=None)) as parts:
                async for chunk in parts:
                    at, got = chunk.offset + len(chunk.data), got + len(chunk.data)
                    ended = chunk.ended
                    yield chunk
                    if ended:
                        return
            if got < piece:
                return
            tail = None

    async def size_at_worker(self, task: TaskId, found: LocatedAttempt, stream: str) -> int | None:
        """Bytes of a live log now; None: its worker doesn't say. The mount may know less than was sent already."""
        sizes = []
        for one in merged.STREAMS if stream == merged.BOTH else (stream,):
            try:
                opened = await self._from_worker(task, found, one, 0, 0)
            except (Unavailable, NotFound, MountUnavailable):
                return None
            await opened.chunks.aclose()
            sizes.append(opened.size)
        return sum(sizes)

    async def follow(
        self, task: TaskId, found: LocatedAttempt, stream: str, start: int, *, piece: int = PIECE_BYTES
    ) -> AsyncGenerator[bytes, None]:
        """From ``start`` until the attempt has ended and its last byte was given. A worker or TaskManager that is
        away for a while is waited for; no byte comes twice. About ``piece`` bytes are read ahead of the reader."""
        if stream == merged.BOTH:
            async with aclosing(merged.follow(self, task, found, start, piece)) as both:
                async for data in both:
                    yield data
            return
        at, looks = start, 0
        pauses = Backoff(2 * _PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            before = at
            if found.ended:
                opened = await self.open(task, found, stream, start=at)
                async for data in opened.chunks:
                    at += len(data)
                    yield data
                whole = found.bytes_of(stream)
                if whole is None or at >= whole or looks >= _LAST_LOOKS:
                    return
                looks += 1
            elif found.worker_address:
                try:
                    asked = self._ask_worker(task, found, stream, at, None, follow=True, piece=piece)
                    async with aclosing(asked) as chunks:
                        async for chunk in chunks:
                            skip = max(0, at - chunk.offset)
                            if data := chunk.data[skip:]:
                                at += len(data)
                                yield data
                            if chunk.ended:
                                return
                except HeadwayError as error:
                    log.info("logs.follow_broke", task=str(task), reason=error.message)
            if at > before:
                pauses.reset()
                await self._clock.sleep(_PAUSE_S)
            else:
                await self._clock.sleep(pauses.next_s())
            found = await self._again(task, found)

    async def _again(self, task: TaskId, found: LocatedAttempt) -> LocatedAttempt:
        try:
            located = await self.locate(task, found.number)
        except (Unavailable, MountUnavailable):
            return found
        # What the mount alone knows must not end a follower of something that still runs.
        return located if located.view is not None else found


async def _nothing() -> AsyncGenerator[bytes, None]:
    return
    yield b""


async def _until(
    first: wk.LogChunk, rest: AsyncGenerator[wk.LogChunk, None], begin: int, end: int
) -> AsyncGenerator[bytes, None]:
    """Bytes up to ``end``: what was written since the first look would not fit the length that was promised."""
    at = begin
    try:
        chunk: wk.LogChunk | None = first
        while chunk is not None and at < end:
            data = chunk.data[max(0, at - chunk.offset) :][: end - at]
            at += len(data)
            if data:
                yield data
            chunk = await anext(rest, None)
    finally:
        await rest.aclose()
