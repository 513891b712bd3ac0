"""One personal space. Blocking; every call runs in a thread that acts as the account (see ``kernel.acting_as``)."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from headway.errors import Conflict, HeadwayError, InvalidInput, MountUnavailable, NotAllowed, NotFound, StoreFull

from .kernel import open_beneath, rename_no_replace
from .names import shown

Path = tuple[str, ...]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_UPLOAD = ".headway-upload-"
_MAX_ENTRIES = 1_000_000
# A body that pauses for a minute is cut, so an upload untouched for so long lost its server: nobody will finish it.
_DEAD_UPLOAD_S = 600.0


@dataclass(frozen=True, slots=True)
class Found:
    """One entry of a folder; ``name`` may hold surrogates for undecodable bytes."""

    name: str
    mode: int
    size: int
    modified_at: float
    uid: int
    target: str | None  # of a link


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A plain file opened for reading; the caller closes ``descriptor``."""

    descriptor: int
    size: int
    modified_ns: int


class Space:
    """Works below an open folder; ``root`` is its descriptor. Links inside are followed as long as they stay inside;
    the last component of what is written, moved or deleted is never followed."""

    def __init__(self, root: int) -> None:
        self._root = root

    # -- reading --------------------------------------------------------------------------------

    def open(self, path: Path) -> OpenFile | None:
        """The file at ``path``, or None if it is a folder.

        Raises:
            NotFound, NotAllowed: it isn't there or can't be read.
            Conflict: neither a file nor a folder: pipes, sockets and devices are not opened.
        """
        with _told(path):
            # First only a handle on the name: to open a pipe or a device can hang or do harm.
            handle = open_beneath(self._root, "/".join(path), os.O_PATH)
            try:
                found = os.fstat(handle)
                if stat.S_ISDIR(found.st_mode):
                    return None
                if not stat.S_ISREG(found.st_mode):
                    raise Conflict(f"`{_text(path)}` is {_kind(found.st_mode)} and has no content to send.")
                descriptor = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            finally:
                os.close(handle)
            found = os.fstat(descriptor)
            return OpenFile(descriptor, found.st_size, found.st_mtime_ns)

    def list(self, path: Path, after: str, limit: int) -> tuple[list[Found], bool]:
        """Entries by name, those behind ``after``; and whether there are more.

        Raises:
            NotFound, NotAllowed: the folder isn't there or can't be read.
        """
        with _told(path), self._folder(path) as folder:
            names = []
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith(_UPLOAD) and self._is_dead(folder, entry.name):
                        continue
                    if entry.name > after:
                        names.append(entry.name)
                    if len(names) > _MAX_ENTRIES:
                        raise Conflict(f"`{_text(path)}` has more entries than can be listed.")
            names.sort()
            found = (self._look(folder, name) for name in names[:limit])
            return [entry for entry in found if entry is not None], len(names) > limit

    def _is_dead(self, folder: int, name: str) -> bool:
        """Whether this half of an upload was left by a server that was killed; then it is removed."""
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISREG(info.st_mode) or time.time() - info.st_mtime < _DEAD_UPLOAD_S:
                return False
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return True
        except OSError:
            return False  # not ours to remove, or the mount is read-only: then it is shown
        return True

    def _look(self, folder: int, name: str) -> Found | None:
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None  # gone meanwhile
        target = None
        if stat.S_ISLNK(info.st_mode):
            with contextlib.suppress(OSError):
                target = os.readlink(name, dir_fd=folder)
        return Found(name, info.st_mode, info.st_size, info.st_mtime, info.st_uid, target)

    # -- writing --------------------------------------------------------------------------------

    def begin(self, path: Path, *, overwrite: bool, parents: bool) -> Upload:
        """Starts to write the file at ``path`` beside it.

        Raises:
            InvalidInput: the space itself is no file.
            Conflict: a folder is there, or anything and ``overwrite`` is False.
        """
        if not path:
            raise InvalidInput("Name a file in the personal space.")
        with _told(path):
            if parents:
                self.make(path[:-1])
            folder = open_beneath(self._root, "/".join(path[:-1]), _FOLDER)
            try:
                mode = self._mode_there(folder, path, overwrite=overwrite)
                name = f"{_UPLOAD}{secrets.token_hex(8)}"
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                descriptor = os.open(name, flags, 0o600, dir_fd=folder)
            except BaseException:
                os.close(folder)
                raise
            return Upload(path, folder, name, descriptor, mode=mode, overwrite=overwrite)

    def _mode_there(self, folder: int, path: Path, *, overwrite: bool) -> int | None:
        try:
            info = os.stat(path[-1], dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISDIR(info.st_mode):
            raise Conflict(f"`{_text(path)}` is a folder.")
        if not overwrite:
            raise Conflict(f"`{_text(path)}` is there already.")
        return stat.S_IMODE(info.st_mode) & 0o777 if stat.S_ISREG(info.st_mode) else 0o644

    def make(self, path: Path) -> None:
        """Makes a folder and those on the way; folders that are there are fine.

        Raises:
            Conflict: something else is in the way.
        """
        with _told(path):
            for depth in range(1, len(path) + 1):
                try:
                    os.close(open_beneath(self._root, "/".join(path[:depth]), _FOLDER))
                except FileNotFoundError:
                    with self._folder(path[: depth - 1]) as folder, contextlib.suppress(FileExistsError):
                        os.mkdir(path[depth - 1], 0o755, dir_fd=folder)

    def move(self, path: Path, to: Path, *, overwrite: bool) -> None:
        """Renames.

        Raises:
            InvalidInput: the space itself, or a folder into itself.
            Conflict: something is at ``to``.
        """
        if not path or not to:
            raise InvalidInput("The personal space itself can't be moved or replaced.")
        if to[: len(path)] == path and to != path:
            raise InvalidInput("A folder can't be moved into itself.")
        with _told(path), self._folder(path[:-1]) as source:
            os.stat(path[-1], dir_fd=source, follow_symlinks=False)
            with _told(to), self._folder(to[:-1]) as target:
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
        with _told(path), self._folder(path[:-1]) as folder:
            info = os.stat(path[-1], dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(info.st_mode):
                os.unlink(path[-1], dir_fd=folder)
            elif recursive:
                self._delete_tree(folder, path[-1])
            else:
                os.rmdir(path[-1], dir_fd=folder)

    def _delete_tree(self, folder: int, name: str) -> None:
        # By paths from the parent and without links, so that neither depth nor a folder that is swapped for a link
        # meanwhile can do harm, and no descriptor is held for each level.
        todo: list[tuple[str, bool]] = [(name, False)]
        while todo:
            path, emptied = todo.pop()
            parent, _, last = path.rpartition("/")
            if emptied:
                with self._below(folder, parent) as holder:
                    os.rmdir(last, dir_fd=holder)
                continue
            todo.append((path, True))
            with self._below(folder, path) as here:
                folders, others = _split(here)
                for other in others:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(other, dir_fd=here)
            todo.extend((f"{path}/{child}", False) for child in folders)

    @contextlib.contextmanager
    def _below(self, folder: int, path: str) -> Iterator[int]:
        descriptor = open_beneath(folder, path, _FOLDER, links=False)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _folder(self, path: Path) -> Iterator[int]:
        descriptor = open_beneath(self._root, "/".join(path), _FOLDER)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


class Upload:
    """A file that is being written beside its place. Exactly one of :meth:`finish` and :meth:`abort` ends it."""

    def __init__(
        self, path: Path, folder: int, name: str, descriptor: int, *, mode: int | None, overwrite: bool
    ) -> None:
        self._path = path
        self._folder = folder
        self._name = name
        self._descriptor = descriptor
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
        with self._lock, _told(self._path):
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
        with self._lock, _told(self._path):
            os.fchmod(self._descriptor, 0o644 if self._mode is None else self._mode)
            os.fsync(self._descriptor)
            if self._overwrite:
                existed = os.access(self._path[-1], os.F_OK, dir_fd=self._folder, follow_symlinks=False)
                os.rename(self._name, self._path[-1], src_dir_fd=self._folder, dst_dir_fd=self._folder)
            else:
                existed = False
                rename_no_replace(self._folder, self._name, self._folder, self._path[-1])
            os.fsync(self._folder)
            self._close()
            return existed

    def abort(self) -> None:
        """Takes away what was written. Safe to call after :meth:`finish`."""
        with self._lock:
            if self._open:
                with contextlib.suppress(OSError):
                    os.unlink(self._name, dir_fd=self._folder)
                self._close()

    def _close(self) -> None:
        self._open = False
        os.close(self._descriptor)
        os.close(self._folder)


def _split(folder: int) -> tuple[list[str], list[str]]:
    folders: list[str] = []
    others: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            (folders if entry.is_dir(follow_symlinks=False) else others).append(entry.name)
    return folders, others


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a link" if stat.S_ISLNK(mode) else "a device"


def _text(path: Path) -> str:
    return shown("/".join(path)) or "/"


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _in_words(error, path) from error


def _in_words(error: OSError, path: Path) -> HeadwayError:
    name, code = _text(path), error.errno
    if code == errno.ENOENT:
        return NotFound(f"There is no `{name}` in the personal space.")
    if code in (errno.EACCES, errno.EPERM):
        return NotAllowed(f"The account's own rights don't allow this with `{name}`.")
    if code in (errno.EXDEV, errno.ELOOP):
        return NotAllowed(f"`{name}` leads through a link out of the personal space, or in a circle.")
    if code == errno.EEXIST:
        return Conflict(f"`{name}` is there already.")
    if code == errno.ENOTEMPTY:
        return Conflict(f"`{name}` is a folder that is not empty; ask for `recursive` to delete all of it.")
    if code == errno.ENOTDIR:
        return Conflict(f"A part of `{name}` is not a folder.")
    if code == errno.EISDIR:
        return Conflict(f"`{name}` is a folder.")
    if code in (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ):
        return InvalidInput(f"The shared folder does not take the name `{name[:200]}`.")
    if code in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull("The shared folder is full, or the account's quota is used up; nothing was stored.")
    if code in (errno.ENXIO, errno.ETXTBSY, errno.EBUSY):
        return Conflict(f"`{name}` is in use: {error.strerror}.")
    if code in (errno.EMFILE, errno.ENFILE):
        return HeadwayError("The server has too many files open.")
    if code == errno.EROFS:
        return MountUnavailable("The shared folder can only be read now; what is in it is not lost.")
    return MountUnavailable(f"The shared folder can't do that now: {error.strerror}.")
