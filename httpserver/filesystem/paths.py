"""Paths inside a personal space, from the bytes of an address to safe components. Pure."""

from __future__ import annotations

import os
from urllib.parse import quote, unquote_to_bytes

from headway.errors import InvalidInput

MAX_COMPONENT_BYTES = 255
MAX_PATH_BYTES = 4000


def from_address(raw_path: bytes, prefix: str) -> tuple[str, ...]:
    """The components of what follows ``prefix`` in the undecoded path of a request. Names may hold any bytes but NUL
    and the slash; undecodable ones are kept as surrogates.

    Raises:
        InvalidInput: see :func:`components`.
    """
    whole = raw_path.partition(b"?")[0]
    start = prefix.encode("ascii")
    rest = whole[len(start) :] if whole.startswith(start) else whole
    return components(os.fsdecode(unquote_to_bytes(rest)))


def components(path: str) -> tuple[str, ...]:
    """The components of a path relative to the space; empty and ``.`` ones count for nothing.

    Raises:
        InvalidInput: ``..``, a NUL, or too long.
    """
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    for part in parts:
        if part == "..":
            raise InvalidInput("A path in the personal space can't go up with `..`.")
        if "\0" in part:
            raise InvalidInput("A file name can't hold a NUL character.")
        if len(os.fsencode(part)) > MAX_COMPONENT_BYTES:
            raise InvalidInput(f"A name is longer than {MAX_COMPONENT_BYTES} bytes: {shown(part)[:60]}…")
    if len(os.fsencode("/".join(parts))) > MAX_PATH_BYTES:
        raise InvalidInput(f"The path is longer than {MAX_PATH_BYTES} bytes.")
    return parts


def shown(name: str) -> str:
    """Fit for JSON: undecodable bytes spelled out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def encoded(name: str) -> str:
    """Percent-encoded, byte for byte, to be put into an address."""
    return quote(os.fsencode(name), safe="")


def from_encoded(text: str) -> str:
    """The inverse of :func:`encoded`, slashes left as they are."""
    return os.fsdecode(unquote_to_bytes(text))
