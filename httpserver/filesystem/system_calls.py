"""System calls that Python lacks."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from contextlib import suppress

_libc = ctypes.CDLL(None, use_errno=True)
_SYS_OPENAT2 = 437
_RESOLVE_NO_XDEV = 0x01
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_RENAME_NOREPLACE = 1
# RESOLVE_BENEATH answers EAGAIN when something was renamed on the way; it can't be sure then.
_AGAIN = 32
_FICLONE = 0x40049409
_NO_CLONE = frozenset({errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM})
_NO_LEASE = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES, errno.EPERM, errno.ENOLCK})


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(root: int, path: str, flags: int, mode: int = 0, *, links: bool = True, mounts: bool = True) -> int:
    """Opens ``path`` below the folder ``root``.

    The kernel refuses (EXDEV) every way out of it, by ``..``, by links or by a rename in between. ``links=False``
    refuses (ELOOP) every link on the way and at the end. ``mounts=False`` refuses (EXDEV) what is mounted below.

    Raises:
        OSError: as open does.
    """
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | (0 if links else _RESOLVE_NO_SYMLINKS)
    resolve |= 0 if mounts else _RESOLVE_NO_XDEV
    how = _How(flags | os.O_CLOEXEC, mode, resolve)
    for _ in range(_AGAIN):
        descriptor: int = _libc.syscall(
            _SYS_OPENAT2, root, os.fsencode(path or "."), ctypes.byref(how), ctypes.sizeof(how)
        )
        if descriptor >= 0:
            return descriptor
        code = ctypes.get_errno()
        if code != errno.EAGAIN:
            raise OSError(code, os.strerror(code), path)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)


def reopen(handle: int) -> int:
    """Opens a plain file for reading, of which there is a handle (O_PATH) that was found to be one.

    Raises:
        OSError: as open does.
    """
    return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def rename_no_replace(from_folder: int, name: str, to_folder: int, new_name: str) -> None:
    """Renames within one file system unless something is at the new name already.

    Raises:
        OSError: EEXIST: something is there.
    """
    result = _libc.renameat2(from_folder, os.fsencode(name), to_folder, os.fsencode(new_name), _RENAME_NOREPLACE)
    if result == 0:
        return
    code = ctypes.get_errno()
    if code != errno.EINVAL:
        raise OSError(code, os.strerror(code), new_name)
    # Some network file systems lack it. Then a look before has to do.
    try:
        os.stat(new_name, dir_fd=to_folder, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(name, new_name, src_dir_fd=from_folder, dst_dir_fd=to_folder)
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new_name)


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
