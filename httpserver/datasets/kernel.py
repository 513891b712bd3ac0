"""What publishing asks of the kernel and Python has no call for."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
from contextlib import suppress

_libc = ctypes.CDLL(None, use_errno=True)
_FICLONE = 0x40049409
_NO_CLONE = frozenset({errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM})
_NO_LEASE = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES, errno.EPERM, errno.ENOLCK})


def clone(source: int, target: int) -> bool:
    """Makes the empty file ``target`` share the content of ``source``; False: not possible here.

    Raises:
        OSError: possible, and failed.
    """
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno in _NO_CLONE:
            return False
        raise
    return True


def sync_all(descriptor: int) -> None:
    """Everything of the file system of ``descriptor`` is on the disk after this.

    Raises:
        OSError: it is not.
    """
    if _libc.syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def open_for_writing(descriptor: int) -> bool:
    """Whether some program of this machine has the file open for writing, or mapped so; ``descriptor`` is open for
    reading. Network file systems can't tell; then it is False."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
            return True
        if error.errno in _NO_LEASE:
            return False
        raise
    with suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def remove_tree(folder: int, name: str) -> None:
    """Removes ``name`` below ``folder`` with all that is in it; fine if it isn't there. Only for trees that nobody else
    can change. However deep: no descriptor is held for each level.

    Raises:
        OSError: something can't be removed.
    """
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
            return
    except FileNotFoundError:
        return
    todo: list[tuple[str, bool]] = [(name, False)]
    while todo:
        path, emptied = todo.pop()
        if emptied:
            os.rmdir(path, dir_fd=folder)
            continue
        todo.append((path, True))
        here = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            if os.geteuid() != 0:
                os.fchmod(here, 0o700)  # a folder that can't be written keeps even its owner from emptying it
            with os.scandir(here) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
            for child, is_folder in found:
                if is_folder:
                    todo.append((f"{path}/{child}", False))
                else:
                    os.unlink(child, dir_fd=here)
        finally:
            os.close(here)
