"""The files of uploads on the shared mount, each touched with the rights of its place."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headway.clock import Clock
from headway.errors import HeadwayError, MountUnavailable, StoreFull
from headway.mount import Layout, MountKind, MountProbe, reach

from ..filesystem.rights import acting_as, drop_groups
from ..filesystem.system_calls import open_beneath
from . import tus
from .errors import UploadOver
from .ports import FinishWatch, UploadPlace

T = TypeVar("T")

_THREADS = 4
_MOUNT_LOOK_S = 3.0
_READ_BYTES = 1 << 20
_TRIES = 5
_FOLDER = os.O_PATH | os.O_DIRECTORY
_NOTHING_THERE = frozenset({errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EXDEV})
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class UploadFiles:
    """Blocking calls run in a few threads of their own, so that a slow disk delays uploads and nothing else."""

    def __init__(self, layout: Layout, mount: MountProbe, cluster: str, clock: Clock) -> None:
        self._layout = layout
        self._mount = mount
        self._cluster = cluster
        self._clock = clock
        self._mount_good_until = -math.inf
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="uploads", initializer=drop_groups)

    def close(self) -> None:
        """Lets go of the threads; those that hang on a dead mount are left behind."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def require(self, *, adds: bool) -> None:
        """
        Raises:
            MountUnavailable: the mount is away.
            StoreFull: it is full, and ``adds``.
        """
        if self._clock.monotonic() > self._mount_good_until:
            state = await self._mount.require(*(() if adds else (MountKind.FULL,)))
            if state.ok:
                self._mount_good_until = self._clock.monotonic() + _MOUNT_LOOK_S

    async def run(self, work: Callable[[], T]) -> T:
        """``work()`` in one of the threads, with OSErrors turned into HeadwayErrors."""

        def working() -> T:
            with os_errors_explained():
                return work()

        return await asyncio.get_running_loop().run_in_executor(self._threads, working)

    async def free_bytes(self, place: UploadPlace) -> int:
        """What the file system of the place has left for others than root."""

        def look() -> int:
            with reach(self._layout, self._cluster, self._layout.root / place.folder) as folder:
                found = os.statvfs(folder)
            return found.f_bavail * found.f_frsize

        return await self.run(look)

    async def create(self, place: UploadPlace) -> None:
        """Makes the empty file, and the folder that its name says.

        Raises:
            StoreFull, MountUnavailable, HeadwayError: it can't be made.
        """

        def make() -> None:
            with self._beneath(place) as folder:
                parent = place.name.rpartition("/")[0]
                for left in reversed(range(_TRIES)):
                    if parent:
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(parent, 0o700, dir_fd=folder)
                    try:
                        os.close(open_beneath(folder, place.name, _NEW, 0o600, links=False))
                    except FileNotFoundError:
                        if not left:  # else another upload's end took the folder away just now
                            raise
                    else:
                        return

        await self.run(make)

    async def size(self, place: UploadPlace) -> int | None:
        """In bytes; None if there is no file."""

        def look() -> int | None:
            with self._beneath(place) as folder:
                try:
                    handle = open_beneath(folder, place.name, os.O_PATH, links=False)
                except FileNotFoundError:
                    return None
            try:
                return os.fstat(handle).st_size
            finally:
                os.close(handle)

        return await self.run(look)

    async def open(self, place: UploadPlace) -> tuple[int, int]:
        """A descriptor to write with, and read; the caller closes it. And how many bytes are there.

        Raises:
            UploadOver: there is no file.
        """

        def opening() -> tuple[int, int]:
            with self._beneath(place) as folder:
                flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
                descriptor = open_beneath(folder, place.name, flags, links=False)
            return descriptor, os.fstat(descriptor).st_size

        return await self.run(opening)

    async def cut(self, place: UploadPlace, size: int) -> None:
        """Throws away what lies behind ``size`` bytes."""
        descriptor, _ = await self.open(place)
        try:
            await self.run(lambda: os.ftruncate(descriptor, size))
        finally:
            os.close(descriptor)

    async def remove(self, place: UploadPlace) -> None:
        """Fine if nothing is there."""

        def removing() -> None:
            with self._beneath(place) as folder:
                parent, _, last = place.name.rpartition("/")
                try:
                    holder = open_beneath(folder, parent, _FOLDER, links=False)
                except OSError as error:
                    if error.errno in _NOTHING_THERE:
                        return
                    raise
                try:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(last, dir_fd=holder)
                finally:
                    os.close(holder)
                if parent:
                    with contextlib.suppress(OSError):  # others are in it
                        os.rmdir(parent, dir_fd=folder)

        await self.run(removing)

    async def complete(self, place: UploadPlace, length: int, known: RunningDigest | None, watch: FinishWatch) -> str:
        """Brings the bytes to the disk; answers the SHA-256 of all when ``known`` is given, which knows that of the
        beginning.

        Raises:
            UploadOver: somebody changed the file.
        """
        descriptor, size = await self.open(place)

        def completing() -> str:
            if size != length:
                raise UploadOver("The stored bytes were changed from outside while the upload was checked.")
            os.fsync(descriptor)
            if known is None:
                return ""
            while known.bytes < length and not watch.cancelled():
                data = os.pread(descriptor, _READ_BYTES, known.bytes)
                if not data:
                    raise UploadOver("The stored bytes were changed from outside while the upload was checked.")
                known.add(data)
                watch.report(known.bytes, length)
            return known.hash.hexdigest()

        # The thread closes it: it goes on where the caller is cancelled.
        def closing() -> str:
            try:
                return completing()
            finally:
                os.close(descriptor)

        return await self.run(closing)

    @contextlib.contextmanager
    def _beneath(self, place: UploadPlace) -> Iterator[int]:
        with reach(self._layout, self._cluster, self._layout.root / place.folder) as path:
            folder = os.open(path, _FOLDER | os.O_CLOEXEC)
        try:
            if place.uid is None or place.gid is None:
                yield folder
            else:
                with acting_as(place.uid, place.gid):
                    yield folder
        finally:
            os.close(folder)


class RunningDigest:
    """The SHA-256 of so many bytes of a file."""

    def __init__(self) -> None:
        self.hash = tus.new_hash("sha256")
        self.bytes = 0

    def add(self, data: bytes | memoryview) -> None:
        """The next bytes."""
        self.hash.update(data)
        self.bytes += len(data)

    def copy(self) -> RunningDigest:
        """To go back to."""
        other = RunningDigest()
        other.hash, other.bytes = self.hash.copy(), self.bytes
        return other


@contextlib.contextmanager
def os_errors_explained() -> Iterator[None]:
    """Turns OSErrors into HeadwayErrors that explain them."""
    try:
        yield
    except OSError as error:
        raise _in_words(error) from error


def _in_words(error: OSError) -> HeadwayError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull("The shared folder is full, or the account's quota is used up.")
    if error.errno in _NOTHING_THERE:
        return UploadOver("The bytes of this upload are not there any more; start it anew.")
    if error.errno == errno.EROFS:
        return MountUnavailable("The shared folder can only be read now; try again when it is mended.")
    return MountUnavailable(f"The shared folder can't do that now: {error.strerror}.")
