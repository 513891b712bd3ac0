"""The folder in which a machine keeps the certificates of its services.

| below the folder | what |
| --- | --- |
| `ca.pem` | whom to believe: one certificate, or two while the authority changes |
| `ROLE/cert.pem`, `ROLE/key.pem` | the service's own certificate, and its private key of mode 0600 |
| `revoked.json` | serial numbers (hex) of certificates that count no more |
| `page/cert.pem`, `page/key.pem` | of the web page, where the authority signed it |
| `authority/` | on ResourceManager's machine alone: the key that signs, of mode 0600 |
"""

from __future__ import annotations

import os
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

    @property
    def page(self) -> Path:
        return self.folder / "page"

    def certificate(self, role: Role) -> Path:
        return self.folder / role / "cert.pem"

    def key(self, role: Role) -> Path:
        return self.folder / role / "key.pem"


def write_private(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """The file whole or not at all, also after a kill or a power cut; never with more rights than ``mode``.

    One writer at a time: the draft has a fixed name, so that what a kill left is written over.

    Raises:
        OSError: it can't be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.new")
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(content)
            file.flush()
            os.fsync(fd)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """What was renamed in it is so after a power cut too."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
