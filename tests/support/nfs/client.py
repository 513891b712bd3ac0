"""One client's mount: `python -m tests.support.nfs.client EXPORT MOUNT CONTROL [options]`; runs until it is unmounted.

What it does as an NFS client and its server do:

* Each call counts as its caller, by fsuid. With `--squash` uid 0 is nobody: it owns what it makes, and gives none away.
* Attributes and names, missing ones too, are believed for `--late` seconds, as with `acregmax` and `lookupcache=all`.
* What is written lies with the client until flush or fsync. Only they tell that the server's disk is full.
* A file that this client removes while it has it open is renamed to `.nfs…` until the last close: a silly rename.
* A file that another client removed is stale (ESTALE) for whoever has it open here.
* `flock` is asked of the server, so it counts among all clients.
* While CONTROL/down is there, every call waits, as on a hard mount whose server is away.
* While CONTROL/full is there, the server takes no more data.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import fcntl
import itertools
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mfusepy import FUSE, FuseOSError, Operations, fuse_get_context

_NOBODY = 65_534
_LIBC = ctypes.CDLL(None, use_errno=True)
_WAIT_S = 0.02
_STATFS = ["f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_frsize", "f_namemax"]


@dataclass
class _Open:
    """An open file: the server's descriptor and what it has not been told yet."""

    fd: int
    path: str
    waiting: list[tuple[int, bytes]] = field(default_factory=list)
    refused: int = 0  # what the server said to data that was sent for somebody else's question
    lock: threading.Lock = field(default_factory=threading.Lock)


class NfsClient(Operations):  # type: ignore[misc]
    """See the module. ``export`` is the server's folder."""

    use_ns = True

    def __init__(self, export: Path, control: Path, *, squash: bool) -> None:
        self._export = str(export)
        self._down = control / "down"
        self._full = control / "full"
        self._squash = squash
        self._open: dict[int, _Open] = {}
        self._numbers = itertools.count(1)
        self._silly: dict[str, str] = {}  # path of the silly file -> same, as long as it is open
        self._table = threading.Lock()

    # -- the wire ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _call(self) -> Iterator[None]:
        """One call to the server, as its caller."""
        while self._down.exists():
            time.sleep(_WAIT_S)
        uid, gid, _ = fuse_get_context()
        if self._squash and uid == 0:
            uid = gid = _NOBODY
        _LIBC.setfsgid(gid)
        _LIBC.setfsuid(uid)
        try:
            yield
        except FuseOSError:
            raise
        except OSError as error:
            raise FuseOSError(error.errno or errno.EIO) from error
        finally:
            _LIBC.setfsuid(0)
            _LIBC.setfsgid(0)

    def _on_server(self, path: str) -> str:
        return self._export + path

    def _of(self, fh: int) -> _Open:
        with self._table:
            file = self._open.get(fh)
        if file is None:
            raise FuseOSError(errno.ESTALE)
        return file

    def _fresh(self, file: _Open) -> int:
        """The descriptor, unless another client has removed the file."""
        if os.fstat(file.fd).st_nlink == 0:
            raise FuseOSError(errno.ESTALE)
        return file.fd

    def _send(self, file: _Open) -> None:
        """Tells the server what was written; it may refuse."""
        with file.lock:
            waiting, file.waiting = file.waiting, []
            refused, file.refused = file.refused, 0
        if refused:
            raise FuseOSError(refused)
        if not waiting:
            return
        fd = self._fresh(file)
        for offset, data in waiting:
            if self._full.exists():
                raise FuseOSError(errno.ENOSPC)
            os.pwrite(fd, data, offset)

    def _send_all(self, path: str) -> None:
        """A client sends what it holds of a file before it asks for the file's size."""
        with self._table:
            mine = [file for file in self._open.values() if file.path == path and file.waiting]
        for file in mine:
            try:
                self._send(file)
            except OSError as error:  # whoever wrote is told at its own flush
                file.refused = error.errno or errno.EIO

    # -- names ------------------------------------------------------------------------------------

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        with self._call():
            self._send_all(path)
            info = os.lstat(self._on_server(path)) if fh is None else os.fstat(self._fresh(self._of(fh)))
        found = {key: getattr(info, key) for key in ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks")}
        return found | {"st_atime": info.st_atime_ns, "st_mtime": info.st_mtime_ns, "st_ctime": info.st_ctime_ns}

    def readdir(self, path: str, fh: int) -> list[str]:
        with self._call():
            return [".", "..", *os.listdir(self._on_server(path))]

    def readlink(self, path: str) -> str:
        with self._call():
            return os.readlink(self._on_server(path))

    def access(self, path: str, amode: int) -> int:
        with self._call():
            # The real uid is root's: what the server says of the caller is found by opening.
            if amode & os.R_OK and not os.path.isdir(self._on_server(path)) and os.path.isfile(self._on_server(path)):
                os.close(os.open(self._on_server(path), os.O_RDONLY | os.O_NONBLOCK))
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        with self._call():
            os.mkdir(self._on_server(path), mode)
        return 0

    def rmdir(self, path: str) -> int:
        with self._call():
            os.rmdir(self._on_server(path))
        return 0

    def symlink(self, target: str, source: str) -> int:
        with self._call():
            os.symlink(source, self._on_server(target))
        return 0

    def link(self, target: str, source: str) -> int:
        with self._call():
            os.link(self._on_server(source), self._on_server(target), follow_symlinks=False)
        return 0

    def mknod(self, path: str, mode: int, dev: int) -> int:
        with self._call():
            os.mknod(self._on_server(path), mode, dev)
        return 0

    def rename(self, old: str, new: str) -> int:
        with self._call():
            with self._table:
                replaced = [file for file in self._open.values() if file.path == new]
            if replaced and os.path.isfile(self._on_server(old)):
                self._rename_silly(new)
            os.rename(self._on_server(old), self._on_server(new))
            with self._table:
                for file in self._open.values():
                    if file.path == old or file.path.startswith(f"{old}/"):
                        file.path = new + file.path[len(old) :]
        return 0

    def unlink(self, path: str) -> int:
        with self._call():
            with self._table:
                is_open = any(file.path == path for file in self._open.values())
            if is_open and not os.path.basename(path).startswith(".nfs"):
                self._rename_silly(path)
            elif is_open:
                raise FuseOSError(errno.EBUSY)
            else:
                os.unlink(self._on_server(path))
        return 0

    def _rename_silly(self, path: str) -> None:
        silly = f"{os.path.dirname(path).rstrip('/')}/.nfs{os.getpid():08x}{next(self._numbers):08x}"
        os.rename(self._on_server(path), self._on_server(silly))
        with self._table:
            self._silly[silly] = silly
            for file in self._open.values():
                if file.path == path:
                    file.path = silly

    # -- attributes -------------------------------------------------------------------------------

    def chmod(self, path: str, mode: int) -> int:
        with self._call():
            os.chmod(self._on_server(path), mode)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        with self._call():
            # What changes nothing is no change: -1 comes as the greatest number.
            os.chown(self._on_server(path), _id(uid), _id(gid), follow_symlinks=False)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        with self._call():
            if times is None:
                os.utime(self._on_server(path), follow_symlinks=False)
            else:
                os.utime(self._on_server(path), ns=times, follow_symlinks=False)
        return 0

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        with self._call():
            self._send_all(path)
            if fh:
                os.ftruncate(self._fresh(self._of(fh)), length)
            else:
                os.truncate(self._on_server(path), length)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        with self._call():
            info = os.statvfs(self._on_server(path))
        return {key: getattr(info, key) for key in _STATFS}

    # -- data -------------------------------------------------------------------------------------

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        with self._call():
            return self._opened(os.open(self._on_server(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode), path)

    def open(self, path: str, flags: int) -> int:
        with self._call():
            self._send_all(path)  # close-to-open: who opens sees what was closed
            # Pages are read back before they are written, also where a program opens for writing alone; who appends
            # says where by itself.
            flags &= ~(os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_DIRECT", 0))
            return self._opened(os.open(self._on_server(path), flags | os.O_CLOEXEC), path)

    def _opened(self, fd: int, path: str) -> int:
        with self._table:
            fh = next(self._numbers)
            self._open[fh] = _Open(fd, path)
        return fh

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        with self._call():
            file = self._of(fh)
            self._send_all(file.path)
            return os.pread(self._fresh(file), size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        with self._call():
            file = self._of(fh)
            self._fresh(file)
            with file.lock:
                file.waiting.append((offset, bytes(data)))
        return len(data)

    def flush(self, path: str, fh: int) -> int:
        with self._call():
            self._send(self._of(fh))
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        with self._call():
            file = self._of(fh)
            self._send(file)
            os.fsync(file.fd)
        return 0

    def release(self, path: str, fh: int) -> int:
        with self._call():
            with self._table:
                file = self._open.pop(fh, None)
                last = file is not None and not any(other.path == file.path for other in self._open.values())
                silly = self._silly.pop(file.path, None) if file is not None and last else None
            if file is not None:
                with contextlib.suppress(FuseOSError, OSError):
                    self._send(file)
                os.close(file.fd)
            if silly is not None:
                with contextlib.suppress(OSError):
                    os.unlink(self._on_server(silly))
        return 0

    def flock(self, path: str, fh: int, op: int) -> int:
        with self._call():
            fd = self._of(fh).fd
            while True:
                try:
                    fcntl.flock(fd, op | fcntl.LOCK_NB)
                    return 0
                except BlockingIOError:
                    if op & fcntl.LOCK_NB:
                        raise
                time.sleep(_WAIT_S)


def _id(number: int) -> int:
    return -1 if number in (-1, 0xFFFF_FFFF) else number


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("export", type=Path)
    parser.add_argument("mount", type=Path)
    parser.add_argument("control", type=Path)
    parser.add_argument("--squash", action="store_true")
    parser.add_argument("--late", type=float, default=0.0)
    given = parser.parse_args()
    os.umask(0)
    os.setgroups([])
    FUSE(
        NfsClient(given.export, given.control, squash=given.squash),
        str(given.mount),
        foreground=True,
        nothreads=False,
        allow_other=True,
        default_permissions=False,
        hard_remove=True,
        attr_timeout=given.late,
        entry_timeout=given.late,
        negative_timeout=given.late,
        ac_attr_timeout=given.late,
        fsname="server:/export",
        subtype="nfs",
    )


if __name__ == "__main__":
    main()
