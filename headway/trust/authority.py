"""The cluster's authority: the key that signs the certificates of services.

    key, certificate = make_authority("lab")
    authority = Authority.read(TrustFiles(Path(config.cluster.trust_dir)))
    pem = authority.sign(csr_pem, Identity("lab", Role.WORKER, "n1"))      # good for 30 days

Of a request (CSR) only its public key counts. Who the certificate is for comes from the caller, who has it from a
token or from the certificate of the one who asks.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..errors import ConfigInvalid, InvalidInput
from .files import TrustFiles
from .identity import Identity, identity_of

LIFE_DAYS = 30
AUTHORITY_LIFE_DAYS = 3_650
PAGE_LIFE_DAYS = 820
BACKDATED_S = 300.0  # a machine whose clock is a little behind takes a new certificate at once
_CSR_AT_MOST = 16_384


@dataclass(frozen=True, slots=True)
class Issued:
    """What stands in a certificate of a service. ``until_at`` and ``from_at`` are epoch seconds."""

    serial: str  # hex
    identity: Identity
    from_at: float
    until_at: float
    pem: str


@dataclass(frozen=True, slots=True)
class PageIssued:
    """What stands in the page's certificate. ``host`` is its address or name. Instants are epoch seconds."""

    key: ec.EllipticCurvePublicKey
    host: str
    from_at: float
    until_at: float


class Authority:
    """Signs. Holds the private key in memory; ``now`` is epoch seconds."""

    def __init__(self, key_pem: bytes, certificate_pem: bytes, now: Callable[[], float] = time) -> None:
        key = serialization.load_pem_private_key(key_pem, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("its key is not of an elliptic curve")
        self._key = key
        self._certificate = x509.load_pem_x509_certificate(certificate_pem)
        if _public(self._certificate.public_key()) != _public(key.public_key()):
            raise ValueError("key and certificate don't belong together")
        self.certificate_pem = certificate_pem
        self.cluster = str(self._certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value)
        self._now = now

    @classmethod
    def read(cls, files: TrustFiles, now: Callable[[], float] = time) -> Authority:
        """The authority of this machine.

        Raises:
            ConfigInvalid: it is not here, or can't be used; the sentence says why.
        """
        key, certificate = authority_paths(files)
        try:
            return cls(key.read_bytes(), certificate.read_bytes(), now)
        except OSError as error:
            raise ConfigInvalid(
                f"The cluster's authority can't be read: {error.filename}: {error.strerror}. It lies on the machine "
                "where `headway init` ran, and ResourceManager runs there."
            ) from error
        except (ValueError, IndexError, TypeError) as error:
            raise ConfigInvalid(f"{key.parent} holds no authority that can be used: {error}.") from error

    @property
    def fingerprint(self) -> str:
        """By which a token names this authority."""
        return fingerprint(self._certificate)

    def sign(self, csr_pem: bytes, identity: Identity) -> bytes:
        """A certificate (PEM) for this identity alone, for clients and servers, good for 30 days.

        Raises:
            InvalidInput: the request can't be read, isn't signed by its own key, or has a key of another kind.
        """
        return self._signed(requested_key(csr_pem), identity)

    def sign_page(self, key: ec.EllipticCurvePublicKey, host: str) -> bytes:
        """A certificate (PEM) for the web page at this host. It names no service, so no service takes it for one."""
        names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        try:
            names.insert(0, x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.insert(0, x509.DNSName(host))
        builder = self._builder(key, [x509.NameAttribute(NameOID.COMMON_NAME, host[:64])], PAGE_LIFE_DAYS)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def page_of(self, certificate_pem: bytes) -> PageIssued | None:
        """What a certificate of `sign_page` says; None: it is none, or of another authority."""
        try:
            certificate = x509.load_pem_x509_certificate(certificate_pem)
            certificate.verify_directly_issued_by(self._certificate)
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            return None
        key = certificate.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            return None
        begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        return PageIssued(key, str(next(iter(names)).value), begins.timestamp(), ends.timestamp())

    def _signed(self, key: ec.EllipticCurvePublicKey, identity: Identity) -> bytes:
        if identity.cluster != self.cluster:
            raise InvalidInput(
                f"This authority is the cluster {self.cluster}'s and signs nothing for {identity.cluster}."
            )
        subject = [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, identity.cluster),
            x509.NameAttribute(NameOID.COMMON_NAME, identity.name),
        ]
        names = [x509.UniformResourceIdentifier(identity.uri), x509.DNSName(identity.dns_name)]
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = self._builder(key, subject, LIFE_DAYS)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _builder(
        self, key: ec.EllipticCurvePublicKey, subject: list[x509.NameAttribute[str]], days: int
    ) -> x509.CertificateBuilder:
        begins = datetime.fromtimestamp(self._now() - BACKDATED_S, UTC)
        # What it signs is not believed for longer than it is itself.
        ends = min(begins + timedelta(days=days, seconds=BACKDATED_S), self._certificate.not_valid_after_utc)
        own_key = self._key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name(subject))
            .issuer_name(self._certificate.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own_key), critical=False)
        )


def make_authority(cluster: str, now: Callable[[], float] = time) -> tuple[bytes, bytes]:
    """A new private key and its certificate (PEM), good for ten years."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, cluster),
            x509.NameAttribute(NameOID.COMMON_NAME, "Headway authority"),
        ]
    )
    begins = datetime.fromtimestamp(now() - BACKDATED_S, UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=AUTHORITY_LIFE_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return key_pem(key), certificate.public_bytes(serialization.Encoding.PEM)


def authority_paths(files: TrustFiles) -> tuple[Path, Path]:
    """The private key and the certificate below ``authority/``."""
    return files.authority / "key.pem", files.authority / "cert.pem"


def make_key() -> ec.EllipticCurvePrivateKey:
    """A new private key for one service."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """As it stands in a file; nothing but the file's mode protects it."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def read_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """The inverse of :func:`key_pem`.

    Raises:
        ValueError: it is none.
    """
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not of an elliptic curve")
    return key


def make_csr(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A request (PEM) for a certificate of this key. It names nobody: the authority knows whom it is for."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def requested_key(csr_pem: bytes) -> ec.EllipticCurvePublicKey:
    """The public key of a request.

    Raises:
        InvalidInput: it can't be read, isn't signed by that key, or has a key of another kind.
    """
    try:
        if len(csr_pem) > _CSR_AT_MOST:
            raise ValueError("too long")
        csr = x509.load_pem_x509_csr(csr_pem)
        valid = csr.is_signature_valid
    except (ValueError, TypeError, InvalidSignature) as error:
        raise InvalidInput("The request for a certificate (CSR) can't be read: send one in PEM.") from error
    key = csr.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InvalidInput("The request for a certificate (CSR) needs a key of the curve P-256.")
    if not valid:
        raise InvalidInput("The request for a certificate (CSR) is not signed by the key that it names.")
    return key


def key_digest(csr_pem: bytes) -> str:
    """Tells whether two requests are for the same key.

    Raises:
        InvalidInput: as for :func:`requested_key`.
    """
    return hashlib.sha256(_public(requested_key(csr_pem))).hexdigest()


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the public key: it stays the same when the authority gets a new certificate for its key."""
    return hashlib.sha256(_public(certificate.public_key())).hexdigest()


def issued(pem: bytes) -> Issued:
    """What a service's certificate says.

    Raises:
        ValueError: it can't be read, or is no service's.
    """
    certificate = x509.load_pem_x509_certificate(pem)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise ValueError("it names nobody") from None
    identity = identity_of(names.get_values_for_type(x509.UniformResourceIdentifier))
    if identity is None:
        raise ValueError("it names no service of Headway")
    return Issued(
        serial=f"{certificate.serial_number:x}",
        identity=identity,
        from_at=certificate.not_valid_before_utc.timestamp(),
        until_at=certificate.not_valid_after_utc.timestamp(),
        pem=pem.decode(),
    )


def check_issued(certificate_pem: bytes, ca_pem: bytes, key: ec.EllipticCurvePrivateKey, wanted: str) -> Issued:
    """Looks at what came from the cluster, before any of it is believed. ``wanted`` is the authority's fingerprint.

    Raises:
        ValueError: it is of another authority, or not for this key.
    """
    authority = named_authority(ca_pem, wanted)
    certificate = x509.load_pem_x509_certificate(certificate_pem)
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError) as error:
        raise ValueError("the certificate is not signed by the authority that the token names") from error
    if _public(certificate.public_key()) != _public(key.public_key()):
        raise ValueError("the certificate is for another key")
    return issued(certificate_pem)


def named_authority(ca_pem: bytes, wanted: str) -> x509.Certificate:
    """The authority with this fingerprint.

    Raises:
        ValueError: it is not among them.
    """
    for authority in x509.load_pem_x509_certificates(ca_pem):
        if fingerprint(authority) == wanted:
            return authority
    raise ValueError("the authority that answered is not the one that the token names")


def _public(key: object) -> bytes:
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError("its key is not of an elliptic curve")
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
