"""The two system calls that Python lacks, and file rights of one thread."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager

_libc = ctypes.CDLL(None, use_errno=True)
_SYS_OPENAT2 = 437
_SYS_SETGROUPS = {"x86_64": 116, "aarch64": 159}.get(platform.machine())
_RESOLVE_NO_XDEV = 0x01
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_RENAME_NOREPLACE = 1
# RESOLVE_BENEATH answers EAGAIN when something was renamed on the way; it can't be sure then.
_AGAIN = 32


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(root: int, path: str, flags: int, mode: int = 0, *, links: bool = True, mounts: bool = True) -> int:
    """Opens ``path`` below the folder ``root``; the kernel refuses (EXDEV) every way out of it, by ``..``, by links
    or by a rename in between. ``links=False`` refuses (ELOOP) every link on the way and at the end, ``mounts=False``
    (EXDEV) what is mounted below.

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


def drop_groups() -> None:
    """Takes the supplementary groups from the calling thread alone; glibc's own call would take them from all."""
    if os.geteuid() == 0 and _SYS_SETGROUPS is not None and _libc.syscall(_SYS_SETGROUPS, 0, None) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@contextmanager
def acting_as(uid: int, gid: int) -> Iterator[None]:
    """File calls of this thread count as those of ``uid`` and ``gid``, root's power over files included. Without root
    there is nothing to change: the process has its own files only.

    Raises:
        PermissionError: the kernel did not take them.
    """
    if os.geteuid() != 0:
        yield
        return
    # They are per thread, and tell the value before, never an error: the second call tells whether the first worked.
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    try:
        if _libc.setfsuid(-1) != uid or _libc.setfsgid(-1) != gid:
            raise PermissionError(errno.EPERM, "the kernel does not let this process act as the account")
        yield
    finally:
        _libc.setfsuid(0)
        _libc.setfsgid(0)
