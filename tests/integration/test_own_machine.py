"""Certificates on the authority's own machine: what has ended is made anew, what was revoked stays so."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509

from headway.store import Database
from headway.trust import pairs
from headway.trust.authority import LIFE_DAYS, PAGE_LIFE_DAYS, Authority, issued, key_pem, make_key
from headway.trust.files import TrustFiles, write_private
from headway.trust.identity import MANAGERS, Identity, Role
from headway.trust.revoked import read_serials, written
from resource_manager import trust_store
from resource_manager.issuing import AuthoritySettings, Issuer
from resource_manager.own_machine import OwnMachine, make_own
from tests.support.authorities import make_trust
from tests.support.clock import FakeClock

DAY_S = 86_400.0
OTHERS = sorted(MANAGERS - {Role.RESOURCE_MANAGER})


class FirstMachine:
    """What `headway init` has made, with a page that has a certificate of the authority."""

    def __init__(self, folder: Path, clock: FakeClock) -> None:
        self.files, self.clock = TrustFiles(folder / "trust"), clock
        self.authority = make_trust(self.files.folder, clock.now())
        self.page = self.files.page / "cert.pem"
        self.sign_page(self.authority)
        self.database = str(folder / "nodes.db")

    def sign_page(self, authority: Authority) -> None:
        key = make_key()
        write_private(self.files.page / "key.pem", key_pem(key))
        write_private(self.page, authority.sign_page(key.public_key(), "10.0.0.1"), mode=0o644)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[OwnMachine, Issuer, Database]]:
        db = await Database.open(self.database, room="resource_manager")

        async def cordon(name: str, note: str, by: str) -> bool:
            return True

        settings = AuthoritySettings("lab", self.files.folder, {})
        issuer = Issuer(db, self.clock, settings, cordon=cordon)
        try:
            await issuer.load()
            yield OwnMachine(settings, issuer, self.clock), issuer, db
        finally:
            await db.close()

    def content(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.files.folder.rglob("*.pem")}

    def ends_at(self, role: Role) -> float:
        return issued(self.files.certificate(role).read_bytes()).until_at


@pytest.fixture
def machine(tmp_path: Path, clock: FakeClock) -> FirstMachine:
    return FirstMachine(tmp_path, clock)


async def test_what_ended_while_all_was_off_is_made_anew(machine: FirstMachine, clock: FakeClock) -> None:
    await clock.advance((LIFE_DAYS + 1) * DAY_S)
    before = machine.content()
    async with machine.open() as (own, issuer, _db):
        await own.look()
        for role in OTHERS:
            pair = pairs.read(machine.files, Identity("lab", role))
            assert pair.ends_at > clock.now() + (LIFE_DAYS - 1) * DAY_S
            assert pair.key_pem != before[machine.files.key(role)]
        kept = {(one.role, one.origin) for one in await issuer.certificates()}
        assert {(role, "renew") for role in OTHERS} <= kept, "an admin sees them, and can revoke them"
    own_key = machine.files.key(Role.RESOURCE_MANAGER)
    assert own_key.read_bytes() == before[own_key], "its own is kept elsewhere"


async def test_what_still_counts_is_left_to_its_service(machine: FirstMachine, clock: FakeClock) -> None:
    await clock.advance((LIFE_DAYS - 1) * DAY_S)
    before = machine.content()
    async with machine.open() as (own, _issuer, _db):
        await own.look()
    assert machine.content() == before


async def test_what_was_revoked_is_not_made_anew(machine: FirstMachine, clock: FakeClock) -> None:
    async with machine.open() as (own, issuer, _db):
        await issuer.revoke("job_manager", "ann")
        ended = machine.ends_at(Role.JOB_MANAGER)
        await clock.advance((LIFE_DAYS + 1) * DAY_S)
        await own.look()
        assert machine.ends_at(Role.JOB_MANAGER) == ended
        assert machine.ends_at(Role.TASK_MANAGER) > clock.now()


@pytest.mark.parametrize("harm", [lambda path: path.write_text("nonsense"), lambda path: path.unlink()])
async def test_one_that_is_damaged_or_missing_is_made_anew(
    machine: FirstMachine, clock: FakeClock, harm: Callable[[Path], object]
) -> None:
    harm(machine.files.certificate(Role.HTTP_SERVER))
    async with machine.open() as (own, _issuer, _db):
        await own.look()
    pairs.read(machine.files, Identity("lab", Role.HTTP_SERVER))


async def test_a_service_that_stands_elsewhere_gets_none_here(machine: FirstMachine, clock: FakeClock) -> None:
    shutil.rmtree(machine.files.certificate(Role.JOB_MANAGER).parent)
    await clock.advance((LIFE_DAYS + 1) * DAY_S)
    async with machine.open() as (own, _issuer, _db):
        await own.look()
    assert not machine.files.certificate(Role.JOB_MANAGER).parent.exists()
    assert machine.ends_at(Role.TASK_MANAGER) > clock.now()


async def test_one_that_can_not_be_made_does_not_keep_the_others(machine: FirstMachine, clock: FakeClock) -> None:
    write_private(machine.files.certificate(Role.WORKER), b"nonsense")
    shutil.rmtree(machine.files.page)
    await clock.advance((LIFE_DAYS + 1) * DAY_S)
    machine.files.key(Role.HTTP_SERVER).unlink()
    machine.files.key(Role.HTTP_SERVER).mkdir()
    async with machine.open() as (own, _issuer, _db):
        await own.look()
    assert machine.ends_at(Role.TASK_MANAGER) > clock.now()


async def test_the_page_is_renewed_in_its_last_third_with_the_same_key(machine: FirstMachine, clock: FakeClock) -> None:
    before = x509.load_pem_x509_certificate(machine.page.read_bytes())
    async with machine.open() as (own, _issuer, _db):
        await clock.advance(PAGE_LIFE_DAYS * 0.6 * DAY_S)
        await own.look()
        assert x509.load_pem_x509_certificate(machine.page.read_bytes()) == before
        await clock.advance(PAGE_LIFE_DAYS * 0.1 * DAY_S)
        await own.look()
    after = x509.load_pem_x509_certificate(machine.page.read_bytes())
    assert (after.not_valid_after_utc - before.not_valid_after_utc).days > PAGE_LIFE_DAYS * 0.6
    assert after.public_key() == before.public_key()
    names = [one.extensions.get_extension_for_class(x509.SubjectAlternativeName).value for one in (before, after)]
    assert names[0] == names[1]


async def test_a_page_certificate_of_somebody_else_is_left_alone(
    machine: FirstMachine, clock: FakeClock, tmp_path: Path
) -> None:
    machine.sign_page(make_trust(tmp_path / "other", clock.now()))
    before = machine.page.read_bytes()
    await clock.advance(PAGE_LIFE_DAYS * DAY_S)
    async with machine.open() as (own, _issuer, _db):
        await own.look()
    assert machine.page.read_bytes() == before


async def test_an_older_database_makes_no_revoked_certificate_count_again(
    machine: FirstMachine, clock: FakeClock
) -> None:
    async with machine.open() as (_own, _issuer, _db):
        pass  # the database of the backup knows the certificate, and no revocation
    serial = issued(machine.files.certificate(Role.JOB_MANAGER).read_bytes()).serial
    machine.files.revoked.write_text(written([int(serial, 16)]))
    async with machine.open() as (_own, issuer, db):
        assert await issuer.is_revoked(serial)
        assert await db.read(lambda conn: trust_store.revoked_serials(conn, clock.now())) == [serial]
    assert read_serials(machine.files.revoked.read_bytes()) == {int(serial, 16)}


@pytest.mark.parametrize("harm", ["cert", "key", "folder", "ca", "no ca"])
async def test_resource_manager_makes_its_own_where_it_is_damaged(machine: FirstMachine, harm: str) -> None:
    identity = Identity("lab", Role.RESOURCE_MANAGER)
    if harm == "cert":
        machine.files.certificate(identity.role).write_text("nonsense")
    elif harm == "key":
        write_private(machine.files.key(identity.role), key_pem(make_key()))
    elif harm == "folder":
        shutil.rmtree(machine.files.key(identity.role).parent)
    elif harm == "ca":
        machine.files.ca.write_text("")
    else:
        machine.files.ca.unlink()
    make_own(machine.files, "lab")
    good = pairs.read(machine.files, identity)
    make_own(machine.files, "lab")
    assert pairs.read(machine.files, identity) == good, "what is whole stays"


def test_without_the_authority_it_makes_none(machine: FirstMachine) -> None:
    shutil.rmtree(machine.files.authority)
    machine.files.certificate(Role.RESOURCE_MANAGER).unlink()
    before = machine.content()
    make_own(machine.files, "lab")
    assert machine.content() == before
