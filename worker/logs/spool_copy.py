"""Copies one raw spool from the local disk to the shared mount, byte for byte.

Bytes are read and written at the same offset, so a part may be copied again at any time. The copy may be late, be
interrupted, or find the mount full, stale or gone.
What has been fsynced on the mount is freed in the spool by punching a hole, so a long log is on disk only once.
The hole also shows a restarted Worker how far the copy was.

All functions block; call them in a thread.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..box import open_regular

_CHUNK = 1 << 20
_BLOCK = 4096
PUNCH_BYTES = 8 << 20  # copied between two fsyncs, which are slow on a network mount
_FALLOC_FL_KEEP_SIZE = 1
_FALLOC_FL_PUNCH_HOLE = 2

# What a shared mount answers while it is full, over quota, restarting, stale, read-only or gone.
TRANSIENT_ERRORS = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.ESTALE,
        errno.EIO,
        errno.ETIMEDOUT,
        errno.EROFS,
        errno.ENOTCONN,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EACCES,
        errno.EPERM,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.ENXIO,
        errno.ENODEV,
    }
)


@dataclass(slots=True)
class SpoolCopy:
    """How far the copy of one stream is.

    ``copied`` bytes were written to the mount, and ``safe`` of them fsynced. Whole safe blocks are freed in the spool.
    """

    source: Path
    target: Path
    copied: int = 0
    safe: int = 0
    punch: bool = True
    _resumed: bool = field(default=False)

    def step(
        self,
        *,
        final: bool = False,
        trailer: bytes = b"",
        budget: int = 64 << 20,
        reach: Callable[[], Path] | None = None,
    ) -> bool:
        """Copy what is new, about ``budget`` bytes at most. True: nothing is left to do now.

        With ``final`` the spool does not grow any more. Then ``trailer`` follows its last byte, and True means that all
        is fsynced. ``reach`` is called before the target is touched. It gives a path to its folder, or raises OSError
        when the mount isn't mounted. Raises OSError. Call again later, nothing is lost.
        """
        if not self._resumed:
            self.copied = self.safe = _first_data(self.source)
            self._resumed = True
        size = _size(self.source)
        whole = size + len(trailer) if final else size
        if self.copied >= whole and not (final and self.safe < whole):
            return True
        folder = self.target.parent if reach is None else reach()
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        descriptor = os.open(folder / self.target.name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
        try:
            self._resume(descriptor)
            stop_at = min(whole, self.copied + budget)
            if final or min(size, stop_at) - self.safe >= PUNCH_BYTES:
                # An fsync covers what was written through its own descriptor. What an earlier one wrote may be lost
                # without an error: GlusterFS flushes after the close, and on a full disk a hole stays. So it is written
                # once more, which is never much.
                self.copied = self.safe
            self._copy(descriptor, min(size, stop_at))
            if final and self.copied >= size and stop_at >= whole:
                _write_all(descriptor, trailer[self.copied - size :], self.copied)
                if os.fstat(descriptor).st_size > whole:
                    # An earlier try wrote a longer trailer. The file is only made shorter: if it were made longer, its
                    # zeros would look like output.
                    os.ftruncate(descriptor, whole)
                self.copied = whole
            if self.copied - self.safe >= PUNCH_BYTES or (final and self.copied >= whole):
                self._secure(descriptor, size)
        finally:
            os.close(descriptor)
        return self.copied >= whole and (not final or self.safe >= whole)

    def _resume(self, descriptor: int) -> None:
        # The mount may lose bytes that were not fsynced, when its server restarts. The spool still has them.
        there = os.fstat(descriptor).st_size
        if there < self.copied:
            self.copied = max(there, self.safe)

    def _copy(self, descriptor: int, until: int) -> None:
        if self.copied >= until:
            return
        with os.fdopen(open_regular(self.source), "rb", buffering=0) as source:
            source.seek(self.copied)
            while self.copied < until:
                data = source.read(min(_CHUNK, until - self.copied))
                if not data:
                    return
                _write_all(descriptor, data, self.copied)
                self.copied += len(data)
                if self.copied - self.safe >= PUNCH_BYTES:
                    self._secure(descriptor, until)

    def _secure(self, descriptor: int, spool_size: int) -> None:
        os.fsync(descriptor)
        before, self.safe = self.safe, self.copied
        if self.punch:
            start = before // _BLOCK * _BLOCK
            end = min(self.safe, spool_size) // _BLOCK * _BLOCK
            if end > start:
                _punch_hole(self.source, start, end - start)


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _first_data(path: Path) -> int:
    """Where the hole at the front ends. All bytes before it are fsynced on the mount."""
    try:
        with os.fdopen(open_regular(path), "rb", buffering=0) as file:
            try:
                return os.lseek(file.fileno(), 0, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole
                    return os.fstat(file.fileno()).st_size // _BLOCK * _BLOCK
                return 0
    except FileNotFoundError:
        return 0


_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def _punch_hole(path: Path, offset: int, length: int) -> None:
    """Free disk space. A file system that can't keeps the bytes, which is harmless."""
    try:
        descriptor = open_regular(path, os.O_WRONLY)
    except OSError:
        return
    try:
        _libc.fallocate(descriptor, _FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE, offset, length)
    finally:
        os.close(descriptor)
