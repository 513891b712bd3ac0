"""A service's own certificate and key on its disk: read and checked, made anew, and put in place.

Two files can't be replaced in one step. So the new ones are written beside them, and then renamed, the key first. A
process that is killed between leaves `cert.pem.new`, which `read` finds and puts in place.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from ..errors import ConfigInvalid, HeadwayError
from .files import TrustFiles
from .identity import Identity, identity_of

_MAKE = (
    "on ResourceManager's machine remove the certificate, and ResourceManager makes another; on every other machine "
    "`headway join --renew` does"
)


@dataclass(frozen=True, slots=True)
class Pair:
    """What a service shows and whom it believes. Instants are epoch seconds."""

    ca_pem: bytes
    cert_pem: bytes
    key_pem: bytes
    serial: int
    begins_at: float
    ends_at: float


def read(files: TrustFiles, identity: Identity) -> Pair:
    """The pair of ``identity``. One that has ended is read too.

    Raises:
        ConfigInvalid: a file is missing or broken, others can read the key, or the certificate is not this service's.
    """
    if not files.folder.is_dir():
        raise _wrong(f"is {files.folder}, which is no folder: {_MAKE}")
    ca_pem = _bytes(files.ca)
    authorities = _certificates(files.ca, ca_pem)
    key_path, cert_path = files.key(identity.role), files.certificate(identity.role)
    key_pem = _bytes(key_path)
    mode = stat.S_IMODE(key_path.stat().st_mode)
    if mode & 0o077:
        raise _wrong(f"has the key {key_path} that others can read (mode {mode:o}): run chmod 600 {key_path}")
    public = _public(key_path, key_pem)
    cert_pem = _bytes(cert_path)
    cert = _certificates(cert_path, cert_pem)[0]
    if _public_of(cert) != public:
        new = _pending(cert_path)
        try:
            cert_pem = new.read_bytes()
            cert = _certificates(new, cert_pem)[0]
        except OSError:
            raise _wrong(f"has a key {key_path} that does not belong to {cert_path}: {_MAKE}") from None
        if _public_of(cert) != public:
            raise _wrong(f"has a key {key_path} that does not belong to {cert_path}: {_MAKE}")
        os.replace(new, cert_path)
    check(cert, identity, authorities, where=str(cert_path))
    return Pair(
        ca_pem, cert_pem, key_pem, cert.serial_number,
        cert.not_valid_before_utc.timestamp(), cert.not_valid_after_utc.timestamp(),
    )  # fmt: skip


def check(cert: x509.Certificate, identity: Identity, authorities: Iterable[x509.Certificate], *, where: str) -> None:
    """Passes if the certificate is that of ``identity`` and one of these signed it.

    Raises:
        ConfigInvalid: it is not.
    """
    found = identity_in(cert)
    if found is None:
        raise _wrong(f"has in {where} a certificate of no service of Headway: {_MAKE}")
    if found.cluster != identity.cluster:
        raise _wrong(f"has in {where} a certificate of the cluster {found.cluster!r}, and this is {identity.cluster!r}")
    if found != identity:
        raise _wrong(f"has in {where} the certificate of {found}, and this is {identity}: {_MAKE}")
    if not any(_signed_by(cert, authority) for authority in authorities):
        raise _wrong(f"has in {where} a certificate that the cluster's ca.pem did not sign: {_MAKE}")


def identity_in(cert: x509.Certificate) -> Identity | None:
    """Whose certificate it is; None: no service's."""
    try:
        names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return None
    return identity_of(names.get_values_for_type(x509.UniformResourceIdentifier))


def certificates_in(pem: bytes) -> list[x509.Certificate]:
    """All certificates of a PEM text; at least one.

    Raises:
        ValueError: there is none, or one is broken.
    """
    return x509.load_pem_x509_certificates(pem)


def new_request(identity: Identity) -> tuple[bytes, bytes]:
    """A new private key and a request that it be signed for ``identity``, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(identity.uri), x509.DNSName(identity.dns_name)]
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, str(identity)[:64])]))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return key_pem, request.public_bytes(Encoding.PEM)


def install(files: TrustFiles, identity: Identity, *, key_pem: bytes, cert_pem: bytes) -> None:
    """Puts a new pair in the place of the old one, once it is known to be good.

    Raises:
        HeadwayError: the certificate is not for this key or this service; nothing was changed.
        OSError: the folder can't be written.
    """
    key_path, cert_path = files.key(identity.role), files.certificate(identity.role)
    try:
        cert = certificates_in(cert_pem)[0]
    except ValueError as error:
        raise HeadwayError("The new certificate can't be read.") from error
    if _public_of(cert) != _public(key_path, key_pem):
        raise HeadwayError("The new certificate is for another key than the one that was sent.")
    check(cert, identity, certificates_in(_bytes(files.ca)), where="the answer")
    new = _pending(cert_path)
    write(new, cert_pem, 0o644)
    write(key_path, key_pem, 0o600)
    with contextlib.suppress(FileNotFoundError):  # somebody who read meanwhile has put it in place
        os.replace(new, cert_path)
    _sync_folder(cert_path.parent)


def write(path: Path, data: bytes, mode: int) -> None:
    """The whole file or the old one, also after a loss of power.

    Raises:
        OSError: it can't be written; the old one stays.
    """
    fd, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _pending(cert_path: Path) -> Path:
    return cert_path.with_name(f"{cert_path.name}.new")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise _wrong(f"lacks {path}: {_MAKE}") from error
    except OSError as error:
        raise _wrong(f"has {path}, which can't be read: {error.strerror}") from error


def _certificates(path: Path, pem: bytes) -> list[x509.Certificate]:
    try:
        return certificates_in(pem)
    except ValueError as error:
        raise _wrong(f"has {path}, which holds no certificate in PEM: {_MAKE}") from error


def _public(path: Path, key_pem: bytes) -> bytes:
    try:
        key = serialization.load_pem_private_key(key_pem, None)
    except (ValueError, TypeError) as error:
        raise _wrong(f"has {path}, which holds no private key in PEM without a password: {_MAKE}") from error
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _public_of(cert: x509.Certificate) -> bytes:
    return cert.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _signed_by(cert: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        cert.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _wrong(what: str) -> ConfigInvalid:
    return ConfigInvalid(f"cluster.trust_dir {what}.")
