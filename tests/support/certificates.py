"""A cluster's authority for tests: it makes the folders of certificates that services read.

authority = CertificateMaker("headway")
authority.give(TrustFiles(tmp_path / "trust"), Role.WORKER, "n1")
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headway.trust.authority import authority_paths, key_pem
from headway.trust.files import TrustFiles, write_private
from headway.trust.identity import Identity, Role
from headway.trust.pairs import new_request, write
from headway.trust.revoked import written

LIFE_S = 30 * 86_400.0


class CertificateMaker:
    """Signs what it is asked to."""

    def __init__(self, cluster: str = "headway") -> None:
        self.cluster = cluster
        self.signed: list[Identity] = []
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, cluster),
                x509.NameAttribute(NameOID.COMMON_NAME, f"authority of {cluster}"),
            ]
        )
        self._certificate = (
            self._begun(self._key.public_key(), self._name, time.time() - 300, time.time() + 10 * LIFE_S)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def ca_pem(self) -> bytes:
        return self._certificate.public_bytes(Encoding.PEM)

    def certificate(
        self, identity: Identity, key: ec.EllipticCurvePublicKey, *, from_s: float = -300.0, until_s: float = LIFE_S
    ) -> bytes:
        """A certificate for that key; the span counts from now."""
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(identity.uri), x509.DNSName(identity.dns_name)]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        now = time.time()
        return (
            self._begun(key, x509.Name([]), now + from_s, now + until_s)
            .add_extension(x509.SubjectAlternativeName(names), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(self._key, hashes.SHA256())
            .public_bytes(Encoding.PEM)
        )

    def give_authority(self, files: TrustFiles) -> None:
        """Puts what signs into the folder of ResourceManager's machine."""
        key, certificate = authority_paths(files)
        write_private(key, key_pem(self._key))
        write_private(certificate, self.ca_pem)

    async def renew(self, csr_pem: bytes, identity: Identity, *, shown: int | None = None) -> bytes:
        """As ResourceManager's authority does."""
        key = x509.load_pem_x509_csr(csr_pem).public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        self.signed.append(identity)
        return self.certificate(identity, key)

    def give(
        self, files: TrustFiles, role: Role, name: str = "main", *, from_s: float = -300.0, until_s: float = LIFE_S
    ) -> Identity:
        """Puts ca.pem and a new pair for a service into the folder."""
        identity = Identity(self.cluster, role, name)
        private_pem, _csr = new_request(identity)
        key = load_pem_private_key(private_pem, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        files.key(role).parent.mkdir(parents=True, exist_ok=True)
        write(files.ca, self.ca_pem, 0o644)
        write(files.key(role), private_pem, 0o600)
        write(
            files.certificate(role), self.certificate(identity, key.public_key(), from_s=from_s, until_s=until_s), 0o644
        )
        return identity

    def _begun(
        self, key: ec.EllipticCurvePublicKey, subject: x509.Name, from_at: float, until_at: float
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime.fromtimestamp(from_at, UTC))
            .not_valid_after(datetime.fromtimestamp(until_at, UTC))
        )


def serial_of(files: TrustFiles, role: Role) -> int:
    """The serial number of a service's certificate in that folder."""
    return x509.load_pem_x509_certificate(files.certificate(role).read_bytes()).serial_number


def revoke(files: TrustFiles, *serials: int) -> None:
    """Writes the list of those that count no more."""
    write(files.revoked, written(serials).encode(), 0o644)


def trust_files(folder: Path) -> TrustFiles:
    folder.mkdir(parents=True, exist_ok=True)
    return TrustFiles(folder)
