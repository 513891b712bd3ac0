"""How much a home holds. Blocking. It runs as Headway itself, since an account could hide folders from itself."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..filesystem.rights import acting_as
from ..filesystem.system_calls import open_beneath
from .listing import UPLOAD
from .space import UPLOADS

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_BLOCK = 512  # st_blocks counts in these whatever the file system's own are
_DEEP_BYTES = 2_048  # the kernel takes paths of 4,096; from here on a new start is made
_MAX_STARTS = 64
_MAX_LINKED = 200_000  # files with several names that are remembered; those beyond count in parts


@dataclass(frozen=True, slots=True)
class HomeSize:
    """Bytes on disk; ``uploading_bytes`` of them are of resumable uploads that are under way."""

    used_bytes: int
    entries: int
    uploading_bytes: int


class MeasuringStopped(Exception):
    """The measurement was cancelled."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The measurement works for ``work_s`` seconds, then calls ``rest``, which waits. ``rest`` answers True to stop."""

    work_s: float
    rest: Callable[[], bool]


def measure(home: int, uid: int, gid: int, pace: Pace) -> HomeSize:
    """Measures the open folder ``home``, itself included.

    It counts blocks, so that a file with holes counts what it takes. A file with several names counts once. Nothing
    behind links or below other mounts counts.

    Raises:
        MeasuringStopped: see Pace.
        OSError: the home can't be read at all.
    """
    return _Walk(home, uid, gid, pace).run()


class _Walk:
    def __init__(self, home: int, uid: int, gid: int, pace: Pace) -> None:
        self._home, self._uid, self._gid, self._pace = home, uid, gid, pace
        self._bytes = self._entries = self._uploading = 0
        self._linked: set[int] = set()
        self._rest_at = time.monotonic() + pace.work_s
        self._held = contextlib.ExitStack()
        self._starts = 0  # folders from which paths are counted, besides the home

    def run(self) -> HomeSize:
        with contextlib.ExitStack() as self._held:
            self._count(os.stat(f"/proc/self/fd/{self._home}"))
            todo: list[tuple[int, str]] = [(self._home, "")]
            while todo:
                start, path = todo.pop()
                if len(os.fsencode(path)) > _DEEP_BYTES:
                    if self._starts >= _MAX_STARTS:
                        continue
                    try:
                        start, path = self._new_start(start, path), ""
                    except OSError:
                        continue
                todo.extend((start, f"{path}/{child}" if path else child) for child in self._folder(start, path))
        return HomeSize(self._bytes, self._entries, self._uploading)

    def _new_start(self, start: int, path: str) -> int:
        with self._opened(start, path) as here:
            made = os.dup(here)
        self._starts += 1
        self._held.callback(os.close, made)
        return made

    def _folder(self, start: int, path: str) -> list[str]:
        folders: list[str] = []
        try:
            with self._opened(start, path) as here, os.scandir(here) as entries:
                device = os.fstat(here).st_dev
                for entry in entries:
                    self._pause()
                    try:
                        info = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue  # gone meanwhile
                    if info.st_dev != device:
                        continue
                    self._count(info, uploading=path == UPLOADS and not entry.name.startswith(UPLOAD))
                    if stat.S_ISDIR(info.st_mode):
                        folders.append(entry.name)
        except OSError:
            if start == self._home and not path:
                raise
            # Gone meanwhile, or nobody here may read it.
        return folders

    @contextlib.contextmanager
    def _opened(self, start: int, path: str) -> Iterator[int]:
        try:
            descriptor = open_beneath(start, path, _FOLDER, links=False, mounts=False)
        except PermissionError:
            # Where the server of the mount makes root nobody, only the account itself can look.
            with acting_as(self._uid, self._gid):
                descriptor = open_beneath(start, path, _FOLDER, links=False, mounts=False)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _count(self, info: os.stat_result, *, uploading: bool = False) -> None:
        self._entries += 1
        size = info.st_blocks * _BLOCK
        if info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode):
            if info.st_ino in self._linked:
                return
            if len(self._linked) < _MAX_LINKED:
                self._linked.add(info.st_ino)
            else:
                size //= info.st_nlink
        self._bytes += size
        if uploading:
            self._uploading += size

    def _pause(self) -> None:
        if time.monotonic() >= self._rest_at:
            if self._pace.rest():
                raise MeasuringStopped
            self._rest_at = time.monotonic() + self._pace.work_s
