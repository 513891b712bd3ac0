"""The archive: a tar file, compressed with zstd. The manifest is its first member, and has the digest of each other."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import zstandard

from .manifest import MANIFEST, BackupInvalid, BackupMember, Manifest, manifest_of

_CHUNK = 1 << 20
_MOST_MANIFEST_BYTES = 16 << 20
_LEVEL = 3


def described(file: Path, path: str, key: str, *, below: str = "") -> BackupMember:
    """A file on disk as the member ``path``."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
        size, mode = stream.tell(), os.fstat(stream.fileno()).st_mode & 0o777
    return BackupMember(path, size, digest.hexdigest(), mode, key, below)


def write(target: Path, manifest: Manifest, files: Sequence[Path]) -> None:
    """Writes the archive under its real name once it is whole and synced. ``files``: in the order of the members.

    Raises:
        BackupInvalid: the disk is full, or it can't be written; nothing is left of it.
    """
    partial = target.with_name(f".{target.name}.partial")
    try:
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as raw:
            os.fchmod(raw.fileno(), 0o600)
            with (
                zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).stream_writer(raw, closefd=False) as packed,
                tarfile.open(fileobj=packed, mode="w|") as tar,
            ):
                data = manifest.to_json()
                tar.addfile(_entry(MANIFEST, len(data), 0o600, manifest.made_at), io.BytesIO(data))
                for member, file in zip(manifest.members, files, strict=True):
                    with file.open("rb") as stream:
                        tar.addfile(_entry(member.path, member.bytes, member.mode, manifest.made_at), stream)
            raw.flush()
            os.fsync(raw.fileno())
        # Never over a file that is there: a backup that is lost by the next one is none.
        os.link(partial, target)
        sync_folder(target.parent)
    except OSError as error:
        raise unwritable(target, error) from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def unwritable(place: Path, error: OSError) -> BackupInvalid:
    """The sentence for what went wrong while a backup was written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return BackupInvalid(
            f"The disk of {place.parent} is full: there is no room for the backup. Nothing is left of it."
        )
    if isinstance(error, FileExistsError):
        return BackupInvalid(f"{place} is there already: choose another name.")
    return BackupInvalid(f"The backup {place} can't be written: {error.strerror or error}.")


def read_manifest(archive: Path) -> Manifest:
    """Raises:
    BackupInvalid: it is no backup.
    """
    with _opened(archive) as tar:
        return _manifest(archive, tar)


def verified(archive: Path, keep: Callable[[BackupMember], bool]) -> tuple[Manifest, dict[str, bytes]]:
    """Reads the whole archive and compares each file with its digest; returns the content of those to ``keep``.

    Nothing is written.

    Raises:
        BackupInvalid: it is no backup, or a file in it is damaged, missing or unknown.
    """
    kept: dict[str, bytes] = {}
    with _opened(archive) as tar:
        manifest = _manifest(archive, tar)
        wanted = {one.path: one for one in manifest.members}
        for entry, member in _members(archive, tar, wanted):
            sink = io.BytesIO() if keep(member) else None
            _copy(archive, tar, entry, member, sink)
            if sink is not None:
                kept[member.path] = sink.getvalue()
    if wanted:
        raise BackupInvalid(f"{archive} is damaged: {sorted(wanted)[0]} is missing in it.")
    return manifest, kept


def extract(archive: Path, places: dict[str, Path]) -> None:
    """Writes members to new files, synced: path in the archive to the file. The rest is passed over.

    Raises:
        BackupInvalid: the archive is damaged.
        OSError: a file can't be written.
    """
    with _opened(archive) as tar:
        manifest = _manifest(archive, tar)
        wanted = {one.path: one for one in manifest.members}
        for entry, member in _members(archive, tar, wanted):
            if member.path not in places:
                continue
            fd = os.open(
                places[member.path], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
            with os.fdopen(fd, "wb") as sink:
                _copy(archive, tar, entry, member, sink)
                sink.flush()
                os.fchmod(sink.fileno(), member.mode)
                os.fsync(sink.fileno())


def sync_folder(folder: Path) -> None:
    """Makes new names in a folder outlast a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[tarfile.TarFile]:
    try:
        with (
            archive.open("rb") as raw,
            zstandard.ZstdDecompressor().stream_reader(raw, closefd=False) as plain,
            tarfile.open(fileobj=plain, mode="r|") as tar,
        ):
            yield tar
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        raise BackupInvalid(f"{archive} is no backup of Headway, or it is damaged ({error}).") from error


def _manifest(archive: Path, tar: tarfile.TarFile) -> Manifest:
    entry = tar.next()
    if entry is None or entry.name != MANIFEST or not entry.isreg() or entry.size > _MOST_MANIFEST_BYTES:
        raise BackupInvalid(f"{archive} is no backup of Headway: it has no manifest.")
    stream = tar.extractfile(entry)
    return manifest_of(stream.read() if stream is not None else b"")


def _members(
    archive: Path, tar: tarfile.TarFile, wanted: dict[str, BackupMember]
) -> Iterator[tuple[tarfile.TarInfo, BackupMember]]:
    while (entry := tar.next()) is not None:
        member = wanted.pop(entry.name, None)
        if member is None or not entry.isreg() or entry.size != member.bytes:
            raise BackupInvalid(f"{archive} is damaged: {entry.name[:200]!r} in it is not as its manifest says.")
        yield entry, member


def _copy(
    archive: Path, tar: tarfile.TarFile, entry: tarfile.TarInfo, member: BackupMember, sink: IO[bytes] | None
) -> None:
    digest = hashlib.sha256()
    stream = tar.extractfile(entry)
    while stream is not None and (chunk := stream.read(_CHUNK)):
        digest.update(chunk)
        if sink is not None:
            sink.write(chunk)
    if digest.hexdigest() != member.sha256:
        raise BackupInvalid(f"{archive} is damaged: {member.path} in it is not as its manifest says.")


def _entry(name: str, size: int, mode: int, at: float) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, mode, int(at)
    return entry
