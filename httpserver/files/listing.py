"""Pages of a folder, also of one with a hundred thousand files. Blocking, under the account's rights."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from heapq import merge
from itertools import islice

from headway.errors import Conflict

UPLOAD = ".headway-upload-"  # what the names of files begin with that are being written
# A body that pauses for a minute is cut, so an upload untouched for so long lost its server: nobody will finish it.
_DEAD_UPLOAD_S = 600.0
_MAX_ENTRIES = 1_000_000
_KEPT_S = 10.0
_KEPT_NAMES = 1_000_000  # of all folders together; about 100 bytes each
_SORTED_AT_ONCE = 100_000
_SMALL = 2_000  # reading so many again costs less than to keep them
# A file system's clock ticks only some hundred times a second, that of a network mount may be another machine's: a
# folder that has changed within this time may change again without a new time.
_SETTLED_S = 1.5

_Key = tuple[int, int, int, int]  # device, inode, mtime, ctime


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """One entry of a folder; ``name`` may hold surrogates for undecodable bytes."""

    name: str
    mode: int
    size: int
    modified_at: float
    uid: int
    target: str | None  # of a link


class NameCache:
    """The sorted names of large folders that were read lately. Safe between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, tuple[float, list[str]]] = OrderedDict()
        self._count = 0

    def get(self, key: _Key) -> list[str] | None:
        """The names, if they were read within the last seconds."""
        with self._lock:
            self._drop_old()
            found = self._kept.get(key)
            return None if found is None else found[1]

    def put(self, key: _Key, names: list[str]) -> None:
        """Keeps them for some seconds."""
        if not _SMALL < len(names) <= _KEPT_NAMES:
            return
        with self._lock:
            before = self._kept.pop(key, None)
            self._count += len(names) - (0 if before is None else len(before[1]))
            self._kept[key] = (time.monotonic() + _KEPT_S, names)
            self._drop_old()

    def _drop_old(self) -> None:
        now = time.monotonic()
        while self._kept:
            key, (until, names) = next(iter(self._kept.items()))
            if until > now and self._count <= _KEPT_NAMES:
                return
            del self._kept[key]
            self._count -= len(names)


def page(
    folder: int, after: str, limit: int, *, hidden: Collection[str] = (), cache: NameCache | None = None
) -> tuple[list[ListedEntry], bool]:
    """Entries of an open folder by name, those behind ``after``; and whether there are more. Only those of the page
    are looked at.

    Raises:
        Conflict: there are more than can be listed.
        OSError: it can't be read.
    """
    names = _names(folder, cache)
    found: list[ListedEntry] = []
    at = bisect_right(names, after) if after else 0
    while at < len(names) and len(found) < limit:
        name = names[at]
        at += 1
        if name in hidden or (name.startswith(UPLOAD) and _is_dead(folder, name)):
            continue
        entry = _look(folder, name)
        if entry is not None:
            found.append(entry)
    return found, at < len(names)


def _names(folder: int, cache: NameCache | None) -> list[str]:
    info = os.fstat(folder)
    key = (info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns)
    if cache is not None and (kept := cache.get(key)) is not None:
        return kept
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, _MAX_ENTRIES + 1)]
    if len(names) > _MAX_ENTRIES:
        raise Conflict(f"This folder has more than {_MAX_ENTRIES} entries; that is more than can be listed.")
    names = _sorted(names)
    if cache is not None and time.time() - max(info.st_mtime, info.st_ctime) > _SETTLED_S:
        cache.put(key, names)
    return names


def _sorted(names: list[str]) -> list[str]:
    """A sort lets no other thread run until it is done, with a million names for a second: so in parts."""
    if len(names) <= _SORTED_AT_ONCE:
        names.sort()
        return names
    parts = [sorted(names[at : at + _SORTED_AT_ONCE]) for at in range(0, len(names), _SORTED_AT_ONCE)]
    return list(merge(*parts))


def _is_dead(folder: int, name: str) -> bool:
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


def _look(folder: int, name: str) -> ListedEntry | None:
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None  # gone meanwhile
    target = None
    if stat.S_ISLNK(info.st_mode):
        with contextlib.suppress(OSError):
            target = os.readlink(name, dir_fd=folder)
    return ListedEntry(name, info.st_mode, info.st_size, info.st_mtime, info.st_uid, target)
