"""An authority in a folder, as `headway init` makes it, and machines that ask it."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from headway.trust.authority import Authority, authority_paths, key_pem, make_authority, make_csr, make_key
from headway.trust.files import TrustFiles, write_private
from headway.trust.identity import MANAGERS, Identity
from headway.trust.joining import JoinRequest, read_token


def make_trust(folder: Path, now: float, cluster: str = "lab") -> Authority:
    """The files of the first machine; ``now`` is epoch seconds."""
    files = TrustFiles(folder)
    key, certificate = make_authority(cluster, lambda: now)
    authority = Authority(key, certificate, lambda: now)
    for path, content in zip(authority_paths(files), (key, certificate), strict=True):
        write_private(path, content)
    write_private(files.ca, certificate)
    for role in MANAGERS:
        own = make_key()
        write_private(files.key(role), key_pem(own))
        write_private(files.certificate(role), authority.sign(make_csr(own), Identity(cluster, role)))
    return authority


class Machine:
    """One that has a token, or believes so."""

    def __init__(self, token: str, *, at: float, name: str = "", version: str = "0.1.0") -> None:
        self.token = read_token(token)
        self.key: ec.EllipticCurvePrivateKey = make_key()
        self.request = JoinRequest(
            cluster=self.token.cluster,
            token_id=self.token.id,
            csr=make_csr(self.key).decode(),
            nonce=secrets.token_hex(16),
            at=at,
            version=version,
            name=name,
            host="by-its-host",
        )

    def asks(self, **changes: object) -> tuple[JoinRequest, str]:
        """A request and its proof."""
        request = replace(self.request, **changes)  # type: ignore[arg-type]
        return request, request.proof(self.token.key)
