"""What a machine and the cluster say to each other when the machine joins. Pure.

The token's secret never travels. Both sides derive a key from it, and each proves that it has it. The machine does so
by a code (HMAC) over its request, the cluster by one over its answer. So plain HTTP gives nothing away, and nobody in
between can change a word.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import InvalidInput

CLOCK_SLACK_S = 60.0
_FORM = "hw1"
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ID = re.compile(r"[a-z0-9]{10}")
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.|$)")
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"


@dataclass(frozen=True, slots=True)
class JoinToken:
    """A one-time permission to join. ``fingerprint`` says which authority the machine may believe."""

    cluster: str
    id: str
    secret: str
    fingerprint: str

    @property
    def text(self) -> str:
        """As a person copies it: no sign in it means anything to a shell."""
        return ":".join((_FORM, self.cluster, self.id, self.secret, self.fingerprint))

    def __repr__(self) -> str:
        return f"JoinToken({self.cluster!r}, {self.id!r})"

    @property
    def key(self) -> bytes:
        """What both sides sign with, and all that the cluster keeps."""
        return token_key(self.secret)


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """What a machine asks. ``look``: only whether it could join, and what its configuration will need.

    ``name`` is the node's name that a person gave it, for a Worker; ``host`` counts where nobody did. ``at`` is its own
    clock, epoch seconds. ``renew``: it had a certificate under this name before.
    """

    cluster: str
    token_id: str
    csr: str
    nonce: str
    at: float
    version: str
    name: str = ""
    host: str = ""
    renew: bool = False
    look: bool = False

    def proof(self, key: bytes) -> str:
        """By which the cluster knows that the sender has the token, and that nobody changed the request."""
        flags = f"{int(self.renew)}{int(self.look)}"
        parts = (self.cluster, self.token_id, self.csr, self.nonce, repr(self.at), self.version, self.name, self.host)
        return _proof(key, "join request 1", (*parts, flags))


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """What the cluster answers. ``settings`` is JSON; ``certificate`` is empty after a look."""

    certificate: str
    ca: str
    settings: str
    version: str

    def proof(self, key: bytes, request: JoinRequest) -> str:
        """By which the machine knows that the cluster that made its token answers this very request."""
        parts = (request.proof(key), self.certificate, self.ca, self.settings, self.version)
        return _proof(key, "join answer 1", parts)


def new_token(cluster: str, fingerprint: str) -> JoinToken:
    """A token by chance; its secret has 256 bits."""
    name = "".join(secrets.choice(_ALPHABET) for _ in range(10))
    return JoinToken(cluster, name, secrets.token_urlsafe(32), fingerprint)


def read_token(text: str) -> JoinToken:
    """A token as it was copied.

    Raises:
        InvalidInput: it is none, or not whole.
    """
    parts = text.strip().split(":")
    if parts[0] != _FORM:
        raise InvalidInput(
            f"This is no token to join with: one begins with {_FORM}: (`headway nodes invite` makes one)."
        )
    rules = (_CLUSTER, _ID, _SECRET, _FINGERPRINT)
    if len(parts) != 5 or not all(rule.fullmatch(part) for rule, part in zip(rules, parts[1:], strict=True)):
        raise InvalidInput("The token to join with is not whole: copy all of what `headway nodes invite` printed.")
    return JoinToken(*parts[1:])


def token_key(secret: str) -> bytes:
    """One way only: from the key nobody learns the secret, and so not the token."""
    return hmac.new(b"headway join token 1", _decoded(secret), hashlib.sha256).digest()


def same(one: str, other: str) -> bool:
    """Compares two proofs in a time that tells nothing."""
    return hmac.compare_digest(one.encode(), other.encode())


def clock_refusal(at: float, now: float) -> str:
    """Why a machine whose clock shows ``at`` can't join; empty: it can."""
    off_s = at - now
    if abs(off_s) <= CLOCK_SLACK_S:
        return ""
    where = "ahead of" if off_s > 0 else "behind"
    return (
        f"This machine's clock is {abs(off_s):.0f} s {where} the cluster's; at most {CLOCK_SLACK_S:g} s are borne. "
        "Set it, such as by installing chrony, then join again."
    )


def version_refusal(mine: str, others: str) -> str:
    """Why a machine with Headway ``others`` can't join a cluster with ``mine``; empty: it can. One minor version may
    lie between them."""
    here, there = _VERSION.match(mine), _VERSION.match(others)
    if here is None or there is None:
        return (
            "" if mine == others else f"The cluster runs Headway {mine}, and nobody knows whether {others[:32]} fits."
        )
    if here[1] == there[1] and abs(int(here[2]) - int(there[2])) <= 1:
        return ""
    return (
        f"The cluster runs Headway {mine} and this machine has {others[:32]}: they are too far apart. Install "
        f"headway-server=={mine} here."
    )


def _proof(key: bytes, what: str, parts: Iterable[str]) -> str:
    mac = hmac.new(key, what.encode(), hashlib.sha256)
    for part in parts:
        # With its length in front: no two lists of parts are one text.
        data = part.encode("utf-8", "surrogatepass")
        mac.update(len(data).to_bytes(8, "big") + data)
    return mac.hexdigest()


def _decoded(secret: str) -> bytes:
    return base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))
