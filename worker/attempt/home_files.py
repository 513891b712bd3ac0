"""Files in an account's home: copies of logs, and files that a task left there as another user.

The home's owner may try to mislead the Worker with links. So every step goes by folder descriptors and follows no link.
Files are written with the rights of the account. All functions block.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOGS = ("stdout.log", "stderr.log")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


def publish(logs: Path, home: Path, folder: str, *, uid: int, gid: int) -> None:
    """Copy stdout.log and stderr.log from ``logs`` into ``home/folder``, which is made if it is missing.

    Each file appears in one step, so a reader sees a whole one. ``folder`` is relative and has no ``..``.

    Raises OSError: the home is full, or a part of the path is a link or no folder.
    """
    sources = {}
    try:
        for name in LOGS:
            try:
                sources[name] = os.open(logs / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # it printed nothing there
        with _rights_of(uid, gid):
            target = _folder_below(home, folder)
            try:
                for name, source in sources.items():
                    _put(source, target, name)
            finally:
                os.close(target)
    finally:
        for source in sources.values():
            os.close(source)


def give_to(home: Path, *, uid: int, gid: int) -> int:
    """Make the account the owner of everything in its home. Returns how many files got a new owner.

    It needs root. A link itself gets the new owner, never what it points to. Raises OSError.
    """
    changed = 0
    for _, folders, files, descriptor in os.fwalk(home, follow_symlinks=False):
        for name in (*folders, *files):
            try:
                stat = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if (stat.st_uid, stat.st_gid) != (uid, gid):
                    os.chown(name, uid, gid, dir_fd=descriptor, follow_symlinks=False)
                    changed += 1
            except FileNotFoundError:
                continue  # another task of theirs removed it meanwhile
    return changed


def _folder_below(home: Path, folder: str) -> int:
    descriptor = os.open(home, _FOLDER)
    try:
        for part in folder.split("/"):
            if part in ("", ".", ".."):
                raise OSError(errno.EINVAL, "not a path below the home", folder)
            try:
                os.mkdir(part, 0o755, dir_fd=descriptor)
            except FileExistsError:
                pass
            inner = os.open(part, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _put(source: int, folder: int, name: str) -> None:
    temporary = f".{name}.{secrets.token_hex(6)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o644, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as target, os.fdopen(os.dup(source), "rb") as log:
            shutil.copyfileobj(log, target, 1 << 20)
            target.flush()
            os.fsync(target.fileno())
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise


@contextmanager
def _rights_of(uid: int, gid: int) -> Iterator[None]:
    """File calls of this thread, and of no other, have the rights of the account. Without root nothing changes."""
    if os.geteuid() != 0:
        yield
        return
    # These calls return the value before, never an error. A second call shows whether the first worked.
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    try:
        if _libc.setfsuid(-1) != uid or _libc.setfsgid(-1) != gid:
            raise PermissionError(errno.EPERM, "this process may not act as the account")
        yield
    finally:
        _libc.setfsuid(0)
        _libc.setfsgid(0)
