"""Publishing one version: hard links, clones or copies of a folder's files, checked and hashed. Blocking.

```
method = choose(places, source, copy=False)
work = Publication(places, "mnist", "2", source, method, scanned, stop)
work.collect()       # links, clones or copies into staging
work.take_over()     # hard links only: the files become root's and read-only
info = work.check()  # checksums; nothing may have changed since
places.publish("mnist", "2")
```
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedWriter
from typing import Literal, TextIO

from headway.errors import Conflict, HeadwayError, MountUnavailable, NotAllowed, NotFound, StoreFull
from headway.snapshot import format_size_about

from ..filesystem.paths import shown
from ..filesystem.removal import remove_own_tree
from ..filesystem.system_calls import clone, open_for_writing
from .source_folder import Folder, FolderEntry, FolderScan, NotPublishable, SourceFolder
from .staging import PROBE, JournaledFile, VersionFolders, VersionInfo, journal_lines, write_info

Method = Literal["reflink", "hardlink", "copy"]

_CHUNK = 1 << 20
_FILE_COSTS = 1 << 16  # a small file takes as long as so many bytes of a large one
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_MAKE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES, errno.EINVAL})
_ROOT_TASKS = (
    "Your tasks may run as root (`user: image`), and those could change files that a dataset shares with your space by "
    "hard links."
)


class CopyNeeded(Conflict):
    """Only a copy is possible here, and the request did not ask for one."""

    slug = "copy-needed"
    title = "This folder would have to be copied"


class ChangedMeanwhile(Conflict):
    """The folder is being written to."""

    slug = "changed-meanwhile"
    title = "The folder changed while it was published"


def choose(
    places: VersionFolders,
    source: SourceFolder,
    *,
    copy: bool,
    counted: Callable[[], FolderScan],
    root_tasks: bool = False,
) -> Method:
    """How this folder can be published. It is tried with the first file.

    ``counted`` gives the numbers for the message. With ``root_tasks`` the account's tasks may be root in their
    container, and so write to every file of its space.

    Raises:
        CopyNeeded: only by a copy, and ``copy`` is False.
        OSError: the file system does not do what it should.
    """
    with _probe(places) as probe, _first_file(source) as descriptor:
        if descriptor is None:
            return "copy"  # nothing to copy either
        target = os.open("clone", _MAKE, 0o600, dir_fd=probe)
        try:
            if clone(descriptor, target):
                return "reflink"
        finally:
            os.close(target)
        if copy:
            return "copy"
        why = _ROOT_TASKS if root_tasks else _why_no_hard_links(source, descriptor, probe)
        if not why:
            return "hardlink"
    found = counted()
    least = "" if found.whole else "at least "
    raise CopyNeeded(
        f"{why} So {least}{format_size_about(found.size_bytes)} in {found.files:,} files would have to be copied: ask "
        "for that with --copy (in the API: copy: true)."
    )


def _why_no_hard_links(source: SourceFolder, descriptor: int, probe: int) -> str:
    if os.geteuid() != 0:
        return (
            "Headway does not run as root here, so it can't keep hard links of your files from being changed, and this "
            "file system can't share content otherwise (reflink)."
        )
    try:
        os.link(f"/proc/self/fd/{descriptor}", "link", dst_dir_fd=probe, follow_symlinks=True)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        return f"Personal spaces and datasets can't share files on this mount ({error.strerror})."
    try:
        os.chown("clone", source.uid, source.gid, dir_fd=probe)
        os.chown("clone", 0, 0, dir_fd=probe)
    except OSError:
        return "The shared mount does not let Headway be root (root_squash), so it can't take files over."
    return ""


@contextmanager
def _probe(places: VersionFolders) -> Iterator[int]:
    folder = places.root / f"{PROBE}{secrets.token_hex(8)}"
    folder.mkdir(0o700)
    with ExitStack() as stack:
        root = os.open(places.root, _FOLDER)
        stack.callback(os.close, root)
        stack.callback(remove_own_tree, root, folder.name)
        descriptor = os.open(folder, _FOLDER)
        stack.callback(os.close, descriptor)
        yield descriptor


@contextmanager
def _first_file(source: SourceFolder) -> Iterator[int | None]:
    descriptor = None
    for entry in source.walk():
        if isinstance(entry, FolderEntry) and stat.S_ISREG(entry.info.st_mode):
            with source.acting():
                descriptor = os.open(entry.name, _READ, dir_fd=entry.folder)
            break
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


class Publication:
    """See the module. ``stop`` is called often and ends the work by raising."""

    def __init__(
        self,
        places: VersionFolders,
        name: str,
        version: str,
        source: SourceFolder,
        method: Method,
        scanned: FolderScan,
        stop: Callable[[], None],
    ) -> None:
        self._staging = places.staging(name, version)
        self._source = source
        self.method = method
        self._stop = stop
        # Hard links are hashed in a second pass, and the first costs little.
        self._cost = scanned.size_bytes + scanned.files * _FILE_COSTS
        self._done = 0
        self._files = 0
        self._bytes = 0
        self._total = hashlib.sha256()

    @property
    def progress(self) -> float:
        """From 0 to 1."""
        return min(1.0, self._done / self._cost) if self._cost else 0.0

    # -- collecting -----------------------------------------------------------------------------

    def collect(self) -> None:
        """Everything into staging.

        Raises:
            HeadwayError: in a sentence for the publisher.
        """
        with _in_words():
            self._staging.mkdir(0o700)
            with ExitStack() as stack:
                data = self._folder(stack, "data")
                journal = stack.enter_context((self._staging / "journal").open("w", encoding="ascii"))
                sums = stack.enter_context((self._staging / "sums").open("wb"))
                self._collect(data, journal, sums)
                for file in (journal, sums):
                    file.flush()
                    os.fsync(file.fileno())
            if self.method != "hardlink":
                (self._staging / "journal").unlink()

    def _folder(self, stack: ExitStack, name: str) -> int:
        path = self._staging / name
        path.mkdir()
        path.chmod(0o755)
        descriptor = os.open(path, _FOLDER)
        stack.callback(os.close, descriptor)
        return descriptor

    def _collect(self, data: int, journal: TextIO, sums: BufferedWriter) -> None:
        here = -1
        try:
            for entry in self._source.walk():
                self._stop()
                if isinstance(entry, Folder):
                    if here >= 0:
                        os.close(here)
                        here = -1
                    if entry.path:
                        os.mkdir(entry.path, 0o755, dir_fd=data)
                        os.chmod(entry.path, 0o755, dir_fd=data)
                    here = os.open(entry.path or ".", _FOLDER, dir_fd=data)
                else:
                    with _at(entry.path):
                        self._add(entry, here, journal, sums)
        finally:
            if here >= 0:
                os.close(here)

    def _add(self, entry: FolderEntry, here: int, journal: TextIO, sums: BufferedWriter) -> None:
        if stat.S_ISLNK(entry.info.st_mode):
            self._link(entry, here)
        elif self.method == "hardlink":
            self._take(entry, here, journal)
        else:
            self._copy(entry, here, sums)

    def _link(self, entry: FolderEntry, here: int) -> None:
        with self._source.acting():
            target = os.readlink(entry.name, dir_fd=entry.folder)
        os.symlink(target, entry.name, dir_fd=here)
        # Checked on what was read and made, not on what is there now.
        if why := self._source.why_not_link(entry.path, target):
            raise NotPublishable(f"A dataset can't hold this: `{shown(entry.path)}` {why}.")

    def _take(self, entry: FolderEntry, here: int, journal: TextIO) -> None:
        # A handle on the file itself: whatever happens to its name meanwhile, this is what is looked at and linked.
        handle = os.open(entry.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=entry.folder)
        try:
            info = self._checked(entry, os.fstat(handle))
            os.link(f"/proc/self/fd/{handle}", entry.name, dst_dir_fd=here, follow_symlinks=True)
        finally:
            os.close(handle)
        # What an earlier version took over has lost its mode; the owner gets it back fit for writing.
        mode = info.st_mode & 0o777 if info.st_uid else _published_mode(info.st_mode) | 0o200
        gid = info.st_gid if info.st_uid else self._source.gid
        line = JournaledFile(entry.path, info.st_ino, mode, self._source.uid, gid)
        journal.write(json.dumps(line) + "\n")

    def _copy(self, entry: FolderEntry, here: int, sums: BufferedWriter) -> None:
        with self._source.acting():
            source = os.open(entry.name, _READ, dir_fd=entry.folder)
        try:
            before = self._checked(entry, os.fstat(source))
            target = os.open(entry.name, _MAKE, 0o600, dir_fd=here)
            try:
                if self.method == "reflink":
                    if not clone(source, target):
                        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), entry.path)
                    found = self._hash(target)
                else:
                    found = self._hash(source, target)
                _same(before, os.fstat(source), entry.path)
                os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
                os.fchmod(target, _published_mode(before.st_mode))
                self._note(sums, entry.path, found, os.fstat(target).st_size)
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _checked(self, entry: FolderEntry, info: os.stat_result) -> os.stat_result:
        if not stat.S_ISREG(info.st_mode):
            raise ChangedMeanwhile(f"`{shown(entry.path)}` was replaced while the folder was published; nothing was.")
        if why := self._source.why_not_file(info):
            raise NotPublishable(f"A dataset can't hold this: `{shown(entry.path)}` {why}.")
        return info

    # -- hard links -----------------------------------------------------------------------------

    def take_over(self) -> None:
        """The files become root's and read-only: from now on nobody can open them for writing.

        Raises:
            HeadwayError: in a sentence for the publisher.
        """
        if self.method != "hardlink":
            return
        with _in_words(), _opened(self._staging / "data") as data:
            self._mark_owned()
            for line in journal_lines(self._staging / "journal"):
                self._stop()
                os.chown(line.path, 0, 0, dir_fd=data, follow_symlinks=False)
                os.chmod(line.path, _published_mode(line.mode), dir_fd=data)

    def _mark_owned(self) -> None:
        os.close(os.open(self._staging / "owned", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        with _opened(self._staging) as staging:
            os.fsync(staging)

    # -- checking -------------------------------------------------------------------------------

    def check(self) -> VersionInfo:
        """Hashes what is not hashed yet and makes sure that nothing has changed meanwhile.

        Raises:
            HeadwayError: in a sentence for the publisher.
        """
        with _in_words():
            if self.method == "hardlink":
                self._hash_links()
            info = VersionInfo(self._files, self._bytes, self._total.hexdigest(), self.method)
            if not info.files:
                raise NotPublishable("There is no file in this folder.")
            write_info(self._staging, info)
            return info

    def _hash_links(self) -> None:
        stats = self._staging / "stats"
        with ExitStack() as stack:
            data = stack.enter_context(_opened(self._staging / "data"))
            sums = stack.enter_context((self._staging / "sums").open("wb"))
            seen = stack.enter_context(stats.open("w", encoding="ascii"))
            for line in journal_lines(self._staging / "journal"):
                self._stop()
                descriptor = os.open(line.path, _READ, dir_fd=data)
                try:
                    before = os.fstat(descriptor)
                    if before.st_uid != 0 or before.st_mode & 0o7222 or open_for_writing(descriptor):
                        raise ChangedMeanwhile(
                            f"`{shown(line.path)}` is open for writing by some program, so it can't be made read-only; "
                            "end that program, or publish with --copy (in the API: copy: true)."
                        )
                    found = self._hash(descriptor)
                    _same(before, os.fstat(descriptor), line.path)
                finally:
                    os.close(descriptor)
                self._note(sums, line.path, found, before.st_size)
                seen.write(json.dumps((line.path, before.st_size, before.st_mtime_ns)) + "\n")
            sums.flush()
            os.fsync(sums.fileno())
        # Once more at the very end, for writers that a network mount hides from this machine.
        with _opened(self._staging / "data") as data, stats.open(encoding="ascii") as lines:
            for text in lines:
                self._stop()
                path, size, modified_ns = json.loads(text)
                now = os.stat(path, dir_fd=data, follow_symlinks=False)
                if (now.st_size, now.st_mtime_ns) != (size, modified_ns):
                    raise _changed(path)

    def _hash(self, source: int, copy_to: int | None = None) -> str:
        found = hashlib.sha256()
        while data := os.read(source, _CHUNK):
            self._stop()
            found.update(data)
            view = memoryview(data)
            while copy_to is not None and view:
                view = view[os.write(copy_to, view) :]
            self._done += len(data)
        return found.hexdigest()

    def _note(self, sums: BufferedWriter, path: str, sha256: str, size: int) -> None:
        line = checksum_line(path, sha256)
        sums.write(line)
        self._total.update(line)
        self._files += 1
        self._bytes += size
        self._done += _FILE_COSTS


def checksum_line(path: str, sha256: str) -> bytes:
    """As ``sha256sum`` writes it and reads it back."""
    raw = os.fsencode(path)
    if b"\\" in raw or b"\n" in raw or b"\r" in raw:
        raw = raw.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
        return b"\\%s  %s\n" % (sha256.encode(), raw)
    return b"%s  %s\n" % (sha256.encode(), raw)


def _published_mode(mode: int) -> int:
    return 0o555 if mode & 0o111 else 0o444


def _same(before: os.stat_result, after: os.stat_result, path: str) -> None:
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise _changed(path)


def _changed(path: str) -> ChangedMeanwhile:
    return ChangedMeanwhile(
        f"`{shown(path)}` was written to while it was published, so nothing was published; try again when nothing "
        "writes to the folder."
    )


@contextmanager
def _opened(folder: os.PathLike[str]) -> Iterator[int]:
    descriptor = os.open(folder, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _at(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.filename = path
        raise


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise as_headway_error(error) from error


def as_headway_error(error: OSError) -> HeadwayError:
    """The file system's error as a sentence for the publisher."""
    name = error.filename if isinstance(error.filename, str) and not error.filename.startswith("/") else ""
    what = f"`{shown(name)}`" if name else "Something in the folder"
    code = error.errno
    if code in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        return NotFound(f"{what} vanished or was replaced while the folder was published, so nothing was published.")
    if code in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull("The shared folder is full, or a quota is used up; nothing was published.")
    if code == errno.EXDEV:
        return CopyNeeded(
            f"{what} lies on another file system than datasets; publish with --copy (in the API: copy: true)."
        )
    if code == errno.EMLINK:
        return CopyNeeded(
            f"{what} has as many names as the file system allows; publish with --copy (in the API: copy: true)."
        )
    if code in (errno.EACCES, errno.EPERM):
        return NotAllowed(f"{what} can't be read or taken over ({error.strerror}), so nothing was published.")
    if code == errno.ENAMETOOLONG:
        return NotPublishable(f"{what} has a path that is too long.")
    return MountUnavailable(f"The shared folder reports an error ({error.strerror}); nothing was published.")
