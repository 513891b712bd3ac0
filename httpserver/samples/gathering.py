"""The samples of one attempt, wherever they are now: on the shared mount, and what its Worker has beyond that."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from headway.errors import HeadwayError, NotFound, Unavailable
from headway.ids import AttemptId, JobId, TaskId
from headway.logs import get_logger
from headway.mount import Layout
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import worker_pb2 as wk
from headway.samples.layout import MINUTE
from headway.samples.model import FILE, MINUTES_FILE
from headway.samples.reading import FileSource, Joined, SampleFile

from ..logs.snapshot import LocatedAttempt
from ..peers.clients import READ_S, ServiceClients

log = get_logger(__name__)

# Some days of eight GPUs. What a Worker has beyond that is read once it lies on the mount.
_MOST_BYTES = 64 << 20

WORKER_AWAY = "Its node does not answer now: the latest samples are missing."
WORKER_OLDER = "Its node measures nothing: its Worker is of an older version."
MOUNT_AWAY = "The shared folder can't be read now: older samples are missing."
NONE_YET = "Nothing has been measured yet."
NONE_EVER = "Nothing was measured: it ended at once, or its node measures nothing."


@dataclass(frozen=True, slots=True)
class Gathered:
    """What there is of an attempt's samples."""

    folder: Path
    at: int  # so many bytes are on the mount
    tail: bytes  # what follows them
    ended: bool
    trouble: str  # a sentence; empty: all is there

    @property
    def size(self) -> int:
        return self.at + len(self.tail)

    @contextmanager
    def files(self, *, minutes: bool = True) -> Iterator[tuple[SampleFile, SampleFile | None]]:
        """Both files, opened. It blocks, and so does reading them.

        Raises:
            OSError: the mount fails.
        """
        opened: list[int] = []
        try:
            front = _opened(self.folder / FILE, opened) if self.at else None
            samples = SampleFile(Joined(FileSource(front) if front is not None else None, self.at, self.tail))
            rolled = _opened(self.folder / MINUTES_FILE, opened) if minutes else None
            yield samples, SampleFile(FileSource(rolled), MINUTE) if rolled is not None else None
        finally:
            for descriptor in opened:
                os.close(descriptor)


class SamplePlaces:
    """Finds them."""

    def __init__(self, services: ServiceClients, layout: Layout) -> None:
        self._services = services
        self._layout = layout

    async def gather(self, task: TaskId, found: LocatedAttempt) -> Gathered:
        """What there is now. Neither mount nor Worker being away is an error: what is left counts."""
        folder = self._layout.attempt(AttemptId(TaskId(JobId(task.job_id), task.name), found.number))
        trouble = ""
        try:
            size = await asyncio.to_thread(_size, folder / FILE)
        except OSError as error:
            log.warning("samples.unreadable", reason=str(error))
            size, trouble = 0, MOUNT_AWAY
        tail = b""
        # Of one that has ended, all is on the mount soon. Until then its Worker has it.
        if found.worker_address and (not found.ended or not size):
            try:
                size, tail = await self._from_worker(task, found, size)
            except NotFound:
                pass
            except HeadwayError as error:
                log.info("samples.worker_has_none", task=str(task), reason=error.message)
                if not found.ended and not trouble:
                    trouble = WORKER_AWAY if isinstance(error, Unavailable) else WORKER_OLDER
        return Gathered(folder, size, tail, found.ended, trouble)

    async def _from_worker(self, task: TaskId, found: LocatedAttempt, start: int) -> tuple[int, bytes]:
        """Where the bytes begin, and the bytes. An answer that breaks off gives what came."""
        parts: list[bytes] = []
        at, size = start, 0
        worker = await self._services.worker(found.node_id, found.worker_address)
        request = request_of(task, found.number, start)
        async with aclosing(worker.parts("ReadSamples", request, deadline_s=READ_S)) as chunks:
            async for chunk in chunks:
                data = chunk.data[max(0, at - chunk.offset) :]
                parts.append(data)
                at, size = chunk.offset + len(chunk.data), size + len(data)
                if size >= _MOST_BYTES:
                    break
        return start, b"".join(parts)


def request_of(task: TaskId, number: int, offset: int, *, follow: bool = False) -> wk.ReadSamplesRequest:
    attempt = common.Attempt(task=common.Task(job_id=task.job_id, name=task.name), number=number)
    return wk.ReadSamplesRequest(attempt=attempt, offset=offset, follow=follow)


def _size(path: Path) -> int:
    """Zero: there is no such file."""
    try:
        info = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return info.st_size if stat.S_ISREG(info.st_mode) else 0


def _opened(path: Path, into: list[int]) -> int | None:
    """A plain file; a link put in its place is not followed. None: there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    into.append(descriptor)
    return descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
