"""What an archive says about itself, and whether this version can take it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..errors import HeadwayError

MANIFEST = "manifest.json"
FORMAT = 1
CONFIG = "config/headway.toml"

SQLITE, POSTGRESQL = "sqlite", "postgresql"


class BackupInvalid(HeadwayError):
    """The file is no backup of Headway, is damaged, or is none that this version or cluster can take."""

    code = "FAILED_PRECONDITION"
    http_status = 409
    slug = "backup-invalid"
    title = "The backup can't be taken"


class RestoreRefused(HeadwayError):
    """What is there would be lost or fought with; nothing was changed."""

    code = "FAILED_PRECONDITION"
    http_status = 409
    slug = "restore-refused"
    title = "The backup can't be restored here"


@dataclass(frozen=True, slots=True)
class BackupMember:
    """One file of the archive.

    ``key`` says what it is: the setting whose file it is, `database.SERVICE`, `config`, or `trust` with its path below
    that folder in ``below``.
    """

    path: str
    bytes: int
    sha256: str
    mode: int
    key: str
    below: str = ""


@dataclass(frozen=True, slots=True)
class StoredDatabase:
    """The database of one service, as of its own moment ``copied_at`` (epoch seconds)."""

    service: str
    kind: Literal["sqlite", "postgresql"]
    revision: str
    copied_at: float


@dataclass(frozen=True, slots=True)
class Manifest:
    """``made_at``: when the first database was copied, in epoch seconds. ``mount``: of which nothing is in here."""

    cluster: str
    version: str
    made_at: float
    mount: str
    databases: tuple[StoredDatabase, ...]
    members: tuple[BackupMember, ...]
    format: int = FORMAT

    @property
    def services(self) -> tuple[str, ...]:
        return tuple(one.service for one in self.databases)

    def database(self, service: str) -> StoredDatabase:
        return next(one for one in self.databases if one.service == service)

    def member(self, key: str) -> BackupMember | None:
        return next((one for one in self.members if one.key == key), None)

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()


def manifest_of(data: bytes) -> Manifest:
    """The inverse of ``Manifest.to_json``.

    Raises:
        BackupInvalid: it can't be read, or is of a later format.
    """
    try:
        tree: dict[str, Any] = json.loads(data)
        number = int(tree["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise BackupInvalid("The backup's manifest can't be read: the file is damaged.") from error
    if number > FORMAT:
        raise BackupInvalid(
            f"A newer Headway ({str(tree.get('version'))[:64]}) made this backup: install that version, and restore "
            "with it."
        )
    try:
        members = tuple(BackupMember(**one) for one in tree["members"])
        databases = tuple(StoredDatabase(**one) for one in tree["databases"])
        rest = {key: tree[key] for key in ("cluster", "version", "made_at", "mount")}
    except (ValueError, KeyError, TypeError) as error:
        raise BackupInvalid("The backup's manifest can't be read: the file is damaged.") from error
    if any(_leads_away(one.path) or _leads_away(one.below) for one in members):
        raise BackupInvalid("The backup names a path outside of itself: it was not made by Headway.")
    return Manifest(databases=databases, members=members, format=number, **rest)


def refuse_foreign(manifest: Manifest, cluster: str, heads: Mapping[str, list[str]], mine: str) -> None:
    """Passes if this version can take the backup for this cluster. ``heads``: service to the revisions known here.

    Raises:
        BackupInvalid: it is of another cluster, or a newer Headway wrote one of its databases.
    """
    if manifest.cluster != cluster:
        raise BackupInvalid(
            f"This is a backup of the cluster {manifest.cluster[:64]!r}, and the configuration is of {cluster!r}."
        )
    for one in manifest.databases:
        if one.service not in heads:
            raise BackupInvalid(f"The backup has a database of {one.service[:64]!r}, which this version does not know.")
        if one.revision not in heads[one.service]:
            raise BackupInvalid(
                f"Headway {manifest.version[:64]} made this backup, which is newer than this one ({mine}): its "
                f"database of {one.service} has the revision {one.revision[:16]}. Install that version, and restore "
                "with it."
            )


def _leads_away(path: str) -> bool:
    return path.startswith("/") or ".." in path.split("/") or "\0" in path
