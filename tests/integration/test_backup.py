"""Backup and restore of real databases of both kinds, and all that keeps a restore from doing harm."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from headway.backup import archive as archives
from headway.backup import copies, notes, restoring
from headway.backup.making import make_backup
from headway.backup.manifest import BackupInvalid, Manifest, RestoreRefused, manifest_of
from headway.backup.parts import SERVICES
from headway.backup.restoring import RestoreWishes, restore
from headway.config import load
from headway.errors import ConfigInvalid, HeadwayError, NotFound
from headway.ids import new_job_id
from headway.mount import prepare_local
from headway.store import Database
from tests.support.ports import free_ports
from tests.support.postgres import Postgres, bin_dir
from tests.support.small_disks import SmallDisk

ALL = RestoreWishes()
VERSION = "0.1.0"


class Machine:
    """A machine of managers: its headway.toml, its files, and databases with a row of its own each."""

    def __init__(self, folder: Path, server: Postgres | None = None, cluster: str = "lab") -> None:
        self.folder, self.cluster = folder, cluster
        self.config_path = folder / "headway.toml"
        self.databases = {service: f"{service}.db" for service in SERVICES}
        if server is not None:
            url = server.tcp_url(server.new_database())
            self.databases = dict.fromkeys(SERVICES, url)

    @property
    def urls(self) -> dict[str, str]:
        return {one: at if "://" in at else str(self.folder / "state" / at) for one, at in self.databases.items()}

    def configure(self) -> Machine:
        self.folder.mkdir(parents=True, exist_ok=True)
        ports = free_ports(4)
        lines = [
            "[cluster]",
            f'name = "{self.cluster}"',
            'token_file = "secrets/token"',
            'state_dir = "state"',
            'mount = "mnt"',
        ]
        for service, port in zip(SERVICES, ports, strict=True):
            lines += [f"[{service}]", f'{"grpc_bind" if service == "httpserver" else "bind"} = "127.0.0.1:{port}"']
            lines += [f'database = "{at}"' for at in (self.databases[service],) if "://" in at]
        self.config_path.write_text("\n".join(lines) + "\n")
        return self

    async def fill(self, word: str) -> Machine:
        self.configure()
        (self.folder / "secrets").mkdir(exist_ok=True)
        (self.folder / "secrets" / "token").write_text("t" * 32)
        (self.folder / "secrets" / "token").chmod(0o600)
        (self.folder / "state").mkdir(exist_ok=True)
        (self.folder / "state" / "registry-key").write_bytes(b"key of registries")
        for service, url in self.urls.items():
            db = await Database.open(url, room=service)
            await db.write(lambda conn: conn.execute(text("CREATE TABLE word (word TEXT)")))
            await db.write(lambda conn, w=word: conn.execute(text("INSERT INTO word VALUES (:w)"), {"w": w}))  # type: ignore[misc]
            await db.close()
        prepare_local(self.folder / "mnt", self.cluster)
        return self

    async def words(self) -> dict[str, str]:
        found = {}
        for service, url in self.urls.items():
            db = await Database.open(url, room=service)
            found[service] = str(await db.read(lambda conn: conn.execute(text("SELECT word FROM word")).scalar()))
            await db.close()
        return found

    def back_up(self, target: Path, **wishes: Any) -> Manifest:
        return make_backup(load(self.config_path).config, self.config_path, target, version=VERSION, **wishes).manifest

    def lose(self) -> None:
        """The disk is gone; the shared mount and PostgreSQL's server stand elsewhere."""
        for name in ("state", "secrets", "headway.toml"):
            path = self.folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def seen(self) -> dict[str, bytes]:
        """All files and what is in them."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()
        }


@pytest.fixture
async def machine(tmp_path: Path) -> Machine:
    return await Machine(tmp_path / "machine").fill("before")


@pytest.fixture
def backup(machine: Machine, tmp_path: Path) -> Path:
    machine.back_up(tmp_path / "b.tar.zst")
    return tmp_path / "b.tar.zst"


def refused(machine: Machine, backup: Path, match: str, wishes: RestoreWishes = ALL) -> HeadwayError:
    """The restore is refused, and not one byte has changed."""
    before = machine.seen()
    with pytest.raises(HeadwayError, match=match) as caught:
        restore(backup, machine.config_path, wishes, VERSION)
    assert machine.seen() == before
    return caught.value


async def test_a_lost_machine_comes_back_whole(machine: Machine, backup: Path) -> None:
    files = {name: data for name, data in machine.seen().items() if not name.startswith("state/") or "key" in name}
    assert os.stat(backup).st_mode & 0o777 == 0o600
    machine.lose()
    plan, note = restore(backup, machine.config_path, ALL, VERSION)
    assert await machine.words() == dict.fromkeys(SERVICES, "before")
    assert {name: machine.seen()[name] for name in files} == files
    assert (machine.folder / "secrets" / "token").stat().st_mode & 0o777 == 0o600
    assert plan.warnings == []
    assert note.count == 0
    assert not list(machine.folder.rglob("*.restoring"))
    notes.refuse_unfinished(str(plan.state))


@pytest.mark.postgres
async def test_schemas_of_postgresql_come_back(postgres: Postgres, tmp_path: Path) -> None:
    machine = await Machine(tmp_path / "machine", postgres).fill("before")
    manifest = machine.back_up(tmp_path / "b.tar.zst")
    assert {one.kind for one in manifest.databases} == {"postgresql"}
    assert all(one.revision for one in manifest.databases)
    url = machine.urls["job_manager"]
    refused(machine, tmp_path / "b.tar.zst", "the PostgreSQL schema job_manager.*would be lost")
    db = await Database.open(url, room="job_manager")
    refused(machine, tmp_path / "b.tar.zst", "job_manager uses the PostgreSQL schema job_manager: stop it first")
    await db.write(lambda conn: conn.execute(text("UPDATE word SET word = 'after'")))
    await db.close()
    restore(tmp_path / "b.tar.zst", machine.config_path, RestoreWishes(replace=True), VERSION)
    assert await machine.words() == dict.fromkeys(SERVICES, "before")
    db = await Database.open(url, room="job_manager")
    aside = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'job_manager_before_%'"
    name = await db.read(lambda conn: conn.execute(text(aside)).scalar_one())
    assert await db.read(lambda conn: conn.execute(text(f'SELECT word FROM "{name}".word')).scalar()) == "after"
    await db.close()
    # And into a new database, where there is not even the schema.
    url = postgres.tcp_url(postgres.new_database())
    machine.databases = dict.fromkeys(SERVICES, url)
    machine.lose()
    machine.configure()
    restore(tmp_path / "b.tar.zst", machine.config_path, ALL, VERSION)
    assert await machine.words() == dict.fromkeys(SERVICES, "before")


@pytest.mark.postgres
async def test_without_pg_dump_it_is_told_what_to_install(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = await Machine(tmp_path / "machine", postgres).fill("before")
    assert copies.require_program("pg_dump").startswith(("/usr/bin/", str(bin_dir().parents[1])))
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(()))
    with pytest.raises(ConfigInvalid, match="install PostgreSQL's client"):
        machine.back_up(tmp_path / "b.tar.zst")


async def test_a_copy_is_of_one_moment_while_its_service_writes(machine: Machine, tmp_path: Path) -> None:
    db = await Database.open(machine.urls["job_manager"], room="job_manager")

    def both(conn: Any) -> None:
        conn.execute(text("INSERT INTO one SELECT count(*) FROM one"))
        conn.execute(text("INSERT INTO two SELECT count(*) FROM two"))

    await db.write(lambda conn: conn.execute(text("CREATE TABLE one (n INTEGER)")))
    await db.write(lambda conn: conn.execute(text("CREATE TABLE two (n INTEGER)")))
    stop, made = threading.Event(), []

    def back_up() -> None:
        for number in range(5):
            machine.back_up(tmp_path / f"{number}.tar.zst", services=["job_manager"])
            made.append(number)
        stop.set()

    thread = threading.Thread(target=back_up)
    thread.start()
    written = 0
    while not stop.is_set():
        await db.write(both)
        written += 1
    thread.join()
    await db.close()
    assert made == [0, 1, 2, 3, 4]
    assert written > 5
    for number in made:
        copy = tmp_path / f"{number}.db"
        archives.extract(tmp_path / f"{number}.tar.zst", {"databases/job_manager.db": copy})
        with closing(sqlite3.connect(copy)) as found:
            assert found.execute("SELECT (SELECT count(*) FROM one) = (SELECT count(*) FROM two)").fetchone() == (1,)


@pytest.mark.parametrize("how", ["flip", "cut", "text", "empty"])
def test_a_damaged_archive_is_refused_before_anything_changes(machine: Machine, backup: Path, how: str) -> None:
    data = bytearray(backup.read_bytes())
    match how:
        case "flip":
            data[len(data) // 2] ^= 0x40
        case "cut":
            del data[len(data) * 2 // 3 :]
        case "text":
            data[:] = b"no archive at all\n" * 100
        case "empty":
            data.clear()
    backup.write_bytes(bytes(data))
    with pytest.raises(BackupInvalid):
        archives.verified(backup, lambda member: False)
    machine.lose()
    assert isinstance(refused(machine, backup, "damaged|no manifest"), BackupInvalid)


def repacked(backup: Path, change: Any) -> None:
    """The same archive with another manifest, whole by zstd's own count."""
    manifest, content = archives.verified(backup, lambda member: True)
    folder = backup.parent / "repacked"
    folder.mkdir()
    files = []
    for number, member in enumerate(manifest.members):
        (folder / str(number)).write_bytes(content[member.path])
        files.append(folder / str(number))
    backup.unlink()
    archives.write(backup, change(manifest), files)


def test_a_file_that_is_not_as_the_manifest_says_is_refused(machine: Machine, backup: Path) -> None:
    def swapped(manifest: Manifest) -> Manifest:
        first = replace(manifest.members[0], sha256="0" * 64)
        return replace(manifest, members=(first, *manifest.members[1:]))

    repacked(backup, swapped)
    machine.lose()
    refused(machine, backup, "is not as its manifest says")


def test_a_backup_of_another_cluster_or_a_newer_version_is_refused(machine: Machine, backup: Path) -> None:
    def newer(manifest: Manifest) -> Manifest:
        return replace(
            manifest, version="0.7.0", databases=tuple(replace(one, revision="9999") for one in manifest.databases)
        )

    text_of = machine.config_path.read_text()
    machine.lose()
    machine.config_path.write_text(text_of.replace('"lab"', '"other"'))
    refused(machine, backup, "backup of the cluster 'lab', and the configuration is of 'other'")
    machine.config_path.write_text(text_of)
    repacked(backup, newer)
    refused(machine, backup, r"Headway 0\.7\.0 made this backup, which is newer")


async def test_a_living_cluster_is_refused(machine: Machine, backup: Path) -> None:
    everything = RestoreWishes(replace=True)
    db = await Database.open(machine.urls["task_manager"], room="task_manager")
    assert isinstance(refused(machine, backup, "task_manager runs on", everything), RestoreRefused)
    await db.close()
    host, _, port = load(machine.config_path).config.job_manager.bind.rpartition(":")
    with socket.create_server((host, int(port))):
        refused(machine, backup, "is the address of job_manager: stop the services", everything)
    restore(backup, machine.config_path, everything, VERSION)


async def test_a_living_cluster_on_another_machine_is_refused(machine: Machine, backup: Path) -> None:
    """The configuration tells where the other machines look for the service, and one answers there."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        at = f"127.0.0.1:{other.getsockname()[1]}"
        machine.config_path.write_text(machine.config_path.read_text() + f'[peers]\ntask_manager = "{at}"\n')
        refused(machine, backup, f"Something answers at {at}", RestoreWishes(replace=True))


async def test_what_is_there_is_refused_or_put_aside(machine: Machine, backup: Path) -> None:
    db = await Database.open(machine.urls["httpserver"], room="httpserver")
    await db.write(lambda conn: conn.execute(text("UPDATE word SET word = 'after'")))
    await db.close()
    (machine.folder / "state" / "registry-key").write_bytes(b"another key")
    refused(machine, backup, "would be lost: restore to an empty place, or say --replace")
    restore(backup, machine.config_path, RestoreWishes(replace=True), VERSION)
    assert await machine.words() == dict.fromkeys(SERVICES, "before")
    (aside,) = (machine.folder / "state").glob("httpserver.db.before-*")
    with closing(sqlite3.connect(aside)) as old:
        assert old.execute("SELECT word FROM word").fetchone() == ("after",)
    assert [p.read_bytes() for p in (machine.folder / "state").glob("registry-key.before-*")] == [b"another key"]
    assert not list((machine.folder / "secrets").glob("*before*")), "the token was the same"


async def test_one_service_alone_comes_back(machine: Machine, backup: Path) -> None:
    (machine.folder / "state" / "job_manager.db").unlink()
    restore(backup, machine.config_path, RestoreWishes(services=("job_manager",)), VERSION)
    assert await machine.words() == dict.fromkeys(SERVICES, "before")
    refused(machine, backup, "has no database of worker; it has job_manager", RestoreWishes(services=("worker",)))


class Killed(BaseException):
    """Stands for SIGKILL: nothing of what follows happens."""


@pytest.mark.parametrize("step", range(1, 9))
async def test_a_restore_that_was_killed_goes_on(
    machine: Machine, backup: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    machine.lose()
    put, left = restoring._put, step

    def until_killed(*args: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise Killed
        put(*args)

    monkeypatch.setattr(restoring, "_put", until_killed)
    try:
        restore(backup, machine.config_path, ALL, VERSION)
    except Killed:
        with pytest.raises(ConfigInvalid, match=r"was cut short: run `headway restore .*b\.tar\.zst` once more"):
            notes.refuse_unfinished(str(machine.folder / "state"))
    else:
        assert step == 8, "each file was put once"
    monkeypatch.setattr(restoring, "_put", put)
    if step < 8:
        restore(backup, machine.config_path, ALL, VERSION)
    notes.refuse_unfinished(str(machine.folder / "state"))
    assert await machine.words() == dict.fromkeys(SERVICES, "before")
    assert not list(machine.folder.rglob("*.restoring"))


def test_services_do_not_start_on_half_a_restore(machine: Machine) -> None:
    notes.begin(machine.folder / "state", Path("/backups/b.tar.zst"), 1.0)
    done = subprocess.run(
        [sys.executable, "-m", "headway", "serve", "job_manager", "--config", str(machine.config_path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "was cut short: run `headway restore /backups/b.tar.zst` once more" in done.stderr


def test_a_mount_of_another_cluster_is_refused_and_a_missing_one_told(machine: Machine, backup: Path) -> None:
    machine.lose()
    marker = machine.folder / "mnt" / ".headway-mount"
    marker.write_text("other\n")
    refused(machine, backup, "belongs to the cluster 'other'")
    marker.unlink()
    plan, _ = restore(backup, machine.config_path, ALL, VERSION)
    (warning,) = plan.warnings
    assert "mnt is not there: bring it back" in warning


def test_jobs_that_came_after_the_backup_are_told(machine: Machine, backup: Path) -> None:
    ids = sorted(new_job_id(float(second)) for second in range(25))
    for name in ids:
        (machine.folder / "mnt" / "jobs" / name).mkdir()
    (machine.folder / "mnt" / "jobs" / "no job").mkdir()
    machine.lose()
    plan, note = restore(backup, machine.config_path, ALL, VERSION)
    assert list(note.came_later) == ids[:20]
    assert note.count == 25
    kept = notes.read_note(str(plan.state), note.restored_at + 60.0)
    assert kept == note
    assert notes.read_note(str(plan.state), note.restored_at + 8 * 86_400.0) is None


@pytest.mark.root
async def test_homes_of_another_uid_are_told(machine: Machine, tmp_path: Path) -> None:
    db = await Database.open(machine.urls["httpserver"], room="httpserver")
    row = (
        "INSERT INTO accounts (name, password_hash, uid, gid, admin, enabled, may_use_image_user, "
        "may_use_high_priority, created_at)"
    )
    for name, uid in (("ann", 20_001), ("bob", 20_002), ("eve", 20_003)):
        await db.write(
            lambda conn, n=name, u=uid: conn.execute(text(f"{row} VALUES ('{n}', '', {u}, {u}, 0, 1, 0, 0, 0)"))
        )  # type: ignore[misc]
    await db.close()
    machine.back_up(tmp_path / "b.tar.zst")
    for name, uid in (("ann", 20_001), ("bob", 20_009)):
        (machine.folder / "mnt" / "homes" / name).mkdir()
        os.chown(machine.folder / "mnt" / "homes" / name, uid, uid)
    machine.lose()
    plan, _ = restore(tmp_path / "b.tar.zst", machine.config_path, ALL, VERSION)
    (warning,) = plan.warnings
    assert "home of bob on the mount belongs to uid 20009, and the account has 20002" in warning


@pytest.mark.root
async def test_root_restores_for_the_account_that_has_the_folder(machine: Machine, backup: Path) -> None:
    machine.lose()
    (machine.folder / "state").mkdir(mode=0o700)
    os.chown(machine.folder / "state", 65_534, 65_534)
    restore(backup, machine.config_path, ALL, VERSION)
    assert {path.stat().st_uid for path in (machine.folder / "state").glob("*.db")} == {65_534}


def test_a_backup_never_takes_the_place_of_another(machine: Machine, backup: Path) -> None:
    before = backup.read_bytes()
    with pytest.raises(BackupInvalid, match="is there already"):
        machine.back_up(backup)
    assert backup.read_bytes() == before


def test_a_folder_gets_a_name_with_cluster_and_time(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    # What a killed one left.
    (folder / ".headway-backup.partial").mkdir()
    (folder / ".headway-backup.partial" / "job_manager.db").write_text("half")
    (folder / ".headway-lab-20260101T000000Z.tar.zst.partial").write_text("half")
    machine.back_up(folder)
    (only,) = folder.iterdir()
    assert only.name.startswith("headway-lab-2")
    assert only.name.endswith("Z.tar.zst")
    archives.verified(only, lambda member: False)


def test_a_second_backup_at_once_is_refused(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner: list[str] = []
    copy = copies.copy_sqlite

    def meanwhile(source: Path, target: Path) -> str:
        if not inner:
            inner.append("")
            with pytest.raises(BackupInvalid, match="Another backup is being written"):
                machine.back_up(tmp_path / "second.tar.zst")
        return copy(source, target)

    monkeypatch.setattr(copies, "copy_sqlite", meanwhile)
    machine.back_up(tmp_path / "first.tar.zst")
    archives.verified(tmp_path / "first.tar.zst", lambda member: False)


@pytest.mark.root
def test_a_full_disk_leaves_nothing(machine: Machine, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "small", 1)
    try:
        disk.fill()
        with pytest.raises(HeadwayError, match="full"):
            machine.back_up(disk.at / "b.tar.zst")
        assert [path.name for path in disk.at.iterdir()] == [".filling"]
        disk.make_room()
        (disk.at / "big").write_bytes(b"x" * (500 << 10))
        with pytest.raises(HeadwayError, match="full"):  # room for the copies of some, and not of all
            machine.back_up(disk.at / "b.tar.zst")
        assert [path.name for path in disk.at.iterdir()] == ["big"]
    finally:
        disk.close()


def test_a_restore_with_too_little_room_is_refused(
    machine: Machine, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.lose()
    real = os.statvfs

    class Little:
        f_bavail, f_frsize = 10, 4_096

    monkeypatch.setattr(os, "statvfs", lambda path: Little() if str(machine.folder) in str(path) else real(path))
    refused(machine, backup, "MiB below .*, and less is free")


def test_a_damaged_database_makes_no_backup(machine: Machine, tmp_path: Path) -> None:
    path = Path(machine.urls["job_manager"])
    data = bytearray(path.read_bytes())
    data[4096:12288] = b"\xa5" * 8192
    path.write_bytes(bytes(data))
    with pytest.raises(HeadwayError, match="damaged"):
        machine.back_up(tmp_path / "b.tar.zst")
    assert not list(tmp_path.glob("*b*"))


def test_where_no_database_is_it_is_told(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "machine").configure()
    (machine.folder / "secrets").mkdir()
    (machine.folder / "secrets" / "token").write_text("t" * 32)
    with pytest.raises(NotFound, match="No manager has a database here"):
        machine.back_up(tmp_path / "b.tar.zst")
    with pytest.raises(NotFound, match="task_manager has no database here"):
        machine.back_up(tmp_path / "b.tar.zst", services=["task_manager"])


def test_the_manifest_tells_what_is_in_it(machine: Machine, backup: Path) -> None:
    manifest = archives.read_manifest(backup)
    assert manifest_of(manifest.to_json()) == manifest
    assert [one.service for one in manifest.databases] == list(SERVICES)
    keys = {member.key for member in manifest.members}
    assert {"config", "cluster.token_file", "httpserver.secret_key_file"} <= keys
