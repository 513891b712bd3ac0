"""Brings a backup back: everything is looked at first, then files get their names in one go."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
import tomllib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import create_engine, text

from ..config import HeadwayConfig
from ..config.loading import load
from ..errors import ConfigInvalid
from ..mount import Layout, read_marker
from ..store.database import parse_url
from ..store.migrations import revisions
from ..trust.files import TrustFiles
from ..trust.revoked import read_serials, written
from . import archive as archives
from . import copies, lost, notes
from .living import held, refuse_answering
from .manifest import CONFIG, BackupInvalid, BackupMember, Manifest, RestoreRefused, refuse_foreign
from .parts import SERVICES, DatabasePlace, database_of, file_keys, named_in, trust_in

_SMALL_BYTES = 1 << 20
_SPARE_BYTES = 16 << 20
_DRAFT = ".restoring"
_BESIDE = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class RestoreWishes:
    """``services`` empty: all of the backup. ``replace``: what is there is put aside, not refused."""

    services: tuple[str, ...] = ()
    replace: bool = False


@dataclass(slots=True)
class RestorePlan:
    """What goes where. Made before anything changes."""

    manifest: Manifest
    config: HeadwayConfig
    state: Path
    databases: list[DatabasePlace]
    files: dict[str, Path] = field(default_factory=dict)  # path in the archive: where it goes
    in_the_way: list[Path] = field(default_factory=list)
    revoked: Path | None = None
    warnings: list[str] = field(default_factory=list)


def restore(
    archive: Path, config_path: Path, wishes: RestoreWishes, version: str
) -> tuple[RestorePlan, notes.RestoreNote]:
    """Restores the services of a backup on this machine. Run again after it was killed, it goes on.

    Where ``config_path`` is not there, the configuration of the backup becomes it.

    Raises:
        BackupInvalid: the archive is damaged, of another cluster, or of a newer version.
        RestoreRefused: a service lives, or a database or file is there that would be lost.
        ConfigInvalid: the configuration can't be.
        HeadwayError: a database refuses. Nothing was changed, unless pg_restore or the disk failed in the middle.
    """
    manifest, small = archives.verified(
        archive, lambda one: one.bytes <= _SMALL_BYTES and not one.key.startswith("database.")
    )
    settings = _settings(config_path, manifest, small)
    config = settings.config
    refuse_foreign(manifest, config.cluster.name, {service: revisions(service) for service in SERVICES}, version)
    plan = _plan(manifest, settings, config_path, wishes)
    refuse_answering(config, [place.service for place in plan.databases])
    with held(plan.databases, plan.state, make=False):
        _refuse_occupied(plan, wishes, going_on=notes.is_unfinished(plan.state, manifest.made_at))
    _refuse_foreign_mount(plan)
    _refuse_little_room(plan)
    _act(archive, plan)
    note = _look_back(plan)
    return plan, note


@dataclass(frozen=True, slots=True)
class _Settings:
    """The configuration of restored services. ``files``: where those go that it names; ``trust``: its folder."""

    config: HeadwayConfig
    files: Mapping[str, str]
    trust: Path | None

    @property
    def revoked(self) -> Path | None:
        return None if self.trust is None else TrustFiles(self.trust).revoked


def _settings(config_path: Path, manifest: Manifest, small: Mapping[str, bytes]) -> _Settings:
    """Loads the configuration though the files that it names may be yet to be restored."""
    there = config_path.exists()
    if not there and CONFIG not in small:
        raise ConfigInvalid(f"{config_path} is not there, and the backup has no configuration: write one first.")
    raw = config_path.read_text("utf-8-sig") if there else small[CONFIG].decode("utf-8", "replace")
    try:
        named = named_in(raw, config_path.parent)
        trust = trust_in(raw, config_path.parent)
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid(f"{config_path} is not valid TOML: {error}.") from error
    with tempfile.TemporaryDirectory(prefix="headway-restore-") as folder:
        overrides: dict[str, str] = {}
        for member in manifest.members:
            if member.path not in small or (member.key != "trust" and member.key not in named):
                continue
            stand_in = Path(folder, member.path)
            stand_in.parent.mkdir(parents=True, exist_ok=True)
            stand_in.write_bytes(small[member.path])
            stand_in.chmod(0o600)
            if member.key in named and not Path(named[member.key]).exists():
                overrides[member.key] = str(stand_in)
            elif member.key == "trust" and trust is not None and not trust.exists():
                overrides["cluster.trust_dir"] = str(Path(folder, "trust"))
        config = load(config_path, overrides=overrides, text=raw).config
    return _Settings(config, {**dict(file_keys(config)), **named}, trust)


def _plan(manifest: Manifest, settings: _Settings, config_path: Path, wishes: RestoreWishes) -> RestorePlan:
    config = settings.config
    services = wishes.services or manifest.services
    for service in services:
        if service not in manifest.services:
            raise BackupInvalid(f"The backup has no database of {service}; it has {', '.join(manifest.services)}.")
    plan = RestorePlan(manifest, config, Path(config.cluster.state_dir), [database_of(config, one) for one in services])
    plan.revoked = settings.revoked
    for member in manifest.members:
        target = _target(member, plan, settings, config_path)
        if target is not None and not _same(target, member):
            plan.files[member.path] = target
            # Lists of what was revoked are joined: nothing of one is lost.
            if target.exists() and target != settings.revoked:
                plan.in_the_way.append(target)
    for place in plan.databases:
        if place.kind != manifest.database(place.service).kind:
            raise RestoreRefused(
                f"The backup of {place.service} is of {manifest.database(place.service).kind}, and the configuration "
                f"says {place.kind}: set {place.service}.database to a database of the same kind. Nothing was changed."
            )
    if settings.trust is not None:
        if not settings.trust.exists() and not any(member.key == "trust" for member in manifest.members):
            plan.warnings.append(
                f"The backup has no certificates, and {settings.trust} is not there: bring that folder back before the "
                "services start."
            )
        plan.warnings.append(
            "Certificates that were revoked after the backup may count again: look at `headway certs`, and revoke "
            "them once more."
        )
    if any(place.path is None for place in plan.databases):
        copies.require_program("pg_restore")
    return plan


def _target(member: BackupMember, plan: RestorePlan, settings: _Settings, config_path: Path) -> Path | None:
    if member.key.startswith("database."):
        place = next((one for one in plan.databases if one.service == member.key.partition(".")[2]), None)
        if place is None:
            return None
        return place.path or plan.state / f"{place.service}.pgdump"
    if member.key == "config":
        return None if config_path.exists() else config_path
    if member.key == "trust":
        return settings.trust / member.below if settings.trust is not None else None
    return Path(settings.files[member.key]) if member.key in settings.files else None


def _same(target: Path, member: BackupMember) -> bool:
    """Whether the file is there as it is in the backup: there is nothing to do."""
    try:
        if target.stat().st_size != member.bytes or member.key.startswith("database."):
            return False
        return hashlib.sha256(target.read_bytes()).hexdigest() == member.sha256
    except OSError:
        return False


def _refuse_occupied(plan: RestorePlan, wishes: RestoreWishes, *, going_on: bool) -> None:
    there = list(map(str, plan.in_the_way))
    there += [
        place.shown for place in plan.databases if place.path is None and copies.postgres_revision(place) is not None
    ]
    if there and not wishes.replace and not going_on:
        more = f" and {len(there) - 3} more" if len(there) > 3 else ""
        raise RestoreRefused(
            f"{', '.join(there[:3])}{more} would be lost: restore to an empty place, or say --replace, which puts them "
            "aside under another name. Nothing was changed."
        )


def _refuse_foreign_mount(plan: RestorePlan) -> None:
    mount, cluster = plan.config.cluster.mount, plan.config.cluster.name
    marker = read_marker(mount)
    if marker is None:
        plan.warnings.append(
            f"The shared mount {mount} is not there: bring it back before the services start. No backup has what lies "
            "on it."
        )
    elif marker != cluster:
        raise RestoreRefused(
            f"{mount} belongs to the cluster {marker[:64]!r}, and the backup is of {cluster!r}. Nothing was changed."
        )


def _refuse_little_room(plan: RestorePlan) -> None:
    needed: dict[Path, int] = {}
    for member in plan.manifest.members:
        if member.path in plan.files:
            folder = _existing(plan.files[member.path].parent)
            needed[folder] = needed.get(folder, 0) + member.bytes
    for folder, size in needed.items():
        stat = os.statvfs(folder)
        if stat.f_bavail * stat.f_frsize < size + _SPARE_BYTES:
            raise RestoreRefused(
                f"The backup needs {size >> 20} MiB below {folder}, and less is free. Nothing was changed."
            )


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _act(archive: Path, plan: RestorePlan) -> None:
    owner = _owner(plan.state)
    _make(plan.state, owner)
    drafts = {}
    for path, target in plan.files.items():
        _make(target.parent, owner)
        drafts[path] = target.with_name(f"{target.name}{_DRAFT}")
    with ExitStack() as stack:
        stack.enter_context(held(plan.databases, plan.state, make=True))
        notes.begin(plan.state, archive.absolute(), plan.manifest.made_at)
        try:
            archives.extract(archive, drafts)
        except BaseException:
            for draft in drafts.values():
                draft.unlink(missing_ok=True)
            notes.end(plan.state)  # nothing was changed yet
            raise
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        # The configuration last: without it no service starts.
        for path in sorted(drafts, key=lambda one: one == CONFIG):
            if plan.files[path] == plan.revoked:
                _join_revoked(drafts[path], plan.files[path])
            _put(drafts[path], plan.files[path], owner, stamp)
        for place in plan.databases:
            if place.path is None:
                _load(place, plan.state / f"{place.service}.pgdump", stamp)
            if place.service == "resource_manager" and (ended := lost.end_open_tokens(place)):
                what = "1 token to join with was" if ended == 1 else f"{ended} tokens to join with were"
                plan.warnings.append(
                    f"{what} unused in the backup, and may have been used since. So none of them counts any more: "
                    "`headway nodes invite` makes others."
                )
        notes.end(plan.state)
        archives.sync_folder(plan.state)


def _join_revoked(draft: Path, there: Path) -> None:
    """What was revoked since the backup stays so. A list that nobody can read is put aside as it is."""
    with contextlib.suppress(OSError, ValueError):
        joined = read_serials(draft.read_bytes()) | read_serials(there.read_bytes())
        draft.write_text(written(joined), "ascii")


def _put(draft: Path, target: Path, owner: tuple[int, int] | None, stamp: str) -> None:
    if owner is not None:
        os.chown(draft, *owner)
    for beside in ("", *_BESIDE):
        old = target.with_name(f"{target.name}{beside}")
        if old.exists():
            old.rename(old.with_name(f"{target.name}.before-{stamp}{beside}"))
    draft.rename(target)
    archives.sync_folder(target.parent)


def _load(place: DatabasePlace, dump: Path, stamp: str) -> None:
    engine = create_engine(parse_url(place.url), connect_args={"connect_timeout": 5})
    try:
        with engine.begin() as conn:
            schema = {"name": place.service}
            if conn.execute(text("SELECT 1 FROM pg_namespace WHERE nspname = :name"), schema).first():
                held_rows = conn.execute(text("SELECT 1 FROM pg_tables WHERE schemaname = :name"), schema).first()
                if held_rows is None:
                    conn.execute(text(f'DROP SCHEMA "{place.service}" CASCADE'))
                else:
                    conn.execute(
                        text(f'ALTER SCHEMA "{place.service}" RENAME TO "{place.service}_before_{stamp.lower()}"')
                    )
    finally:
        engine.dispose()
    copies.load_postgres(place, dump)
    dump.unlink()


def _owner(state: Path) -> tuple[int, int] | None:
    """Whose the files shall be; None: whoever restores. Root restores for the account that the folder belongs to."""
    if os.geteuid() != 0 or not state.exists():
        return None
    stat = state.stat()
    return (stat.st_uid, stat.st_gid) if stat.st_uid else None


def _make(folder: Path, owner: tuple[int, int] | None) -> None:
    if folder.exists():
        return
    _make(folder.parent, owner)
    folder.mkdir(mode=0o700)
    if owner is not None:
        shutil.chown(folder, *owner)


def _look_back(plan: RestorePlan) -> notes.RestoreNote:
    """Tells what is on the mount and not in the databases; the note is kept for HttpServer."""
    layout = Layout(plan.config.cluster.mount)
    later: list[str] = []
    if read_marker(layout.root) is not None:
        for place in plan.databases:
            if place.service == "job_manager":
                later = lost.jobs_that_came_later(place, layout)
            elif place.service == "httpserver":
                plan.warnings += lost.homes_of_others(place, layout)
    note = notes.RestoreNote(plan.manifest.made_at, time.time(), tuple(later[:20]), len(later))
    notes.write_note(plan.state, note)
    return note
