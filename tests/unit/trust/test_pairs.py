"""Certificates and keys on the disk: what is refused at the start, and what a kill leaves."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.errors import ConfigInvalid, HeadwayError
from headway.trust import pairs
from headway.trust.caller import CallerRefused
from headway.trust.certificates import Certificates
from headway.trust.files import TrustFiles
from headway.trust.identity import Identity, Role
from headway.trust.revoked import read_serials, written
from tests.support.certificates import CertificateMaker, revoke, serial_of
from tests.support.clock import FakeClock

ME = Identity("headway", Role.WORKER, "n1")


@pytest.fixture
def maker() -> CertificateMaker:
    return CertificateMaker()


@pytest.fixture
def files(tmp_path: Path, maker: CertificateMaker) -> TrustFiles:
    found = TrustFiles(tmp_path / "trust")
    maker.give(found, Role.WORKER, "n1")
    return found


def _without_folder(files: TrustFiles) -> None:
    shutil.rmtree(files.folder)


def _readable_by_others(files: TrustFiles) -> None:
    files.key(Role.WORKER).chmod(0o640)


def _no_certificate(files: TrustFiles) -> None:
    files.certificate(Role.WORKER).unlink()


def _broken_certificate(files: TrustFiles) -> None:
    files.certificate(Role.WORKER).write_text("no PEM")


def _broken_key(files: TrustFiles) -> None:
    files.key(Role.WORKER).write_text("no PEM")


def _no_authority(files: TrustFiles) -> None:
    files.ca.unlink()


def _other_key(files: TrustFiles) -> None:
    files.key(Role.WORKER).write_bytes(pairs.new_request(ME)[0])


def _other_cluster(files: TrustFiles) -> None:
    CertificateMaker("lab").give(files, Role.WORKER, "n1")


def _other_authority(files: TrustFiles) -> None:
    files.ca.write_bytes(CertificateMaker().ca_pem)


def _other_node(files: TrustFiles) -> None:
    CertificateMaker().give(files, Role.WORKER, "n2")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_without_folder, "which is no folder"),
        (_no_authority, "lacks .*/ca.pem"),
        (_no_certificate, "lacks .*/worker/cert.pem: on ResourceManager's machine remove the"),
        (_broken_certificate, "cert.pem, which holds no certificate in PEM"),
        (_broken_key, "key.pem, which holds no private key in PEM"),
        (_readable_by_others, r"that others can read \(mode 640\): run chmod 600 "),
        (_other_key, "that does not belong to"),
        (_other_cluster, "of the cluster 'lab', and this is 'headway'"),
        (_other_authority, "that the cluster's ca.pem did not sign"),
        (_other_node, "the certificate of worker n2, and this is worker n1"),
    ],
)
def test_what_is_wrong_is_one_sentence(files: TrustFiles, spoil: Callable[[TrustFiles], None], said: str) -> None:
    spoil(files)
    with pytest.raises(ConfigInvalid, match=rf"^cluster\.trust_dir .*{said}"):
        Certificates(files, ME)


def test_a_certificate_of_another_role_is_refused(files: TrustFiles, maker: CertificateMaker) -> None:
    shutil.copytree(files.folder / "worker", files.folder / "task_manager")
    with pytest.raises(ConfigInvalid, match="the certificate of worker n1, and this is task_manager"):
        Certificates(files, Identity("headway", Role.TASK_MANAGER))


def test_a_file_that_cannot_be_read_is_named(files: TrustFiles) -> None:
    files.certificate(Role.WORKER).unlink()
    files.certificate(Role.WORKER).mkdir()
    with pytest.raises(ConfigInvalid, match=r"has .*cert\.pem, which can't be read: Is a directory"):
        Certificates(files, ME)


async def test_a_renewal_killed_between_its_two_steps_is_finished(files: TrustFiles, maker: CertificateMaker) -> None:
    before = serial_of(files, Role.WORKER)
    key_pem, csr_pem = pairs.new_request(ME)
    cert_pem = await maker.renew(csr_pem, ME)
    files.certificate(Role.WORKER).with_name("cert.pem.new").write_bytes(cert_pem)
    pairs.write(files.key(Role.WORKER), key_pem, 0o600)  # and here it was killed
    found = pairs.read(files, ME)
    assert found.key_pem == key_pem
    assert found.serial == serial_of(files, Role.WORKER) != before


async def test_an_answer_that_is_not_for_this_service_changes_nothing(
    files: TrustFiles, maker: CertificateMaker
) -> None:
    before = pairs.read(files, ME)
    key_pem, csr_pem = pairs.new_request(ME)
    other = await maker.renew(pairs.new_request(ME)[1], ME)
    strange = await maker.renew(csr_pem, Identity("headway", Role.WORKER, "n2"))
    foreign = await CertificateMaker().renew(csr_pem, ME)
    for cert_pem in (b"", other, strange, foreign):
        with pytest.raises(HeadwayError):
            pairs.install(files, ME, key_pem=key_pem, cert_pem=cert_pem)
    assert pairs.read(files, ME) == before


async def test_a_new_pair_is_taken_and_half_of_one_is_not(
    files: TrustFiles, maker: CertificateMaker, clock: FakeClock
) -> None:
    certificates = Certificates(files, ME, clock)
    first = certificates.pair()
    _other_key(files)
    await clock.advance(2)
    assert certificates.pair() == first
    maker.give(files, Role.WORKER, "n1")
    await clock.advance(2)
    number, pair = certificates.pair()
    assert number > first[0]
    assert pair.serial == serial_of(files, Role.WORKER)


async def test_the_list_of_revoked_is_read_again_and_a_broken_one_changes_nothing(
    files: TrustFiles, clock: FakeClock
) -> None:
    certificates = Certificates(files, ME, clock)
    assert not certificates.is_revoked(255)
    revoke(files, 255)
    await clock.advance(2)
    assert certificates.is_revoked(255)
    files.revoked.write_text('["fe"')
    await clock.advance(2)
    assert certificates.is_revoked(255)
    with pytest.raises(ConfigInvalid, match="no JSON list of serial numbers"):
        Certificates(files, ME, clock)


def test_what_resource_manager_told_counts_beside_the_file(files: TrustFiles, clock: FakeClock) -> None:
    certificates = Certificates(files, ME, clock)
    certificates.tell_revoked(frozenset({16}))
    assert certificates.is_revoked(16)
    assert certificates.revoked() == {16}


def _shown(files: TrustFiles) -> dict[str, list[bytes]]:
    """What gRPC tells of a caller with the certificate in that folder."""
    return {"x509_pem_cert": [files.certificate(Role.WORKER).read_bytes()]}


async def test_a_caller_whose_certificate_has_ended_since_it_connected_is_refused(
    files: TrustFiles, maker: CertificateMaker, tmp_path: Path
) -> None:
    clock = FakeClock(now=time.time())
    caller = TrustFiles(tmp_path / "caller")
    maker.give(caller, Role.WORKER, "n1", until_s=3_600)
    certificates = Certificates(files, ME, clock)
    known = certificates.admit(_shown(caller), "TaskManager/Heartbeat", "task-manager")
    assert known.identity == ME
    await clock.advance(3_601)
    with pytest.raises(CallerRefused, match=r"of worker n1 is not valid at this time: renew it"):
        certificates.admit(_shown(caller), "TaskManager/Heartbeat", "task-manager")


def test_who_shows_no_certificate_of_a_service_is_nobody(files: TrustFiles, maker: CertificateMaker) -> None:
    certificates = Certificates(files, ME)
    for shown in ({}, {"x509_pem_cert": [b"no PEM"]}, {"x509_pem_cert": [maker.ca_pem]}):
        with pytest.raises(CallerRefused, match="names no service of a cluster"):
            certificates.admit(shown, "TaskManager/Heartbeat", "task-manager")


def test_serial_numbers_survive_the_file() -> None:
    serials = frozenset({1, 255, 2**158 + 3})
    assert read_serials(written(serials)) == serials
    for broken in ("{}", '["x"]', "[1]", ""):
        with pytest.raises(ValueError, match=r"."):
            read_serials(broken)
