"""Makes a backup of the managers of this machine, while they run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..config import HeadwayConfig
from ..errors import NotFound
from . import archive, copies
from .manifest import CONFIG, SQLITE, BackupInvalid, BackupMember, Manifest, StoredDatabase
from .parts import SERVICES, DatabasePlace, database_of, file_keys

_STAGING = ".headway-backup.partial"


@dataclass(frozen=True, slots=True)
class Made:
    """A finished backup."""

    path: Path
    manifest: Manifest


def make_backup(
    config: HeadwayConfig,
    config_path: Path,
    target: Path,
    *,
    services: Sequence[str] = (),
    with_trust: bool = True,
    version: str,
) -> Made:
    """Writes one archive to ``target``: a new file, or a folder, in which the name tells cluster and time.

    ``services`` empty: all whose database this configuration leads to.

    Raises:
        NotFound: there is no database of a service.
        BackupInvalid: it can't be written, the disk is full, or another backup is under way there.
        HeadwayError: a database can't be copied. Nothing is left in all cases.
    """
    places = _places(config, services)
    now = time.time()
    if target.is_dir():
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        target = target / f"headway-{config.cluster.name}-{stamp}.tar.zst"
    if target.exists():
        raise BackupInvalid(f"{target} is there already: choose another name.")
    with _staging(target) as folder:
        try:
            databases, members, files = _copied(places, folder)
            for file, path, key, below in _files(config, config_path, with_trust):
                copy = _private_copy(folder, file)
                members.append(archive.described(copy, path, key, below=below))
                files.append(copy)
        except OSError as error:
            raise archive.unwritable(target, error) from error
        manifest = Manifest(config.cluster.name, version, now, config.cluster.mount, tuple(databases), tuple(members))
        archive.write(target, manifest, files)
    return Made(target, manifest)


def _places(config: HeadwayConfig, services: Sequence[str]) -> list[DatabasePlace]:
    found = []
    for service in services or SERVICES:
        place = database_of(config, service)
        if place.path is not None:
            there = place.path.exists()
        else:
            copies.require_program("pg_dump")
            there = copies.postgres_revision(place) is not None
        if there:
            found.append(place)
        elif services:
            raise NotFound(f"{service} has no database here: {place.shown} is not there.")
    if not found:
        raise NotFound(
            f"No manager has a database here (looked in {config.cluster.state_dir}): say with --config or --state "
            "where the services are configured."
        )
    return found


def _copied(
    places: Sequence[DatabasePlace], folder: Path
) -> tuple[list[StoredDatabase], list[BackupMember], list[Path]]:
    databases, members, files = [], [], []
    for place in places:
        at = time.time()
        suffix = "db" if place.path is not None else "pgdump"
        copy = folder / f"{place.service}.{suffix}"
        if place.path is not None:
            revision = copies.copy_sqlite(place.path, copy)
        else:
            revision = copies.dump_postgres(place, copy)
        copy.chmod(0o600)
        databases.append(
            StoredDatabase(place.service, "sqlite" if place.kind == SQLITE else "postgresql", revision, at)
        )
        members.append(archive.described(copy, f"databases/{copy.name}", f"database.{place.service}"))
        files.append(copy)
    return databases, members, files


def _files(config: HeadwayConfig, config_path: Path, with_trust: bool) -> Iterator[tuple[Path, str, str, str]]:
    """What there is besides databases: file, path in the archive, key, path below the trust folder."""
    if config_path.is_file():
        yield config_path, CONFIG, "config", ""
    for key, value in file_keys(config):
        if Path(value).is_file():
            yield Path(value), f"files/{key}", key, ""
    trust = Path(config.cluster.trust_dir) if config.cluster.trust_dir and with_trust else None
    if trust is not None and trust.is_dir():
        for file in sorted(trust.rglob("*")):
            if file.is_file() and not file.is_symlink():
                below = file.relative_to(trust).as_posix()
                yield file, f"trust/{below}", "trust", below


def _private_copy(folder: Path, file: Path) -> Path:
    """A copy that stays as it is while it is read twice; the mode goes along."""
    copy = folder / f"file{len(os.listdir(folder))}"
    shutil.copyfile(file, copy)
    copy.chmod(file.stat().st_mode & 0o777)
    return copy


@contextlib.contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """A private folder beside the archive, gone afterwards. One that a killed backup left is removed first."""
    folder = target.parent / _STAGING
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise archive.unwritable(target, error) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupInvalid(f"Another backup is being written in {target.parent}: wait for its end.") from None
        _empty(folder)
        for left in target.parent.glob(".headway-*.partial"):
            if left.is_file() and re.fullmatch(r"\.headway-.+\.tar\.zst\.partial", left.name):
                left.unlink(missing_ok=True)
        yield folder
        _empty(folder)
        with contextlib.suppress(OSError):
            folder.rmdir()
    except BaseException:
        if _is_mine(fd):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        os.close(fd)


def _is_mine(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        entry.unlink()
