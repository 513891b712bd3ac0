"""Removes whole trees of files. Blocking."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator

from .system_calls import open_beneath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
# The kernel takes paths of 4,096 bytes, so what lies deeper is moved up first.
_DEEP_BYTES = 2_048


def remove_account_tree(folder: int, name: str, *, go_on: Callable[[], bool] = lambda: True) -> bool:
    """Deletes ``name`` in ``folder`` with all that is in it; False if ``go_on`` said no, asked before each folder.

    It uses paths from the parent and follows no links. So a folder that is swapped for a link meanwhile does no harm,
    and deep trees need no descriptor for each level. Folders that the account made read-only are made writable first.

    Raises:
        OSError: the file system or the account's rights refuse; a part may be gone then.
    """
    todo: list[tuple[str, bool]] = [(name, False)]
    while todo:
        if not go_on():
            return False
        path, emptied = todo.pop()
        parent, _, last = path.rpartition("/")
        if emptied:
            with _below(folder, parent) as holder, contextlib.suppress(FileNotFoundError):
                os.rmdir(last, dir_fd=holder)
            continue
        if len(os.fsencode(path)) > _DEEP_BYTES:
            path = _lifted(folder, path, name)
        try:
            with _opened_up(folder, path) as here:
                todo.append((path, True))
                todo.extend((f"{path}/{child}", False) for child in _emptied(here))
        except FileNotFoundError:
            continue  # somebody else deletes it too
    return True


def _lifted(folder: int, path: str, top: str) -> str:
    """Moves a folder up to below ``top``; its new path."""
    lifted = f"{top}/{secrets.token_hex(8)}"
    parent, _, last = path.rpartition("/")
    with _below(folder, parent) as source:
        os.rename(last, lifted, src_dir_fd=source, dst_dir_fd=folder)
    return lifted


def _emptied(folder: int) -> list[str]:
    """Takes away all that is no folder; the names of those."""
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
                continue
            with contextlib.suppress(FileNotFoundError):
                os.unlink(entry.name, dir_fd=folder)
    return folders


@contextlib.contextmanager
def _opened_up(folder: int, path: str) -> Iterator[int]:
    # Python, Go and conda keep packages in folders of mode 0555.
    handle = open_beneath(folder, path, os.O_PATH | os.O_DIRECTORY, links=False)
    try:
        mode = os.fstat(handle).st_mode & 0o7777
        if mode & 0o700 != 0o700:
            try:
                os.chmod(f"/proc/self/fd/{handle}", mode | 0o700)
            except OSError as error:
                # Somebody else's; perhaps it is empty, or the group may write.
                if error.errno not in (errno.EPERM, errno.EROFS):
                    raise
        descriptor = open_beneath(folder, path, _FOLDER, links=False)
    finally:
        os.close(handle)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _below(folder: int, path: str) -> Iterator[int]:
    descriptor = open_beneath(folder, path, _FOLDER, links=False)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def remove_own_tree(folder: int, name: str) -> None:
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
