"""Snapshots of code on the shared mount. Blocking.

```
<mount>/code/ACCOUNT/            root's, 0750, of the account's group
    blobs/SHA256, SHA256-x       each content once; -x where it may be executed
    sha256-HEX/…                 a snapshot: hard links to blobs, and links; from one rename on
    .tree-…, .incoming-…, .gone-…  on their way in or out; after a kill they are removed
```

Files are 0444 or 0555 and folders 0555, root's own: tasks of the account read them and nobody changes them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import tarfile
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from headway.errors import HeadwayError, InvalidInput, MountUnavailable, StoreFull
from headway.mount import Layout
from headway.snapshot import SHA256, SnapFile, SnapLink, digest_of

from ..filesystem.removal import remove_own_tree
from ..filesystem.system_calls import sync_all

_CHUNK = 1 << 20
_TREE, _INCOMING, _GONE = ".tree-", ".incoming-", ".gone-"
_RUN = secrets.token_hex(4)  # separates what this process is working on from what an earlier one left
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# What somebody has sent and not used yet may still be wanted by the POST that follows.
_UNUSED_BLOB_S = 86_400.0
# A content that so many snapshots share may have as many names as the file system takes.
_FULL = frozenset({errno.EMLINK})
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})


class BlobRefused(InvalidInput):
    """Content that is not what its name says, or no content at all."""

    http_status = 422
    slug = "blob-refused"
    title = "This content was not taken"


class CodeStore:
    """Of one account. Two calls that change it must not run at the same time, :meth:`receive` excepted."""

    def __init__(self, layout: Layout, account: str, gid: int) -> None:
        self.root = layout.code_of(account)
        self._gid = gid
        self._blobs = self.root / "blobs"

    def tree(self, digest: str) -> Path:
        """Where that snapshot lies."""
        return self.root / digest.replace(":", "-")

    def has(self, digest: str) -> bool:
        """Whether that snapshot is there, whole."""
        return self.tree(digest).is_dir()

    def digests(self) -> list[str]:
        """All snapshots."""
        try:
            return [name.replace("-", ":", 1) for name in os.listdir(self.root) if name.startswith("sha256-")]
        except FileNotFoundError:
            return []

    def prepare(self) -> None:
        """Makes the folders."""
        with as_headway_error():
            for folder, mode in ((self.root.parent, 0o711), (self.root, 0o750), (self._blobs, 0o700)):
                if not folder.exists():
                    with suppress(FileExistsError):
                        folder.mkdir(mode)
                    folder.chmod(mode)
                if folder == self.root and os.geteuid() == 0 and folder.stat().st_gid != self._gid:
                    os.chown(folder, 0, self._gid)

    def missing(self, files: Iterable[SnapFile]) -> list[str]:
        """Contents that have to be sent, each once, in the order of the files."""
        with as_headway_error():
            try:
                there = {name.removesuffix("-x") for name in os.listdir(self._blobs)}
            except FileNotFoundError:
                there = set()
            return list(dict.fromkeys(file.sha256 for file in files if file.sha256 not in there))

    def incoming(self) -> Path:
        """A new place for an archive of contents."""
        self.prepare()
        return self.root / f"{_INCOMING}{_RUN}{secrets.token_hex(8)}"

    def receive(self, archive: BinaryIO) -> int:
        """Takes all contents of a tar archive in whose names are their SHA-256; answers how many. What was good before
        something bad stays.

        Raises:
            BlobRefused: not such an archive, cut short, or a content that is not what its name says.
            StoreFull: no space.
        """
        count = 0
        with as_headway_error():
            try:
                with tarfile.open(fileobj=archive, mode="r:", ignore_zeros=False) as tar:
                    for member in tar:
                        self._take(tar, member)
                        count += 1
                        tar.members = []  # type: ignore[attr-defined]  # it would remember all of them
            except tarfile.TarError as error:
                raise BlobRefused(f"This is not a complete tar archive of contents: {error}.") from error
            with _opened(self._blobs) as blobs:
                sync_all(blobs)
        return count

    def _take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        if not SHA256.fullmatch(member.name) or not member.isreg() or member.issparse():
            raise BlobRefused(
                f"The archive holds `{member.name[:80]}`; only plain files that are named by their SHA-256 are taken."
            )
        source = tar.extractfile(member)
        assert source is not None
        temporary = self._blobs / f"{_INCOMING}{_RUN}{secrets.token_hex(8)}"
        found, size = hashlib.sha256(), 0
        try:
            with temporary.open("xb") as file:
                while data := source.read(_CHUNK):
                    found.update(data)
                    size += len(data)
                    file.write(data)
            if size != member.size:
                raise BlobRefused(f"The archive breaks off in the middle of {member.name}; send it again.")
            if found.hexdigest() != member.name:
                raise BlobRefused(
                    f"The content named {member.name} has the SHA-256 {found.hexdigest()}: it was changed or damaged "
                    "while it was sent; send it again."
                )
            self._finish(temporary, self._blobs / member.name, executable=False)
        finally:
            temporary.unlink(missing_ok=True)

    def _finish(self, temporary: Path, blob: Path, *, executable: bool) -> None:
        temporary.chmod(0o555 if executable else 0o444)
        if os.geteuid() == 0:
            os.chown(temporary, 0, self._gid)
        temporary.replace(blob)

    def build(self, files: Sequence[SnapFile], links: Sequence[SnapLink]) -> str:
        """Makes the snapshot of contents that are all there; answers its digest. Nothing is done where it is there.

        Raises:
            BlobRefused: a content has another size than announced.
            StoreFull: no space.
        """
        digest = digest_of(files, links)
        if self.has(digest):
            return digest
        name = f"{_TREE}{_RUN}{secrets.token_hex(8)}"
        tree = self.root / name
        with as_headway_error(), _opened(self.root) as root:
            try:
                tree.mkdir(0o700)
                self._fill(tree, files, links)
                sync_all(root)
                with suppress(OSError):  # somebody else was first
                    os.rename(name, self.tree(digest).name, src_dir_fd=root, dst_dir_fd=root)
                os.fsync(root)
            finally:
                remove_own_tree(root, name)
        if not self.has(digest):
            raise MountUnavailable("The snapshot could not be put into its place on the shared folder; try again.")
        return digest

    def _fill(self, tree: Path, files: Sequence[SnapFile], links: Sequence[SnapLink]) -> None:
        paths = [file.path for file in files] + [link.path for link in links]
        folders = _folders(paths)
        for folder in folders:
            (tree / folder).mkdir(0o700)
        for file in files:
            self._place(file, tree / file.path)
        for link in links:
            os.symlink(link.target, tree / link.path)
        for folder in ["", *folders]:
            (tree / folder).chmod(0o555)
            if os.geteuid() == 0:
                os.chown(tree / folder, 0, self._gid)

    def _place(self, file: SnapFile, target: Path) -> None:
        blob = self._blob(file)
        try:
            os.link(blob, target)
        except OSError as error:
            if error.errno in _NO_LINKS:
                shutil.copyfile(blob, target)
                target.chmod(0o555 if file.executable else 0o444)
                if os.geteuid() == 0:
                    os.chown(target, 0, self._gid)
                return
            if error.errno not in _FULL:
                raise
            self._copied(blob, blob, executable=file.executable)
            os.link(blob, target)
        if target.stat().st_size != file.size_bytes:
            raise BlobRefused(
                f"`{file.path[:200]}` is said to have {file.size_bytes} bytes, and its content has others."
            )

    def _blob(self, file: SnapFile) -> Path:
        plain, runs = self._blobs / file.sha256, self._blobs / f"{file.sha256}-x"
        wanted, other = (runs, plain) if file.executable else (plain, runs)
        if not wanted.exists():
            self._copied(other, wanted, executable=file.executable)
        return wanted

    def _copied(self, source: Path, target: Path, *, executable: bool) -> None:
        temporary = self._blobs / f"{_INCOMING}{_RUN}{secrets.token_hex(8)}"
        try:
            shutil.copyfile(source, temporary)
            self._finish(temporary, target, executable=executable)
        finally:
            temporary.unlink(missing_ok=True)

    # -- removing -------------------------------------------------------------------------------

    def remove(self, digests: Collection[str]) -> None:
        """Removes snapshots; their contents go with the next :meth:`sweep`."""
        with as_headway_error(), _opened(self.root) as root:
            for digest in digests:
                gone = f"{_GONE}{_RUN}{secrets.token_hex(8)}"
                with suppress(FileNotFoundError):
                    os.rename(self.tree(digest).name, gone, src_dir_fd=root, dst_dir_fd=root)
                remove_own_tree(root, gone)

    def sweep(self, *, leftovers: bool) -> int:
        """Removes contents that no snapshot has, and with ``leftovers`` what a kill left; answers the bytes."""
        freed = 0
        if not self.root.exists():
            return 0
        with as_headway_error(), _opened(self.root) as root:
            for name in os.listdir(root) if leftovers else ():
                if name.startswith((_TREE, _INCOMING, _GONE)) and _RUN not in name:
                    remove_own_tree(root, name)
            if not self._blobs.exists():
                return 0
            with os.scandir(self._blobs) as entries:
                for entry in entries:
                    info = entry.stat(follow_symlinks=False)
                    half = entry.name.startswith(_INCOMING)
                    if (half and leftovers and _RUN not in entry.name) or (
                        not half and info.st_nlink == 1 and time.time() - info.st_ctime > _UNUSED_BLOB_S
                    ):
                        (self._blobs / entry.name).unlink(missing_ok=True)
                        freed += info.st_size
        return freed


def _folders(paths: Iterable[str]) -> list[str]:
    """All folders on the way to these, parents first."""
    found: set[str] = set()
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return sorted(found)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def as_headway_error() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _told(error) from error


def _told(error: OSError) -> HeadwayError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull("The shared folder is full; the snapshot was not stored.")
    if error.errno == errno.ENAMETOOLONG:
        return InvalidInput("A path in the snapshot is too long for the shared folder.")
    return MountUnavailable(f"The shared folder reports an error: {error.strerror}.")
