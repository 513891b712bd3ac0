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
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..box import open_below

LOGS = ("stdout.log", "stderr.log")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOVED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_MS = 1_000_000  # nanoseconds
_libc = ctypes.CDLL(None, use_errno=True)


class NewerOutput(Exception):
    """Output of a task that ended later lies there, and stays. ``where`` is relative to the home."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} is newer")
        self.where = where


class _Given(NamedTuple):
    """What became of one name."""

    changed: bool
    is_folder: bool


def publish(logs: Path, home: Path, folder: str, *, uid: int, gid: int, ended_at: float) -> None:
    """Copy stdout.log and stderr.log from ``logs`` into ``home/folder``, which is made if it is missing.

    Each file appears in one step, so a reader sees a whole one. ``folder`` is relative and has no ``..``.
    ``ended_at`` (epoch seconds) becomes the files' time. So a copy that comes late replaces none of a later end.

    Raises:
        OSError: the home is full, or a part of the path is a link or no folder. Its ``filename`` says where: a part
            below the home is relative to it, all else is absolute.
        NewerOutput: a task that ended later has put its output there.
    """
    sources, mark = {}, round(ended_at * 1000) * _MS
    try:
        for name in LOGS:
            try:
                sources[name] = os.open(logs / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # it printed nothing there
        top = _opened_home(home, uid, gid)
        try:
            with _rights_of(uid, gid):
                target = _folder_below(top, folder)
                try:
                    for name, source in sources.items():
                        with _told_as(f"{folder}/{name}"):
                            _put(source, target, name, mark, lambda: _refuse_older(target, folder, mark))
                finally:
                    os.close(target)
        finally:
            os.close(top)
    finally:
        for source in sources.values():
            os.close(source)


def _opened_home(home: Path, uid: int, gid: int) -> int:
    """The home's descriptor, with the account's rights on it.

    The folders above it may be closed to the account: the state folder of `headway up` is root's own. So root finds the
    way there, and the account's rights count from the home on. Where a server takes root's rights, only the account
    passes.
    """
    with _rights_of(uid, gid):
        try:
            return os.open(home, _FOLDER)
        except PermissionError:
            pass
    found = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with _rights_of(uid, gid), _told_as(str(home)):
            return os.open(".", _FOLDER, dir_fd=found)
    finally:
        os.close(found)


@contextmanager
def _told_as(path: str) -> Iterator[None]:
    """An OSError tells this path, not the name within an open folder."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def give_to(home: Path, *, uid: int, gid: int) -> int:
    """Make the account the owner of everything in its home. Returns how many files got a new owner.

    It needs root. A link itself gets the new owner, never what it points to. Raises OSError.
    """
    changed, paths = 0, [""]
    top = os.open(home, _FOLDER)
    try:
        # Not os.fwalk, which recurses: a task can nest folders as deep as it likes.
        while paths:
            path = paths.pop()
            try:
                folder = open_below(top, path) if path else os.dup(top)
            except OSError as error:
                if error.errno in _MOVED:
                    continue  # another task of theirs removed it meanwhile, or put a link there
                raise
            try:
                for name in os.listdir(folder):
                    facts = _given(name, folder, uid, gid)
                    changed += facts.changed
                    if facts.is_folder:
                        paths.append(f"{path}/{name}" if path else name)
            finally:
                os.close(folder)
    finally:
        os.close(top)
    return changed


def _given(name: str, folder: int, uid: int, gid: int) -> _Given:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        foreign = (found.st_uid, found.st_gid) != (uid, gid)
        if foreign:
            os.chown(name, uid, gid, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return _Given(False, False)  # removed meanwhile
    return _Given(foreign, stat.S_ISDIR(found.st_mode))


def _folder_below(home: int, folder: str) -> int:
    descriptor = os.dup(home)
    try:
        parts = folder.split("/")
        for depth, part in enumerate(parts, start=1):
            if part in ("", ".", ".."):
                raise OSError(errno.EINVAL, "not a path below the home", folder)
            with _told_as("/".join(parts[:depth])):
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


def _refuse_older(target: int, folder: str, mark: int) -> None:
    """Raises NewerOutput. Whole milliseconds tell Headway's copies from other files, which are replaced."""
    for name in LOGS:
        with suppress(FileNotFoundError):
            facts = os.stat(name, dir_fd=target, follow_symlinks=False)
            if stat.S_ISREG(facts.st_mode) and facts.st_mtime_ns > mark and facts.st_mtime_ns % _MS == 0:
                raise NewerOutput(f"{folder}/{name}")


def _put(source: int, folder: int, name: str, mark: int, check: Callable[[], None]) -> None:
    """``check`` is asked before the copy, and again when only the last step is left: a copy may take long."""
    check()
    temporary = f".{name}.{secrets.token_hex(6)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o644, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as target, os.fdopen(os.dup(source), "rb") as log:
            shutil.copyfileobj(log, target, 1 << 20)
            target.flush()
            with suppress(OSError):  # a server that keeps times to itself
                os.utime(target.fileno(), ns=(mark, mark))
            os.fsync(target.fileno())
        check()
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):  # the first error says more
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
