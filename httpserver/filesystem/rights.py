"""The rights with which one thread touches files."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager

_libc = ctypes.CDLL(None, use_errno=True)
_SYS_SETGROUPS = {"x86_64": 116, "aarch64": 159}.get(platform.machine())


def drop_groups() -> None:
    """Takes the supplementary groups from the calling thread alone; glibc's own call would take them from all."""
    if os.geteuid() == 0 and _SYS_SETGROUPS is not None and _libc.syscall(_SYS_SETGROUPS, 0, None) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@contextmanager
def acting_as(uid: int, gid: int) -> Iterator[None]:
    """File calls of this thread have the rights of ``uid`` and ``gid``, also where root could do more.

    Without root there is nothing to change: the process has its own files only.

    Raises:
        PermissionError: the kernel did not take them.
    """
    if os.geteuid() != 0:
        yield
        return
    # Both calls work per thread and answer the value before, never an error. A second call shows whether it worked.
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    try:
        if _libc.setfsuid(-1) != uid or _libc.setfsgid(-1) != gid:
            raise PermissionError(errno.EPERM, "the kernel does not let this process act as the account")
        yield
    finally:
        _libc.setfsuid(0)
        _libc.setfsgid(0)
