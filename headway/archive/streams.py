"""Streams of an archive: found out by content, unpacked in bounded pieces, noticed when cut.

A stream is an iterator of non-empty chunks of bytes, none much larger than a MiB however small what it is unpacked
from. gzip, zstd and xz may consist of several parts, as `pigz` and `zstd -T` write them.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import IO, cast

import zstandard

from .model import MIB, ArchiveRefused

CHUNK = MIB
GZIP, ZSTD, XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00"
_XZ_MEMORY = 256 * MIB  # xz -9 needs 65 MiB
_ZSTD_WINDOW = 128 * MIB  # zstd -19 needs 8 MiB; --ultra and --long up to this


class Incomplete(Exception):
    """What is read ends too soon; the door turns it into the sentence for people."""


class Reader:
    """Reads exact amounts from a stream. ``position`` counts from the stream's beginning."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._chunk = b""
        self._at = 0
        self.position = 0

    def exactly(self, count: int) -> bytes:
        """The next ``count`` bytes.

        Raises:
            Incomplete: there are fewer.
        """
        end = self._at + count
        if end <= len(self._chunk):
            found = self._chunk[self._at : end]
            self._at = end
        else:
            parts = []
            missing = count
            while missing:
                part = self.some(missing)
                if not part:
                    raise Incomplete("it ends too soon")
                missing -= len(part)
                self.position -= len(part)
                parts.append(part)
            found = b"".join(parts)
        self.position += count
        return found

    def some(self, most: int) -> bytes:
        """Up to ``most`` bytes, b"" only at the end."""
        if self._at == len(self._chunk):
            self._chunk = next(self._chunks, b"")
            self._at = 0
        found = self._chunk[self._at : self._at + most]
        self._at += len(found)
        self.position += len(found)
        return found

    def block(self, size: int) -> bytes | None:
        """The next ``size`` bytes, None at the end.

        Raises:
            Incomplete: the stream ends in the middle of them.
        """
        if self._at == len(self._chunk):
            self._chunk = next(self._chunks, b"")
            self._at = 0
            if not self._chunk:
                return None
        return self.exactly(size)

    def skip(self, count: int) -> None:
        """Passes ``count`` bytes over.

        Raises:
            Incomplete: there are fewer.
        """
        self.position += count
        while count:
            left = len(self._chunk) - self._at
            if left >= count:
                self._at += count
                return
            count -= left
            self._chunk = next(self._chunks, b"")
            self._at = 0
            if not self._chunk:
                raise Incomplete("it ends too soon")

    def window(self, count: int) -> Iterator[bytes]:
        """The next ``count`` bytes as a stream.

        Raises:
            Incomplete: while it is read, there are fewer.
        """
        while count:
            part = self.some(min(count, CHUNK))
            if not part:
                raise Incomplete("it ends too soon")
            count -= len(part)
            yield part


def packing(head: bytes) -> str:
    """How a stream that begins so is packed: gzip, zstd, xz, or "" if it isn't."""
    if head.startswith(GZIP):
        return "gzip"
    # Skippable frames may come first; pzstd writes them.
    if head.startswith(ZSTD) or (head[1:4] == b"\x2a\x4d\x18" and head[:1] and 0x50 <= head[0] <= 0x5F):
        return "zstd"
    if head.startswith(XZ):
        return "xz"
    return ""


def unpacked(chunks: Iterator[bytes], how: str, where: str) -> Iterator[bytes]:
    """The stream without its packing (``how`` as :func:`packing` says).

    Raises (while it is read):
        ArchiveRefused: it is damaged, needs too much memory, or something follows its end.
        Incomplete: it is cut.
    """
    match how:
        case "gzip":
            return _gzip(chunks, where)
        case "zstd":
            return _zstd(chunks, where)
        case "xz":
            return _xz(chunks, where)
    return chunks


def _gzip(chunks: Iterator[bytes], where: str) -> Iterator[bytes]:
    data = next(chunks, b"")
    while data:
        one = zlib.decompressobj(wbits=31)
        while not one.eof:
            try:
                piece = one.decompress(data, CHUNK)
            except zlib.error as error:
                raise ArchiveRefused(f"{where} is damaged: its gzip data can't be unpacked.") from error
            if piece:
                yield piece
            if one.eof:
                break
            data = one.unconsumed_tail
            if not data and len(piece) < CHUNK:
                data = next(chunks, b"")
                if not data:
                    raise Incomplete(f"{where} ends in the middle of its gzip data")
        data = one.unused_data or next(chunks, b"")


def _xz(chunks: Iterator[bytes], where: str) -> Iterator[bytes]:
    data = next(chunks, b"")
    while data:
        try:
            one = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
            while not one.eof:
                if one.needs_input and not data:
                    data = next(chunks, b"")
                    if not data:
                        raise Incomplete(f"{where} ends in the middle of its xz data")
                piece = one.decompress(data, CHUNK)
                data = b""
                if piece:
                    yield piece
        except (lzma.LZMAError, MemoryError) as error:
            raise ArchiveRefused(f"{where} is damaged, or its xz data needs too much memory to be unpacked.") from error
        # Between and after the parts of an xz file zeros may stand, in fours.
        data = _without_zeros(one.unused_data, chunks)


def _without_zeros(data: bytes, chunks: Iterator[bytes]) -> bytes:
    while True:
        data = data.lstrip(b"\0")
        if data:
            return data
        data = next(chunks, b"")
        if not data:
            return b""


def _zstd(chunks: Iterator[bytes], where: str) -> Iterator[bytes]:
    # The library's reader bounds what it gives out, but takes a cut frame for a good end: the walker notices.
    frames = _Frames()
    source = _Source(chunks, frames.pass_over)
    reader = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).stream_reader(
        cast("IO[bytes]", source), read_size=128 << 10, read_across_frames=True
    )
    while True:
        try:
            piece = reader.read(CHUNK)
        except (zstandard.ZstdError, MemoryError) as error:
            raise ArchiveRefused(
                f"{where} is damaged, or its zstd data needs too much memory to be unpacked."
            ) from error
        if not piece:
            break
        yield piece
    if not frames.at_end:
        raise Incomplete(f"{where} ends in the middle of its zstd data")


class _Source:
    """What the zstd library reads from."""

    def __init__(self, chunks: Iterator[bytes], seen: Callable[[bytes], None]) -> None:
        self._reader = Reader(chunks)
        self._seen = seen

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes."""
        data = self._reader.some(size)
        self._seen(data)
        return data


class _Frames:
    """Walks over zstd frames without unpacking them, only to know whether the last one is whole (RFC 8878)."""

    def __init__(self) -> None:
        self._between = True
        self._have = b""
        self._walk = self._steps()
        self._want = next(self._walk)

    @property
    def at_end(self) -> bool:
        """Whether the stream may end here."""
        return self._between and not self._have

    def pass_over(self, data: bytes) -> None:
        """Takes the next bytes."""
        at = 0
        while True:
            if self._want < 0:
                step = min(-self._want, len(data) - at)
                self._want += step
                at += step
                if self._want < 0:
                    return
                self._want = self._walk.send(b"")
                continue
            part = data[at : at + self._want - len(self._have)]
            self._have += part
            at += len(part)
            if len(self._have) < self._want:
                return
            head, self._have = self._have, b""
            self._want = self._walk.send(head)

    def _steps(self) -> Generator[int, bytes, None]:
        """Asks for the next n bytes by yielding n, and to pass n bytes over by yielding -n."""
        while True:
            self._between = True
            magic = yield 4
            self._between = False
            if magic[1:] == b"\x2a\x4d\x18" and 0x50 <= magic[0] <= 0x5F:
                length = int.from_bytes((yield 4), "little")
                if length:
                    yield -length
                continue
            if magic != ZSTD:
                raise ArchiveRefused("Something that isn't zstd follows the end of the zstd data.")
            descriptor = (yield 1)[0]
            single = descriptor >> 5 & 1
            rest = (1 - single) + (0, 1, 2, 4)[descriptor & 3] + (single, 2, 4, 8)[descriptor >> 6]
            if rest:
                yield rest
            last = 0
            while not last:
                head = int.from_bytes((yield 3), "little")
                last, kind, length = head & 1, head >> 1 & 3, head >> 3
                length = 1 if kind == 1 else length
                if length:
                    yield -length
            if descriptor & 4:
                yield 4
