"""A folder of a personal space as an archive that is written as it is sent. Blocking, under the account's rights."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Generator, Iterator

from headway.logs import get_logger

from ..filesystem.paths import shown
from ..filesystem.system_calls import open_beneath, reopen
from ..http.zip_stream import MAX_NAME_BYTES, ZipWriter
from .listing import UPLOAD
from .space import TRASH, UPLOADS

log = get_logger(__name__)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_READ_BYTES = 256 * 1024
_PIECE_BYTES = 256 * 1024
_MAX_NOTES = 1_000
_LEFT_OUT = "left-out.txt"
# What can happen to one file while others are fine: it went away, it can't be read, it lies too deep.
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.ESTALE, errno.EAGAIN)
_UNREADABLE = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.EXDEV, errno.ENAMETOOLONG, errno.EIO)
_OF_ONE_FILE = frozenset((*_GONE, *_UNREADABLE))


class FolderZip:
    """Takes the open folder over, and closes it with :meth:`close`. ``next`` and ``close`` may be called from any
    thread, also at once.

    Links, pipes and what could not be read are left out and named in a last file. So a file that changes or goes away
    meanwhile does not break the archive.
    """

    def __init__(self, folder: int, name: str) -> None:
        self._root = folder
        self._name = name
        self._zip = ZipWriter()
        self._notes: list[str] = []
        self._more_notes = 0
        self._names_at_top: set[str] = set()
        self._pieces = self._all()
        self._lock = threading.Lock()
        self._open = True

    def next(self) -> bytes:
        """The next piece; empty at the end.

        Raises:
            OSError: the mount is gone; the archive breaks off.
        """
        with self._lock:
            out: list[bytes] = []
            size = 0
            while self._open and size < _PIECE_BYTES:
                piece = next(self._pieces, None)
                if piece is None:
                    break
                out.append(piece)
                size += len(piece)
            return b"".join(out)

    def close(self) -> None:
        """Lets go of everything. Safe twice."""
        with self._lock:
            if self._open:
                self._open = False
                self._pieces.close()
                self._zip.close()
                os.close(self._root)

    def _all(self) -> Generator[bytes, None, None]:
        todo = [""]
        while todo:
            path = todo.pop()
            try:
                here = open_beneath(self._root, path, _FOLDER, links=False)
            except OSError as error:
                self._gap(path, error)
                continue
            try:
                yield from self._folder(here, path, todo)
            finally:
                os.close(here)
        yield from self._told()
        yield from self._zip.finish()

    def _folder(self, here: int, path: str, todo: list[str]) -> Iterator[bytes]:
        info = os.fstat(here)
        name = self._in_archive(path)
        if len(os.fsencode(name)) >= MAX_NAME_BYTES:
            self._note(path, "its path is too long for an archive")
            return
        yield self._zip.folder(name, info.st_mtime, stat.S_IMODE(info.st_mode) & 0o777)
        with os.scandir(here) as entries:
            for entry in entries:
                if entry.name.startswith(UPLOAD) or (not path and entry.name in (TRASH, UPLOADS)):
                    continue
                inside = f"{path}/{entry.name}" if path else entry.name
                if not path and entry.name.endswith(_LEFT_OUT):
                    self._names_at_top.add(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    todo.append(inside)
                elif entry.is_symlink():
                    self._note(inside, f"a link to {self._target(here, entry.name)}; links are not followed")
                else:
                    yield from self._file(here, entry.name, inside)

    def _file(self, here: int, name: str, path: str) -> Iterator[bytes]:
        try:
            descriptor = self._opened(here, name)
        except OSError as error:
            self._gap(path, error)
            return
        if descriptor is None:
            self._note(path, "neither a file nor a folder")
            return
        try:
            if len(os.fsencode(self._in_archive(path))) > MAX_NAME_BYTES:
                self._note(path, "its path is too long for an archive")
                return
            info = os.fstat(descriptor)
            mode = stat.S_IMODE(info.st_mode) & 0o777
            yield self._zip.begin(self._in_archive(path), info.st_size, info.st_mtime, mode)
            yield from self._content(descriptor, info.st_size, path)
            yield self._zip.end()
        finally:
            os.close(descriptor)

    def _content(self, descriptor: int, size: int, path: str) -> Iterator[bytes]:
        # As long as it was at the beginning: what is appended meanwhile (a log) would never end.
        left = size
        while left:
            try:
                data = os.read(descriptor, min(_READ_BYTES, left))
            except OSError as error:
                self._gap(path, error)
                return
            if not data:
                self._note(path, "it became shorter while it was read")
                return
            left -= len(data)
            yield self._zip.write(data)

    @staticmethod
    def _opened(here: int, name: str) -> int | None:
        # First only a handle on the name: to open a pipe or a device can hang or do harm.
        handle = open_beneath(here, name, os.O_PATH | os.O_NOFOLLOW)
        try:
            return reopen(handle) if stat.S_ISREG(os.fstat(handle).st_mode) else None
        finally:
            os.close(handle)

    @staticmethod
    def _target(here: int, name: str) -> str:
        try:
            return shown(os.readlink(name, dir_fd=here))
        except OSError:
            return "?"

    def _in_archive(self, path: str) -> str:
        return f"{self._name}/{path}" if path else self._name

    def _gap(self, path: str, error: OSError) -> None:
        if error.errno not in _OF_ONE_FILE:
            raise error
        self._note(path, f"it could not be read: {error.strerror}")

    def _note(self, path: str, why: str) -> None:
        if len(self._notes) < _MAX_NOTES:
            self._notes.append(f"{shown(path) or '.'}: {why}"[:5_000])
        else:
            self._more_notes += 1

    def _told(self) -> Iterator[bytes]:
        if not self._notes:
            return
        if self._more_notes:
            self._notes.append(f"and {self._more_notes} more")
        name = _LEFT_OUT
        while name in self._names_at_top:
            name = f"_{name}"
        data = ("\n".join(self._notes) + "\n").encode()
        yield self._zip.begin(self._in_archive(name), len(data), time.time()) + self._zip.write(data) + self._zip.end()
        log.info("file.left_out", notes=len(self._notes) + self._more_notes)
