"""One personal space. Blocking; every call runs in a thread that acts as the account (see ``rights.acting_as``)."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from headway.errors import Conflict, InvalidInput, NotFound

from ..filesystem.removal import remove_account_tree
from ..filesystem.system_calls import open_beneath, rename_no_replace, reopen
from .listing import UPLOAD, ListedEntry, NameCache, page
from .messages import Path, os_errors_explained, shown_path
from .other_forms import as_stored

TRASH = ".headway-trash"  # in the home; see trash_bin
UPLOADS = ".headway-uploads"  # in the home, while uploads are under way
RUN = f"{UPLOAD}{secrets.token_hex(4)}"  # separates what this process writes there from what a killed one left

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES = 5
_CANT_SERVE = frozenset({errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.EACCES})


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A plain file opened for reading; the caller closes ``descriptor``."""

    descriptor: int
    size: int
    modified_ns: int


class PartialFile(NamedTuple):
    """A file that is being written."""

    folder: int  # open; in which it lies: UPLOADS, where the next start finds it after a kill
    name: str
    descriptor: int
    apart: bool  # False: UPLOADS can't serve, or is on another disk, so it lies beside its place


class PersonalSpace:
    """Works below an open folder; ``root`` is its descriptor. Links inside are followed as long as they stay inside;
    the last component of what is written, moved or deleted is never followed."""

    def __init__(self, root: int) -> None:
        self.root = root

    def stored(self, path: Path) -> Path:
        """``path``, or what reads alike where nothing has just these bytes; see ``other_forms``."""
        return as_stored(self.root, path)

    # -- reading --------------------------------------------------------------------------------

    def open(self, path: Path) -> OpenFile | None:
        """The file at ``path``, or None if it is a folder.

        Raises:
            NotFound, NotAllowed: it isn't there or can't be read.
            Conflict: neither a file nor a folder: pipes, sockets and devices are not opened.
        """
        path = self.stored(path)
        with os_errors_explained(path):
            # First only a handle on the name: to open a pipe or a device can hang or do harm.
            handle = open_beneath(self.root, "/".join(path), os.O_PATH)
            try:
                found = os.fstat(handle)
                if stat.S_ISDIR(found.st_mode):
                    return None
                if not stat.S_ISREG(found.st_mode):
                    raise Conflict(f"`{shown_path(path)}` is {_kind(found.st_mode)} and has no content to send.")
                descriptor = reopen(handle)
            finally:
                os.close(handle)
            found = os.fstat(descriptor)
            return OpenFile(descriptor, found.st_size, found.st_mtime_ns)

    def list(
        self, path: Path, after: str, limit: int, cache: NameCache | None = None
    ) -> tuple[list[ListedEntry], bool]:
        """Entries by name, those behind ``after``; and whether there are more.

        Raises:
            NotFound, NotAllowed: the folder isn't there or can't be read.
        """
        path = self.stored(path)
        with os_errors_explained(path), self.folder(path) as folder:
            return page(folder, after, limit, hidden=() if path else (TRASH, UPLOADS), cache=cache)

    def open_folder(self, path: Path) -> int:
        """A descriptor of the folder; the caller closes it.

        Raises:
            NotFound, NotAllowed: it isn't there or can't be read.
            Conflict: it is no folder.
        """
        path = self.stored(path)
        with os_errors_explained(path):
            return open_beneath(self.root, "/".join(path), _FOLDER)

    # -- writing --------------------------------------------------------------------------------

    def begin(self, path: Path, *, overwrite: bool, parents: bool) -> FileWrite:
        """Starts to write the file at ``path``, in :data:`UPLOADS`.

        Raises:
            InvalidInput: the space itself is no file.
            Conflict: a folder is there, or anything and ``overwrite`` is False.
        """
        if not path:
            raise InvalidInput("Name a file in the personal space.")
        path = self.stored(path)
        with os_errors_explained(path):
            if parents:
                self.make(path[:-1])
            try:
                folder = open_beneath(self.root, "/".join(path[:-1]), _FOLDER)
            except FileNotFoundError:
                raise NotFound(
                    f"There is no folder `{shown_path(path[:-1])}` in the personal space: make it first, or ask that "
                    "it be made on the way (parents=true)."
                ) from None
            try:
                mode = self._mode_there(folder, path, overwrite=overwrite)
                half = self._half(folder)
            except BaseException:
                os.close(folder)
                raise
            return FileWrite(path, folder, half, mode=mode, overwrite=overwrite)

    def _half(self, folder: int) -> PartialFile:
        name = f"{RUN}{secrets.token_hex(8)}"
        for _ in range(_TRIES):
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(UPLOADS, 0o700, dir_fd=self.root)
                holder = open_beneath(self.root, UPLOADS, _FOLDER, links=False, mounts=False)
            except FileNotFoundError:
                continue  # the end of another upload took it away just now
            except OSError as error:
                if error.errno not in _CANT_SERVE:
                    raise
                break
            try:
                if os.fstat(holder).st_dev != os.fstat(folder).st_dev:
                    os.close(holder)
                    break
                return PartialFile(holder, name, os.open(name, _NEW, 0o600, dir_fd=holder), True)
            except FileNotFoundError:
                os.close(holder)
            except BaseException:
                os.close(holder)
                raise
        return PartialFile(os.dup(folder), name, os.open(name, _NEW, 0o600, dir_fd=folder), False)

    def _mode_there(self, folder: int, path: Path, *, overwrite: bool) -> int | None:
        try:
            info = os.stat(path[-1], dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISDIR(info.st_mode):
            raise Conflict(f"`{shown_path(path)}` is a folder.")
        if not overwrite:
            raise Conflict(f"`{shown_path(path)}` is there already.")
        return stat.S_IMODE(info.st_mode) & 0o777 if stat.S_ISREG(info.st_mode) else 0o644

    def make(self, path: Path) -> None:
        """Makes a folder and those on the way; folders that are there are fine.

        Raises:
            Conflict: something else is in the way.
        """
        path = self.stored(path)
        with os_errors_explained(path):
            for depth in range(1, len(path) + 1):
                try:
                    os.close(open_beneath(self.root, "/".join(path[:depth]), _FOLDER))
                except FileNotFoundError:
                    with self.folder(path[: depth - 1]) as folder, contextlib.suppress(FileExistsError):
                        os.mkdir(path[depth - 1], 0o755, dir_fd=folder)

    def move(self, path: Path, to: Path, *, overwrite: bool) -> None:
        """Renames.

        Raises:
            InvalidInput: the space itself, or a folder into itself.
            Conflict: something is at ``to``.
        """
        if not path or not to:
            raise InvalidInput("The personal space itself can't be moved or replaced.")
        path, to = self.stored(path), (*self.stored(to[:-1]), to[-1])
        if to[: len(path)] == path and to != path:
            raise InvalidInput("A folder can't be moved into itself.")
        with os_errors_explained(path), self.folder(path[:-1]) as source:
            os.stat(path[-1], dir_fd=source, follow_symlinks=False)
            with os_errors_explained(to), self.folder(to[:-1]) as target:
                if overwrite:
                    os.rename(path[-1], to[-1], src_dir_fd=source, dst_dir_fd=target)
                elif path != to:
                    rename_no_replace(source, path[-1], target, to[-1])

    def delete(self, path: Path, *, recursive: bool) -> None:
        """Deletes a file, link or folder.

        Raises:
            Conflict: a folder that isn't empty and ``recursive`` is False.
        """
        if not path:
            raise InvalidInput("The personal space itself can't be deleted.")
        path = self.stored(path)
        with os_errors_explained(path), self.folder(path[:-1]) as folder:
            info = os.stat(path[-1], dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(info.st_mode):
                os.unlink(path[-1], dir_fd=folder)
            elif recursive:
                remove_account_tree(folder, path[-1])
            else:
                os.rmdir(path[-1], dir_fd=folder)

    @contextlib.contextmanager
    def folder(self, path: Path) -> Iterator[int]:
        """The folder, open. Raises OSError."""
        descriptor = open_beneath(self.root, "/".join(path), _FOLDER)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


class FileWrite:
    """A file that is being written to get its place when it is whole. Exactly one of :meth:`finish` and :meth:`abort`
    ends it."""

    def __init__(self, path: Path, folder: int, half: PartialFile, *, mode: int | None, overwrite: bool) -> None:
        self._path = path
        self._folder = folder
        self._half = half
        self._descriptor = half.descriptor
        self._mode = mode
        self._overwrite = overwrite
        self._open = True
        # An abort must not close the descriptor under a write that is still going on in another thread.
        self._lock = threading.Lock()
        self.size = 0

    def write(self, data: bytes) -> None:
        """Appends.

        Raises:
            StoreFull: no space or quota left.
        """
        with self._lock, os_errors_explained(self._path):
            view = memoryview(data)
            while view:
                done = os.write(self._descriptor, view)
                view = view[done:]
            self.size += len(data)

    def finish(self) -> bool:
        """Puts it in its place, durably; answers whether something was replaced.

        Raises:
            Conflict: something appeared there meanwhile and it must not be replaced.
        """
        with self._lock, os_errors_explained(self._path):
            os.fchmod(self._descriptor, 0o644 if self._mode is None else self._mode)
            os.fsync(self._descriptor)
            if self._overwrite:
                existed = os.access(self._path[-1], os.F_OK, dir_fd=self._folder, follow_symlinks=False)
                os.rename(self._half.name, self._path[-1], src_dir_fd=self._half.folder, dst_dir_fd=self._folder)
            else:
                existed = False
                rename_no_replace(self._half.folder, self._half.name, self._folder, self._path[-1])
            os.fsync(self._folder)
            self._close()
            return existed

    def abort(self) -> None:
        """Takes away what was written. Safe to call after :meth:`finish`."""
        with self._lock:
            if self._open:
                with contextlib.suppress(OSError):
                    os.unlink(self._half.name, dir_fd=self._half.folder)
                self._close()

    def _close(self) -> None:
        self._open = False
        os.close(self._descriptor)
        os.close(self._folder)
        if self._half.apart:
            with contextlib.suppress(OSError):  # what others write is in it
                os.rmdir(f"../{UPLOADS}", dir_fd=self._half.folder)
        os.close(self._half.folder)


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a link" if stat.S_ISLNK(mode) else "a device"
