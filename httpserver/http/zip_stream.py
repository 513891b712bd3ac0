"""Writes a ZIP archive piece by piece, without seeking and in flat memory.

Python's own zipfile keeps a record of every entry in memory until the end. Here the central directory waits in a
temporary file once it has grown.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, Any, cast

MAX_NAME_BYTES = 0xFFFF

_LOCAL, _DESCRIPTOR, _CENTRAL = b"PK\3\4", b"PK\7\x08", b"PK\1\2"
_END64, _LOCATOR64, _END = b"PK\6\6", b"PK\6\7", b"PK\5\6"
_SIZES_FOLLOW, _UTF8 = 0x0008, 0x0800
_STORED, _DEFLATED = 0, 8
_VERSION, _VERSION64, _MADE_ON_UNIX = 20, 45, 3 << 8
_MAX32 = 0xFFFFFFFF
# An entry that may pass this gets 64-bit sizes; deflate never makes it so much larger that 4 GiB are passed.
LARGE_BYTES = 0xFF000000
_IN_MEMORY_BYTES = 1 << 20
_SAMPLE_BYTES = 64 * 1024
_PIECE_BYTES = 256 * 1024
_FOLDER, _FILE = 0o040000, 0o100000


class ZipWriter:
    """Each method answers the bytes to be sent next. An entry is begun, written and ended before the next one."""

    def __init__(self) -> None:
        self._directory = cast("IO[bytes]", SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES))  # noqa: SIM115
        self._entries = 0
        self._offset = 0  # of what comes next
        self._current: _Entry | None = None

    def folder(self, name: str, modified_at: float, mode: int = 0o755) -> bytes:
        """An entry for a folder, so that an empty one is kept. ``name`` as in :meth:`begin`, without the last slash."""
        data = self._begin(f"{name}/", 0, modified_at, _FOLDER | mode, _STORED)
        return data + self.end()

    def begin(self, name: str, size: int, modified_at: float, mode: int = 0o644) -> bytes:
        """Starts a file.

        Args:
            name: with slashes between components; surrogates stand for bytes that are no UTF-8, and stay those bytes.
            size: the most that will be written; more than that must not come.
            modified_at: epoch seconds.
            mode: rights.
        """
        return self._begin(name, size, modified_at, _FILE | mode, _DEFLATED)

    def write(self, data: bytes) -> bytes:
        """The next bytes of the file. Compresses, so it belongs in a thread."""
        entry = self._open()
        entry.crc = zlib.crc32(data, entry.crc)
        entry.size += len(data)
        if entry.deflate is None:
            # What is packed already stays as it is, in deflate's own stored blocks: a quarter of the time.
            packed = len(zlib.compress(data[:_SAMPLE_BYTES], 1))
            level = 1 if packed < 0.95 * min(len(data), _SAMPLE_BYTES) else 0
            entry.deflate = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
        return self._sent(entry, entry.deflate.compress(data))

    def end(self) -> bytes:
        """Ends the entry, with what came of it."""
        entry = self._open()
        self._current = None
        data = b""
        if entry.method == _DEFLATED:
            deflate = entry.deflate or zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
            data = self._sent(entry, deflate.flush())
            sizes = "<4sLQQ" if entry.large else "<4sLLL"
            data += self._moved(struct.pack(sizes, _DESCRIPTOR, entry.crc, entry.packed, entry.size))
        self._directory.write(_central(entry))
        self._entries += 1
        return data

    def finish(self) -> Iterator[bytes]:
        """The end of the archive."""
        start, size = self._offset, self._directory.tell()
        self._directory.seek(0)
        while data := self._directory.read(_PIECE_BYTES):
            yield data
        many = self._entries >= 0xFFFF or size >= _MAX32 or start >= _MAX32
        if many:
            where = start + size
            made = (_VERSION64 | _MADE_ON_UNIX, _VERSION64)
            counts = (self._entries, self._entries, size, start)
            yield struct.pack("<4sQHHLLQQQQ", _END64, 44, *made, 0, 0, *counts)
            yield struct.pack("<4sLQL", _LOCATOR64, 0, where, 1)
        count = min(self._entries, 0xFFFF)
        yield struct.pack("<4sHHHHLLH", _END, 0, 0, count, count, min(size, _MAX32), min(start, _MAX32), 0)

    def close(self) -> None:
        """Lets go of the temporary file."""
        self._directory.close()

    def _open(self) -> _Entry:
        if self._current is None:
            raise ValueError("no entry of the archive is open")
        return self._current

    def _begin(self, name: str, size: int, modified_at: float, mode: int, method: int) -> bytes:
        if self._current is not None:
            raise ValueError("an entry of the archive is open")
        raw = os.fsencode(name)
        if len(raw) > MAX_NAME_BYTES:
            raise ValueError("the name is too long for an archive")
        flags = (_SIZES_FOLLOW if method == _DEFLATED else 0) | (_UTF8 if _is_utf8(raw) else 0)
        entry = self._current = _Entry(
            raw, self._offset, *_dos_time(modified_at), mode, method, large=size >= LARGE_BYTES, flags=flags
        )
        # With 64-bit sizes the extra field says that they follow as such.
        extra = struct.pack("<HHQQ", 1, 16, 0, 0) if entry.large else b""
        sizes = _MAX32 if entry.large else 0
        head = (entry.version, entry.flags, method, entry.time, entry.day, 0, sizes, sizes, len(raw), len(extra))
        return self._moved(struct.pack("<4sHHHHHLLLHH", _LOCAL, *head) + raw + extra)

    def _sent(self, entry: _Entry, data: bytes) -> bytes:
        entry.packed += len(data)
        return self._moved(data)

    def _moved(self, data: bytes) -> bytes:
        self._offset += len(data)
        return data


@dataclass(slots=True)
class _Entry:
    """One entry under way."""

    name: bytes
    offset: int
    day: int
    time: int
    mode: int
    method: int
    large: bool
    flags: int
    crc: int = 0
    size: int = 0
    packed: int = 0
    deflate: Any = None

    @property
    def version(self) -> int:
        return _VERSION64 if self.large else _VERSION


def _central(entry: _Entry) -> bytes:
    # Only what does not fit is given with 64 bits, in this order.
    wide = [value for value in (entry.size, entry.packed, entry.offset) if value >= _MAX32]
    extra = struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
    version = _VERSION64 if wide else entry.version
    head = (version | _MADE_ON_UNIX, version, entry.flags, entry.method, entry.time, entry.day, entry.crc)
    sizes = (min(entry.packed, _MAX32), min(entry.size, _MAX32), len(entry.name), len(extra), 0, 0, 0)
    folder = 0x10 if entry.mode & _FOLDER else 0
    where = ((entry.mode << 16) | folder, min(entry.offset, _MAX32))
    return struct.pack("<4sHHHHHHLLLHHHHHLL", _CENTRAL, *head, *sizes, *where) + entry.name + extra


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _dos_time(at: float) -> tuple[int, int]:
    """Local time, as archives have it; from 1980 to 2107."""
    try:
        when = time.localtime(at)
    except (OverflowError, ValueError, OSError):
        when = time.localtime(0)
    if not 1980 <= when.tm_year <= 2107:
        return (1 << 5) | 1, 0
    day = (when.tm_year - 1980) << 9 | when.tm_mon << 5 | when.tm_mday
    return day, when.tm_hour << 11 | when.tm_min << 5 | min(when.tm_sec, 59) // 2
