from __future__ import annotations

import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headway.errors import ConfigInvalid, InvalidInput
from headway.trust.authority import (
    Authority,
    authority_paths,
    check_issued,
    issued,
    key_digest,
    make_authority,
    make_csr,
    make_key,
)
from headway.trust.files import TrustFiles, write_private
from headway.trust.identity import Identity, Role

NOW = 1_800_000_000.0
DAY = 86_400
N1 = Identity("lab", Role.WORKER, "n1")


@pytest.fixture
def authority() -> Authority:
    return Authority(*make_authority("lab", lambda: NOW), now=lambda: NOW)


def extension(certificate: x509.Certificate, kind: type) -> object:
    return certificate.extensions.get_extension_for_class(kind).value


def test_a_certificate_is_for_one_identity_and_thirty_days(authority: Authority):
    certificate = x509.load_pem_x509_certificate(authority.sign(make_csr(make_key()), N1))
    names = extension(certificate, x509.SubjectAlternativeName)
    assert isinstance(names, x509.SubjectAlternativeName)
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [N1.uri]
    assert names.get_values_for_type(x509.DNSName) == [N1.dns_name]
    assert certificate.not_valid_before_utc.timestamp() == NOW - 300
    assert certificate.not_valid_after_utc.timestamp() == NOW + 30 * DAY
    usage = extension(certificate, x509.ExtendedKeyUsage)
    assert set(usage) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}  # type: ignore[call-overload]
    constraints = extension(certificate, x509.BasicConstraints)
    assert isinstance(constraints, x509.BasicConstraints)
    assert not constraints.ca
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate_pem))


def test_names_in_a_request_do_not_count(authority: Authority):
    manager = Identity("lab", Role.RESOURCE_MANAGER)
    key = make_key()
    csr = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "main")]))
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(manager.uri)]), critical=True)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = authority.sign(csr.public_bytes(serialization.Encoding.PEM), N1)
    assert issued(pem).identity == N1
    constraints = extension(x509.load_pem_x509_certificate(pem), x509.BasicConstraints)
    assert isinstance(constraints, x509.BasicConstraints)
    assert not constraints.ca


def _rsa_csr() -> bytes:
    key = rsa.generate_private_key(65537, 2048)
    built = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return built.public_bytes(serialization.Encoding.PEM)


def _of_another_curve() -> bytes:
    key = ec.generate_private_key(ec.SECP384R1())
    built = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return built.public_bytes(serialization.Encoding.PEM)


def _tampered() -> bytes:
    csr = x509.load_pem_x509_csr(make_csr(make_key()))
    der = bytearray(csr.public_bytes(serialization.Encoding.DER))
    der[-1] ^= 1
    return x509.load_der_x509_csr(bytes(der)).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize("csr", [b"", b"nonsense", b"x" * 100_000, _rsa_csr(), _of_another_curve(), _tampered()])
def test_a_request_that_is_none_is_refused(authority: Authority, csr: bytes):
    with pytest.raises(InvalidInput):
        authority.sign(csr, N1)
    with pytest.raises(InvalidInput):
        key_digest(csr)


def test_nothing_is_signed_for_another_cluster(authority: Authority):
    with pytest.raises(InvalidInput, match="elsewhere"):
        authority.sign(make_csr(make_key()), Identity("elsewhere", Role.WORKER, "n1"))


def test_nothing_outlives_the_authority():
    made = make_authority("lab", lambda: NOW)
    late = Authority(*made, now=lambda: NOW + 3_640 * DAY)
    until = issued(late.sign(make_csr(make_key()), N1)).until_at
    assert until == NOW - 300 + 3_650 * DAY


def test_what_comes_from_another_authority_or_for_another_key_is_not_believed(authority: Authority):
    key, other = make_key(), Authority(*make_authority("lab"))
    pem = authority.sign(make_csr(key), N1)
    assert check_issued(pem, authority.certificate_pem, key, authority.fingerprint).identity == N1
    with pytest.raises(ValueError, match="not the one that the token names"):
        check_issued(pem, other.certificate_pem, key, authority.fingerprint)
    both = authority.certificate_pem + other.certificate_pem
    with pytest.raises(ValueError, match="not signed"):
        check_issued(other.sign(make_csr(key), N1), both, key, authority.fingerprint)
    with pytest.raises(ValueError, match="another key"):
        check_issued(pem, authority.certificate_pem, make_key(), authority.fingerprint)


def test_the_pages_certificate_names_no_service(authority: Authority):
    pem = authority.sign_page(make_key().public_key(), "10.0.0.1")
    names = extension(x509.load_pem_x509_certificate(pem), x509.SubjectAlternativeName)
    assert isinstance(names, x509.SubjectAlternativeName)
    assert ipaddress.ip_address("10.0.0.1") in names.get_values_for_type(x509.IPAddress)
    with pytest.raises(ValueError, match="names no service"):
        issued(pem)


def test_an_authority_that_is_not_whole_is_told_in_one_sentence(tmp_path):
    files = TrustFiles(tmp_path)
    with pytest.raises(ConfigInvalid, match="headway init"):
        Authority.read(files)
    key_file, certificate_file = authority_paths(files)
    write_private(key_file, make_authority("lab")[0])
    write_private(certificate_file, make_authority("lab")[1])
    with pytest.raises(ConfigInvalid, match="don't belong together"):
        Authority.read(files)
    assert key_file.stat().st_mode & 0o777 == 0o600
