"""The folder in a home that is to be published. The walk never leaves the folder. Blocking."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from headway.errors import InvalidInput, TooLarge
from headway.snapshot import format_size_about, link_stays_inside

from ..filesystem.paths import shown
from ..filesystem.rights import acting_as
from ..filesystem.system_calls import open_beneath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_TOLD = 20


class NotPublishable(InvalidInput):
    """The folder holds what a dataset can't."""

    http_status = 422
    slug = "not-publishable"
    title = "This folder can't become a dataset"


class DatasetLimits(NamedTuple):
    """How large a dataset may be."""

    files: int = 1_000_000
    bytes: int = 1 << 50


class Folder(NamedTuple):
    """A folder; its path is relative to the published one, empty for that one itself."""

    path: str


class FolderEntry(NamedTuple):
    """A file or a link of the folder that is open as ``folder``, valid until the next step of the walk."""

    path: str
    name: str
    folder: int
    info: os.stat_result


@dataclass(slots=True)
class FolderScan:
    """What is in a folder."""

    files: int = 0
    folders: int = 0
    size_bytes: int = 0
    whole: bool = True  # False: stopped early
    too_many: bool = False
    too_large: bool = False
    offenders: list[str] = field(default_factory=list)  # the first of them, each with what is wrong
    more_offenders: int = 0

    def offend(self, path: str, why: str) -> None:
        if len(self.offenders) < _TOLD:
            self.offenders.append(f"`{shown(path)}` {why}")
        else:
            self.more_offenders += 1

    def check(self, limits: DatasetLimits) -> None:
        """
        Raises:
            TooLarge: more than allowed.
            NotPublishable: with the first things that a dataset can't hold, or for a folder without files.
        """
        if self.too_many:
            raise TooLarge(
                f"The folder has more than {limits.files:,} files and folders, the most that a dataset may have: put "
                "many small files into archives (tar, zip, HDF5) first. An admin may raise "
                "httpserver.dataset_max_files."
            )
        if self.too_large:
            raise TooLarge(
                f"The folder has more than {format_size_about(limits.bytes)}, the most that a dataset may have."
            )
        if self.offenders:
            more = f" … and {self.more_offenders:,} more" if self.more_offenders else ""
            raise NotPublishable(f"A dataset can't hold this: {'; '.join(self.offenders)}{more}.")
        if self.whole and not self.files:
            raise NotPublishable("There is no file in this folder.")


class SourceFolder:
    """A folder of a home, open as ``root``; everything is looked at with the account's own rights.

    ``published`` are the inodes that earlier versions took over from this account. They are root's, and allowed.
    """

    def __init__(self, root: int, uid: int, gid: int, published: Collection[int] = ()) -> None:
        self.root = root
        self.published = published
        self.uid = uid if os.geteuid() == 0 else os.geteuid()
        self.gid = gid if os.geteuid() == 0 else os.getegid()
        self.device = os.fstat(root).st_dev

    @contextmanager
    def acting(self) -> Iterator[None]:
        """File calls count as the account's."""
        with acting_as(self.uid, self.gid):
            yield

    def walk(self, most: int | None = None) -> Iterator[Folder | FolderEntry]:
        """Every folder before what is in it; a folder's own files and links, by name, before its folders.

        The same tree gives the same order. What vanishes meanwhile is left out. Of a folder with more than ``most``
        entries only so many and one are looked at.

        Raises:
            OSError: with the path as its filename.
        """
        todo = [""]
        while todo:
            path = todo.pop()
            yield Folder(path)
            with self.acting():
                folder = open_beneath(self.root, path, _FOLDER, links=False)
                try:
                    with os.scandir(folder) as entries:
                        found = [entry.name for entry in islice(entries, None if most is None else most + 1)]
                    names = sorted(found, key=os.fsencode)
                except BaseException:
                    os.close(folder)
                    raise
            folders = []
            try:
                for name in names:
                    below = f"{path}/{name}" if path else name
                    with self.acting():
                        try:
                            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
                        except FileNotFoundError:
                            continue
                    if stat.S_ISDIR(info.st_mode):
                        folders.append(below)
                    else:
                        yield FolderEntry(below, name, folder, info)
            finally:
                os.close(folder)
            todo.extend(reversed(folders))

    def scan(self, limits: DatasetLimits, stop: Callable[[], bool] = lambda: False) -> FolderScan:
        """Counts what is in it and finds what a dataset can't hold. Ends early past a limit or when ``stop`` says so.

        Raises:
            OSError: with the path as its filename.
        """
        found = FolderScan()
        for entry in self.walk(limits.files):
            if isinstance(entry, Folder):
                found.folders += 1
            elif stat.S_ISREG(entry.info.st_mode):
                found.files += 1
                found.size_bytes += entry.info.st_size
            if isinstance(entry, FolderEntry) and (why := self.why_not(entry)):
                found.offend(entry.path, why)
            found.too_many = found.files + found.folders > limits.files
            found.too_large = found.size_bytes > limits.bytes
            if found.too_many or found.too_large or stop():
                found.whole = False
                break
        return found

    def why_not(self, entry: FolderEntry) -> str:
        """Why this can't be in a dataset, as a clause; empty: it can."""
        mode = entry.info.st_mode
        if stat.S_ISLNK(mode):
            with self.acting():
                try:
                    return self.why_not_link(entry.path, os.readlink(entry.name, dir_fd=entry.folder))
                except FileNotFoundError:
                    return ""
        if not stat.S_ISREG(mode):
            kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
            return f"is {kinds.get(stat.S_IFMT(mode), 'a device')}"
        return self.why_not_file(entry.info)

    def why_not_link(self, path: str, target: str) -> str:
        """The same for a link at ``path``."""
        if link_stays_inside(path, target):
            return ""
        shown_to = f"`{shown(target)[:200]}`"
        if target.startswith("/"):
            return f"is a link with an absolute target, {shown_to}; links in the folder need relative ones (ln -sr)"
        return f"is a link out of the folder, to {shown_to}"

    def why_not_file(self, info: os.stat_result) -> str:
        """The same for a plain file, from its facts alone."""
        if info.st_dev != self.device:
            return "lies on another file system"
        if info.st_uid != self.uid and not (info.st_uid == 0 and info.st_ino in self.published):
            return f"belongs to another user (uid {info.st_uid})"
        return ""
