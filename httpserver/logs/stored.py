"""Logs that lie on the shared mount."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TypeVar

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import MountUnavailable
from headway.ids import AttemptId, JobId, TaskId
from headway.logs import get_logger
from headway.mount import Layout

log = get_logger(__name__)
T = TypeVar("T")

CHUNK_BYTES = 256 * 1024
_PATIENCE_S = 15.0

# A network mount that was lost and comes back; anything else won't get better by itself.
_PASSING = frozenset({errno.ESTALE, errno.EIO, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EAGAIN})


class StoredLogs:
    """Reads below ``<mount>/jobs``.

    Every read opens the file anew, so a handle never goes stale while a reader is slow. While the mount fails, a read
    waits with growing pauses and then goes on where it was.
    """

    def __init__(self, layout: Layout, clock: Clock, *, read: Callable[[Path, int, int], bytes] | None = None) -> None:
        self._layout = layout
        self._clock = clock
        self._read = read or read_at

    def path(self, attempt: AttemptId, stream: str) -> Path:
        """Where it lies."""
        return self._layout.attempt(attempt) / f"{stream}.log"

    async def size(self, attempt: AttemptId, stream: str, *, patience_s: float = _PATIENCE_S) -> int | None:
        """Bytes there now; None if there is no such log. A mount that fails is waited for ``patience_s`` long.

        Raises:
            MountUnavailable: nobody knows its size.
        """
        return await self._patient(lambda: _size(self.path(attempt, stream)), patience_s)

    async def read(
        self, attempt: AttemptId, stream: str, start: int, end: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """From ``start`` to ``end``, or to where the file ends.

        Raises:
            MountUnavailable: the mount did not come back in time.
        """
        path = self.path(attempt, stream)
        at = start
        while end is None or at < end:
            want = CHUNK_BYTES if end is None else min(CHUNK_BYTES, end - at)
            data = await self._patient(lambda at=at, want=want: self._read(path, at, want))  # type: ignore[misc]
            if not data:
                return
            at += len(data)
            yield data

    async def latest(self, task: TaskId) -> int | None:
        """The highest attempt number that has a folder."""

        def look() -> int | None:
            try:
                names = os.listdir(self._layout.job(task.job_id) / task.name)
            except FileNotFoundError:
                return None
            return max((int(name) for name in names if name.isascii() and name.isdigit()), default=None)

        return await self._patient(look)

    async def _patient(self, call: Callable[[], T], patience_s: float = _PATIENCE_S) -> T:
        give_up_at = self._clock.monotonic() + patience_s
        pauses = Backoff(0.1, 2.0)
        while True:
            try:
                return await asyncio.to_thread(call)
            except OSError as error:
                delay_s = pauses.next_s()
                if error.errno not in _PASSING or self._clock.monotonic() + delay_s > give_up_at:
                    log.warning("logs.unreadable", reason=str(error))
                    raise MountUnavailable(
                        f"The log can't be read from the shared folder: {error.strerror}."
                    ) from error
            await self._clock.sleep(delay_s)


def attempt_of(job_id: str, task: str, number: int) -> AttemptId:
    """The id of an attempt whose job and task are known to exist."""
    return AttemptId(TaskId(JobId(job_id), task), number)


def read_at(path: Path, offset: int, length: int) -> bytes:
    """Bytes of a plain file; a link put in its place is not followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, length, offset)
    finally:
        os.close(descriptor)


def _size(path: Path) -> int | None:
    try:
        info = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return info.st_size if stat.S_ISREG(info.st_mode) else None
