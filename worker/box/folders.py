"""Folders that a container can write, entered without following any link.

The Worker is root outside. A task that is root in its container may put a link anywhere there, at any moment.
All functions block.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH_BYTES = 4_000  # the kernel takes no more at once
_FULL = (errno.ENOSPC, errno.EDQUOT)
_MOST_DOWN = 64  # levels with a descriptor each; what is removed below makes room for the rest
_OPENAT2 = 437
# RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH
_RESOLVE = 0x02 | 0x04 | 0x08
_RESOLVE_NO_XDEV = 0x01
_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@contextlib.contextmanager
def folder_of(path: Path) -> Iterator[int]:
    """The folder in which ``path`` lies, as a descriptor for calls by name. Raises OSError, also where it is a link."""
    descriptor = os.open(path.parent, FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def exists(path: Path) -> bool:
    """Whether something has this name, be it a link."""
    try:
        with folder_of(path) as folder:
            os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def open_below(top: int, relative: str) -> int:
    """A descriptor of a folder below the open folder ``top``. Raises OSError where a link or ``..`` is on the way."""
    return _descended(top, _pieces(relative), _open_folder_beneath)


def _descended(top: int, parts: Iterable[str], open_part: Callable[[int, str], int]) -> int:
    """A descriptor of where ``parts`` lead from the open folder ``top``, opened one in the other."""
    descriptor = os.dup(top)
    try:
        for part in parts:
            inner = open_part(descriptor, part)
            os.close(descriptor)
            descriptor = inner
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _pieces(relative: str) -> Iterator[str]:
    """The path in pieces that the kernel takes: a task can nest folders as deep as it likes."""
    piece = ""
    for name in relative.split("/"):
        if len(os.fsencode(f"{piece}/{name}")) > _PATH_BYTES:
            yield piece
            piece = ""
        piece = f"{piece}/{name}" if piece else name
    if piece:
        yield piece


def open_beneath(folder: int, path: str, flags: int, *, mounts: bool = True) -> int:
    """Open what lies at ``path`` below the open ``folder``. No link is followed.

    With O_PATH and O_NOFOLLOW a link at the end is opened itself. ``mounts=False``: no mount is crossed.
    Raises OSError.
    """
    how = _How(flags | os.O_CLOEXEC, 0, _RESOLVE | (0 if mounts else _RESOLVE_NO_XDEV))
    while True:
        found = int(_libc.syscall(_OPENAT2, folder, os.fsencode(path or "."), ctypes.byref(how), ctypes.sizeof(how)))
        if found >= 0:
            return found
        error = ctypes.get_errno()
        if error not in (errno.EINTR, errno.EAGAIN):  # EAGAIN: something on the way was renamed meanwhile
            raise OSError(error, os.strerror(error), path)


def _open_folder_beneath(folder: int, path: str) -> int:
    try:
        return open_beneath(folder, path, FOLDER)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM):
            return _step_by_step(folder, path)
        raise


def _step_by_step(folder: int, path: str) -> int:
    """Before Linux 5.6."""

    def step(descriptor: int, name: str) -> int:
        if name in ("", ".", ".."):
            raise OSError(errno.EXDEV, "not a path below the folder", path)
        return os.open(name, FOLDER, dir_fd=descriptor)

    return _descended(folder, path.split("/"), step)


def remove_tree(top: Path) -> None:
    """Remove a folder with all that is in it. Safe twice.

    What lies deeper is first brought up. So neither depth nor a name that is swapped meanwhile leads anywhere else.
    It works on a full disk, too.
    Raises OSError; the rest is still there then.
    """
    try:
        descriptor = os.open(top, FOLDER)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        top.unlink(missing_ok=True)  # a link or a file
        return
    try:
        _empty(descriptor, itertools.count(), _MOST_DOWN)
    finally:
        os.close(descriptor)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(top)


def _empty(folder: int, numbers: Iterator[int], down: int) -> None:
    while names := os.listdir(folder):
        for name in names:
            if not _removed(name, folder):
                _bring_up(name, folder, numbers, down)


def _bring_up(name: str, top: int, numbers: Iterator[int], down: int) -> None:
    """Move the folders in a folder to the top, and remove it.

    On a full disk the top folder may not grow. Then this folder is emptied first, ``down`` levels down at most.
    """
    with contextlib.suppress(FileNotFoundError):
        folder = os.open(name, FOLDER, dir_fd=top)
        try:
            for inner in os.listdir(folder):
                if _removed(inner, folder):
                    continue
                try:
                    _rename_anew(inner, folder, top, numbers)
                except OSError as error:
                    if error.errno not in _FULL or not down:
                        raise
                    _empty(folder, numbers, down - 1)
                    break
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=top)


def _rename_anew(name: str, folder: int, top: int, numbers: Iterator[int]) -> None:
    for number in numbers:
        try:
            os.rename(name, f".gone.{number}", src_dir_fd=folder, dst_dir_fd=top)
        except (FileExistsError, NotADirectoryError):
            continue
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            continue
        return


def _removed(name: str, folder: int) -> bool:
    """False: it is a folder with something in it."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except IsADirectoryError:
        return _empty_folder_removed(name, folder)
    return True


def _empty_folder_removed(name: str, folder: int) -> bool:
    try:
        os.rmdir(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except (NotADirectoryError, FileExistsError):
        return False  # swapped meanwhile, or not empty by another word
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        return False
    return True
