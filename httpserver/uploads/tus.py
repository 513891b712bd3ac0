"""What tus 1.0.0 says in its headers, read strictly. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, Protocol

from headway.errors import InvalidInput

from .errors import BadContentType, WrongVersion

VERSION = "1.0.0"
EXTENSIONS = "creation,creation-with-upload,creation-defer-length,checksum,termination,expiration"
ALGORITHMS = ("sha1", "sha256", "md5")
CONTENT_TYPE = "application/offset+octet-stream"
PREFIX = "/api/v1/uploads/"

_METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS"})
_NUMBER = re.compile(r"[0-9]{1,19}")
_MOST = 2**63 - 1
_KEY = re.compile(r"[!-+\--~]{1,100}")  # printable ASCII without space and comma
_MAX_METADATA_BYTES = 16_384
_MAX_KEYS = 40


class _Hash(Protocol):
    def update(self, data: Any, /) -> None: ...
    def digest(self) -> bytes: ...
    def hexdigest(self) -> str: ...
    def copy(self) -> _Hash: ...


Hash = _Hash


@dataclass(frozen=True, slots=True)
class Checksum:
    """Of one request's body."""

    algorithm: str
    digest: bytes

    def start(self) -> Hash:
        """A hash to be fed with the body."""
        return new_hash(self.algorithm)


def new_hash(algorithm: str) -> Hash:
    """One of ALGORITHMS; against mistakes of the wire, not against attackers."""
    return hashlib.new(algorithm, usedforsecurity=False)


def check_version(value: str | None) -> None:
    """
    Raises:
        WrongVersion: Tus-Resumable is missing or another.
    """
    if value != VERSION:
        fault = "has no header Tus-Resumable" if value is None else f"speaks tus {value[:20]}"
        raise WrongVersion(f"This request {fault}; Headway supports tus {VERSION}: send `Tus-Resumable: {VERSION}`.")


def check_content_type(value: str | None) -> None:
    """
    Raises:
        BadContentType: it is none that carries a piece of an upload.
    """
    if not is_piece(value):
        raise BadContentType(f"A piece of an upload is sent as {CONTENT_TYPE}, and not as {(value or 'nothing')[:60]}.")


def is_piece(content_type: str | None) -> bool:
    """Whether the body is a piece of an upload."""
    return (content_type or "").partition(";")[0].strip().lower() == CONTENT_TYPE


def number(headers: Mapping[str, str], name: str) -> int:
    """The value of a header that must be there.

    Raises:
        InvalidInput: missing, or no whole number from 0 on.
    """
    value = headers.get(name)
    if value is None:
        raise InvalidInput(f"The header {name} is missing.")
    if not _NUMBER.fullmatch(value) or int(value) > _MOST:
        raise InvalidInput(f"The header {name} must be a number of bytes, and not {value[:40]!r}.")
    return int(value)


def creation_length(headers: Mapping[str, str]) -> int | None:
    """The length of a new upload; None if the client sends it later.

    Raises:
        InvalidInput: neither or both of Upload-Length and Upload-Defer-Length, or parts that are to be joined.
    """
    if "upload-concat" in headers:
        raise InvalidInput("Uploads in parts that are joined (Upload-Concat) are not offered here.")
    deferred = headers.get("upload-defer-length")
    if deferred is None:
        return number(headers, "Upload-Length")
    if deferred != "1":
        raise InvalidInput(f"The header Upload-Defer-Length must be 1, and not {deferred[:40]!r}.")
    if "upload-length" in headers:
        raise InvalidInput("Send Upload-Length or Upload-Defer-Length, not both.")
    return None


def later_length(headers: Mapping[str, str]) -> int | None:
    """The length that comes with a piece of an upload whose length was not known before.

    Raises:
        InvalidInput: it is no number.
    """
    return number(headers, "Upload-Length") if "upload-length" in headers else None


def checksum(value: str | None) -> Checksum | None:
    """
    Raises:
        InvalidInput: an algorithm that is not offered, or no digest of it in base64.
    """
    if value is None:
        return None
    algorithm, _, encoded = value.partition(" ")
    if algorithm not in ALGORITHMS:
        raise InvalidInput(f"Upload-Checksum knows {', '.join(ALGORITHMS)}, and not {algorithm[:40]!r}.")
    digest = _base64(encoded)
    if digest is None or len(digest) != len(new_hash(algorithm).digest()):
        raise InvalidInput(f"Upload-Checksum holds no {algorithm} digest in base64.")
    return Checksum(algorithm, digest)


def metadata(value: str) -> dict[str, str]:
    """Upload-Metadata decoded. Bytes that are no UTF-8 are kept as surrogates, since file names may hold any.

    Raises:
        InvalidInput: it is not as the protocol has it; the sentence says where.
    """
    if not value.strip():
        return {}
    if len(value) > _MAX_METADATA_BYTES:
        raise InvalidInput(f"Upload-Metadata is longer than {_MAX_METADATA_BYTES} bytes.")
    found: dict[str, str] = {}
    for place, pair in enumerate(value.split(","), 1):
        key, space, encoded = pair.strip(" \t").partition(" ")
        if not _KEY.fullmatch(key):
            raise InvalidInput(f"Upload-Metadata, pair {place}: a key is 1 to 100 printable ASCII characters.")
        if key in found:
            raise InvalidInput(f"Upload-Metadata has the key {key!r} twice.")
        decoded = _base64(encoded) if space else b""
        if decoded is None:
            raise InvalidInput(f"Upload-Metadata, key {key!r}: its value is not base64.")
        found[key] = decoded.decode("utf-8", "surrogateescape")
        if len(found) > _MAX_KEYS:
            raise InvalidInput(f"Upload-Metadata has more than {_MAX_KEYS} keys.")
    return found


def sha256_of(found: Mapping[str, str]) -> str:
    """The checksum of the whole file that the metadata promises, or an empty text.

    Raises:
        InvalidInput: it is none.
    """
    value = found.get("sha256", "").lower()
    if value and not re.fullmatch(r"[0-9a-f]{64}", value):
        raise InvalidInput("The sha256 in Upload-Metadata must be 64 hexadecimal digits.")
    return value


def http_date(at: float) -> str:
    """As Upload-Expires has it."""
    return formatdate(at, usegmt=True)


def of_every_answer(status: int) -> list[tuple[str, str]]:
    """Headers of every answer below PREFIX, whoever gives it."""
    version = [("Tus-Version", VERSION)] if status == 412 else []
    return [("Tus-Resumable", VERSION), *version]


def takes_any_size(method: str, path: str) -> bool:
    """Whether the body of this request may be a piece of an upload, which has a limit of its own."""
    if not path.startswith(PREFIX):
        return False
    return (method == "PATCH") if "/" in path[len(PREFIX) :] else (method == "POST")


def overridden(scope: MutableMapping[str, Any], method: str | None) -> MutableMapping[str, Any]:
    """The request as it wants to be taken: X-HTTP-Method-Override is for those whose way to here knows no PATCH. The
    scope itself stays: how the answer is framed depends on the method on the wire."""
    if method is None or method not in _METHODS or not scope["path"].startswith(PREFIX):
        return scope
    return {**scope, "method": method}


def _base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
