"""The folder in which a machine keeps the certificates of its services.

| below the folder | what |
| --- | --- |
| `ca.pem` | whom to believe: one certificate, or two while the authority changes |
| `ROLE/cert.pem`, `ROLE/key.pem` | the service's own certificate, and its private key of mode 0600 |
| `revoked.json` | serial numbers (hex) of certificates that count no more |
| `authority/` | on ResourceManager's machine alone: the key that signs, of mode 0600 |
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .identity import Role


@dataclass(frozen=True, slots=True)
class TrustFiles:
    """Where things lie below ``folder``; nothing is read here."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def revoked(self) -> Path:
        return self.folder / "revoked.json"

    @property
    def authority(self) -> Path:
        return self.folder / "authority"

    def certificate(self, role: Role) -> Path:
        return self.folder / role / "cert.pem"

    def key(self, role: Role) -> Path:
        return self.folder / role / "key.pem"
