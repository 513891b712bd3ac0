"""Reads a file whole, and unpacks gzip on the way, with bounds on both."""

from __future__ import annotations

import zlib
from typing import BinaryIO

from .errors import TraceInvalid

_MAGIC = b"\x1f\x8b"
_PART_BYTES = 1 << 20
# Text of traces packs to a tenth or so. A file that unpacks to far more is made to fill the memory.
_FREE_BYTES = 64 << 20
_MOST_RATIO = 100


def unpacked(file: BinaryIO, name: str, kind: str, most: int) -> bytes:
    """All bytes of an open file; those of a gzip file are unpacked. It is known by its first bytes.

    Raises:
        TraceInvalid: there are more than ``most`` bytes, or the gzip file is broken or unpacks to far too much.
        OSError: the file can't be read.
    """
    first = file.read(_PART_BYTES)
    if first[:2] == _MAGIC:
        return _unpack(first, file, name, kind, most)
    parts: list[bytes] = []
    left = most
    part = first
    while part:
        left -= len(part)
        if left < 0:
            raise TraceInvalid(f"{name} has more than {most:,} bytes, the most that a {kind} may have.")
        parts.append(part)
        part = file.read(_PART_BYTES)
    return b"".join(parts)


def _unpack(first: bytes, file: BinaryIO, name: str, kind: str, most: int) -> bytes:
    parts: list[bytes] = []
    packed = made = 0
    engine = zlib.decompressobj(wbits=31)
    part = first
    while part:
        packed += len(part)
        while part:
            if engine.eof:  # a gzip file may be several, one behind the other; zeros may fill its end
                part = part.lstrip(b"\0")
                if not part:
                    break
                engine = zlib.decompressobj(wbits=31)
            try:
                found = engine.decompress(part, _PART_BYTES)
            except zlib.error:
                raise TraceInvalid(f"{name} is a broken gzip file: `gzip -t` says more.") from None
            made += len(found)
            if made > most:
                raise TraceInvalid(f"{name} unpacks to more than {most:,} bytes, the most that a {kind} may have.")
            if made > _FREE_BYTES and made > _MOST_RATIO * packed:
                raise TraceInvalid(
                    f"{name} unpacks to more than {_MOST_RATIO} times its size, as no {kind} does; it is not read."
                )
            parts.append(found)
            part = engine.unused_data if engine.eof else engine.unconsumed_tail
        part = file.read(_PART_BYTES)
    if not engine.eof:
        raise TraceInvalid(f"{name} is a gzip file that ends too early; was it copied whole?")
    return b"".join(parts)
