"""Backup and restore of a machine whose services show certificates."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from headway.backup.restoring import RestoreWishes, restore
from headway.store import Database
from headway.trust.files import TrustFiles
from headway.trust.identity import Role
from headway.trust.revoked import read_serials, written
from resource_manager import trust_store
from resource_manager.enrolment import KeptToken
from tests.integration.test_backup import ALL, VERSION, Machine
from tests.support.authorities import make_trust

REPLACE = RestoreWishes(replace=True)


@pytest.fixture
async def machine(tmp_path: Path) -> Machine:
    machine = await Machine(tmp_path / "machine").fill("before")
    text = machine.config_path.read_text()
    machine.config_path.write_text(text.replace("[cluster]", '[cluster]\ntrust_dir = "state/trust"'))
    make_trust(machine.folder / "state" / "trust", time.time())
    files(machine).revoked.write_text(written([1]))
    return machine


def files(machine: Machine) -> TrustFiles:
    return TrustFiles(machine.folder / "state" / "trust")


@pytest.fixture
def backup(machine: Machine, tmp_path: Path) -> Path:
    machine.back_up(tmp_path / "b.tar.zst")
    return tmp_path / "b.tar.zst"


def test_the_folder_comes_back_with_the_authority_and_for_nobody_else(machine: Machine, backup: Path) -> None:
    trust = files(machine).folder
    before = {path.relative_to(trust): path.read_bytes() for path in trust.rglob("*") if path.is_file()}
    machine.lose()
    plan, _note = restore(backup, machine.config_path, ALL, VERSION)
    assert {path.relative_to(trust): path.read_bytes() for path in trust.rglob("*") if path.is_file()} == before
    assert {path.stat().st_mode & 0o777 for path in trust.rglob("key.pem")} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (trust, *trust.iterdir()) if path.is_dir()} == {0o700}
    assert any("revoked after the backup may count again" in sentence for sentence in plan.warnings)


def test_a_folder_that_is_there_in_part_is_completed(machine: Machine, backup: Path) -> None:
    before = machine.seen()
    machine.lose()
    restore(backup, machine.config_path, ALL, VERSION)
    shutil.rmtree(files(machine).folder / Role.JOB_MANAGER)
    files(machine).certificate(Role.HTTP_SERVER).write_text("damaged")
    restore(backup, machine.config_path, REPLACE, VERSION)
    name = "state/trust/{}/cert.pem"
    for role in (Role.JOB_MANAGER, Role.HTTP_SERVER):
        assert machine.seen()[name.format(role)] == before[name.format(role)]


@pytest.mark.parametrize("gone", ["databases", "nothing"])
def test_what_was_revoked_since_stays_so(machine: Machine, backup: Path, gone: str) -> None:
    files(machine).revoked.write_text(written([2, 3]))
    if gone == "databases":
        for database in (machine.folder / "state").glob("*.db"):
            database.unlink()
    restore(backup, machine.config_path, ALL if gone == "databases" else REPLACE, VERSION)
    assert read_serials(files(machine).revoked.read_bytes()) == {1, 2, 3}


def test_a_list_that_nobody_can_read_is_put_aside(machine: Machine, backup: Path) -> None:
    files(machine).revoked.write_text("nonsense")
    restore(backup, machine.config_path, REPLACE, VERSION)
    assert json.loads(files(machine).revoked.read_text()) == ["1"]
    assert [path.read_text() for path in files(machine).folder.glob("revoked.json.before-*")] == ["nonsense"]


async def test_tokens_that_were_unused_count_no_more(machine: Machine, tmp_path: Path) -> None:
    db = await Database.open(machine.urls["resource_manager"], room="resource_manager")
    for name, used_at in (("unused", None), ("used", 5.0)):
        kept = KeptToken(name, b"key", Role.WORKER, "", "ann", 1.0, 9e9, used_at)
        await db.write(lambda conn, kept=kept: trust_store.add_invitation(conn, kept))  # type: ignore[misc]
    await db.close()
    machine.back_up(tmp_path / "tokens.tar.zst")
    machine.lose()
    plan, _note = restore(tmp_path / "tokens.tar.zst", machine.config_path, ALL, VERSION)
    assert any(sentence.startswith("1 token to join with was unused") for sentence in plan.warnings)
    db = await Database.open(machine.urls["resource_manager"], room="resource_manager")
    assert [one.id for one in await db.read(trust_store.invitations)] == ["used"]
    await db.close()


def test_without_certificates_it_is_told(machine: Machine, tmp_path: Path) -> None:
    machine.back_up(tmp_path / "bare.tar.zst", with_trust=False)
    machine.lose()
    plan, _note = restore(tmp_path / "bare.tar.zst", machine.config_path, ALL, VERSION)
    assert any("has no certificates" in sentence for sentence in plan.warnings)
