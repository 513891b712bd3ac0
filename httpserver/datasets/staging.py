"""A version on the shared mount: how it is made, put in its place in one step, and removed again. Blocking.

```
<mount>/datasets/.staging-NAME@VERSION/     while it is made; nobody else may look into it
    data/  journal  owned  sums  info
<mount>/datasets/NAME/VERSION/              the dataset, from one rename on
<mount>/datasets/NAME/.VERSION.sha256       checksums; .files: the journal; .json: the info
<mount>/datasets/.gone-NAME@VERSION/        on its way out, with data/ journal owned
```

``journal`` says whose each file was before hard links made it root's. It is whole when ``owned`` is there, and files
change their owner only after that. So :func:`discard` can give everything back after a kill at any moment.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from headway.logs import get_logger
from headway.mount import Layout

from ..filesystem.removal import remove_own_tree
from ..filesystem.system_calls import rename_no_replace, sync_all

log = get_logger(__name__)

_STAGING = ".staging-"
_GONE = ".gone-"
PROBE = f"{_STAGING}.probe-"
_PROBE_LIFE_S = 60.0
_PASS_THROUGH = 0o711
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SIDES = (("sums", "sha256"), ("journal", "files"), ("info", "json"))


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """What is known of a whole version."""

    files: int
    size_bytes: int
    checksum: str  # SHA-256 of the text of all checksums
    method: str  # reflink | hardlink | copy


class JournaledFile(NamedTuple):
    """A file as it is to be given back."""

    path: str
    inode: int
    mode: int  # without set-uid and the like: for a moment the file is root's
    uid: int
    gid: int


class VersionFolders:
    """Where versions are, on one mount."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    @property
    def root(self) -> Path:
        """Of all datasets."""
        return self._layout.root / "datasets"

    def version(self, name: str, version: str) -> Path:
        """The folder that tasks see."""
        return self._layout.dataset(name, version)

    def side(self, name: str, version: str, kind: str) -> Path:
        """A file beside it: sha256, files or json."""
        return self.version(name, version).with_name(f".{version}.{kind}")

    def staging(self, name: str, version: str) -> Path:
        """Where it grows."""
        return self.root / f"{_STAGING}{self.version(name, version).parent.name}@{version}"

    def gone(self, name: str, version: str) -> Path:
        """Where it is taken apart."""
        return self.root / f"{_GONE}{self.version(name, version).parent.name}@{version}"

    def leftovers(self) -> list[Path]:
        """What is on its way in or out; after a start: what a kill left."""
        with suppress(FileNotFoundError), os.scandir(self.root) as entries:
            return [self.root / e.name for e in entries if e.name.startswith((_STAGING, _GONE)) and not _in_use(e)]
        return []

    def info(self, name: str, version: str) -> VersionInfo | None:
        """Of a published version; None if it isn't there."""
        try:
            if not stat.S_ISDIR(self.version(name, version).lstat().st_mode):
                return None
            return VersionInfo(**json.loads(self.side(name, version, "json").read_bytes()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError) as error:  # a disk that lost what was on it
            log.error("dataset.info_unreadable", dataset=f"{name}@{version}", reason=str(error))
            return None

    def inodes(self, versions: Collection[tuple[str, str]]) -> set[int]:
        """Inodes of all files that these versions took over by hard links."""
        found: set[int] = set()
        for name, version in versions:
            with suppress(FileNotFoundError, ValueError):
                found.update(line.inode for line in journal_lines(self.side(name, version, "files")))
        return found

    def publish(self, name: str, version: str) -> None:
        """From staging to its place, durably, in one step.

        Raises:
            FileExistsError: something is there that Headway did not publish.
        """
        staging, home = self.staging(name, version), self.version(name, version).parent
        if not home.exists():
            home.mkdir(_PASS_THROUGH)
            home.chmod(_PASS_THROUGH)
        for inside, kind in _SIDES:
            side = self.side(name, version, kind)
            side.unlink(missing_ok=True)
            if (staging / inside).exists():
                _second_name(staging / inside, side)
        with _opened(staging) as source, _opened(home) as target:
            sync_all(source)
            rename_no_replace(source, "data", target, version)
            os.fsync(target)
        with _opened(self.root) as root:
            remove_own_tree(root, staging.name)

    def take_out(self, name: str, version: str) -> Path:
        """A published version leaves its place; what is returned is to be discarded. Safe to call again."""
        gone, folder = self.gone(name, version), self.version(name, version)
        with suppress(FileExistsError):
            gone.mkdir(0o700)
        journal = self.side(name, version, "files")
        if journal.exists():
            with suppress(FileExistsError):
                _second_name(journal, gone / "journal")
            (gone / "owned").touch()
        with suppress(FileNotFoundError):
            os.rename(folder, gone / "data")
        for _, kind in _SIDES:
            self.side(name, version, kind).unlink(missing_ok=True)
        with suppress(OSError):
            folder.parent.rmdir()  # if it was the last
        return gone


def journal_lines(path: Path) -> Iterator[JournaledFile]:
    """All of a journal."""
    with path.open(encoding="ascii") as lines:
        for line in lines:
            yield JournaledFile(*json.loads(line))


def write_info(staging: Path, info: VersionInfo) -> None:
    """Beside the data, durably."""
    with (staging / "info").open("w", encoding="ascii") as file:
        json.dump(asdict(info), file)
        file.flush()
        os.fsync(file.fileno())


def discard(folder: Path, *, keep: Collection[int] = ()) -> None:
    """Gives every file that is still in somebody's home back to its owner, and removes the rest.

    Inodes in ``keep`` stay, since other versions need them. Safe to call again after any failure.

    Raises:
        OSError: something can't be removed now.
    """
    if (folder / "owned").exists() and (folder / "data").is_dir():
        _give_all_back(folder, keep)
    with _opened(folder.parent) as parent:
        # The data first: while some of it is there, the journal still says whose it was.
        remove_own_tree(parent, f"{folder.name}/data")
        remove_own_tree(parent, folder.name)


def _give_all_back(folder: Path, keep: Collection[int]) -> None:
    failed = 0
    try:
        with _opened(folder / "data") as data:
            for line in journal_lines(folder / "journal"):
                try:
                    _give_back(data, line, keep)
                except FileNotFoundError:
                    pass
                except OSError:
                    failed += 1
    except (ValueError, TypeError):  # a disk that lost what was on it
        failed += 1
    if failed:
        log.error("dataset.files_not_given_back", folder=folder.name, files=failed)


def _give_back(data: int, line: JournaledFile, keep: Collection[int]) -> None:
    if line.inode in keep:
        return
    info = os.stat(line.path, dir_fd=data, follow_symlinks=False)
    if info.st_ino == line.inode and info.st_uid == 0 and info.st_nlink > 1 and stat.S_ISREG(info.st_mode):
        os.chmod(line.path, line.mode, dir_fd=data)
        os.chown(line.path, line.uid, line.gid, dir_fd=data, follow_symlinks=False)


def _second_name(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)
        target.chmod(0o600)


def _in_use(entry: os.DirEntry[str]) -> bool:
    # A probe lives for a moment and has no row.
    return entry.name.startswith(PROBE) and time.time() - entry.stat(follow_symlinks=False).st_mtime < _PROBE_LIFE_S


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
