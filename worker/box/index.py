"""When which bytes of a spool came: `run/index`, and a writer of spools for a runtime without a launcher."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from .files import open_regular
from .layout import Box
from .records import BoxError, IndexRecord, Stream

_INDEX = struct.Struct("<QQII")
INDEX_RECORD_BYTES = _INDEX.size


def pack_index(records: Iterable[IndexRecord]) -> bytes:
    """The bytes of index records, 24 each, little-endian."""
    return b"".join(_INDEX.pack(r.wall_ns, r.offset, r.length, r.stream) for r in records)


def unpack_index(data: bytes) -> Iterator[IndexRecord]:
    """Records of an index, without an unfinished last one. Raises BoxError."""
    whole = len(data) - len(data) % INDEX_RECORD_BYTES
    for wall_ns, offset, length, stream in _INDEX.iter_unpack(data[:whole]):
        try:
            yield IndexRecord(wall_ns, offset, length, Stream(stream))
        except ValueError:
            raise BoxError(f"the index names a stream {stream}") from None


def read_index(box: Box, *, from_record: int = 0) -> list[IndexRecord]:
    """The index from a record number on. Empty: there is none. Raises BoxError."""
    try:
        with os.fdopen(open_regular(box.index), "rb") as file:
            file.seek(from_record * INDEX_RECORD_BYTES)
            return list(unpack_index(file.read()))
    except FileNotFoundError:
        return []


class SpoolWriter:
    """Appends output to the spools and the index as the launcher does, for a runtime without one.

    It continues where an earlier writer stopped. It is not thread-safe. Every call raises OSError.
    """

    def __init__(self, box: Box) -> None:
        self._files: dict[Stream, BinaryIO] = {}
        self._index: BinaryIO = box.index.open("ab", buffering=0)
        for stream in Stream:
            self._files[stream] = box.spool(stream).open("ab", buffering=0)

    def append(self, stream: Stream, data: bytes, *, wall_ns: int) -> None:
        """Append `data` that came at `wall_ns` (nanoseconds since the epoch)."""
        if not data:
            return
        file = self._files[stream]
        offset = file.seek(0, os.SEEK_END)
        file.write(data)
        self._index.write(pack_index([IndexRecord(wall_ns, offset, len(data), stream)]))

    def close(self) -> None:
        """Fsync and close. Safe twice."""
        for file in (*self._files.values(), self._index):
            if not file.closed:
                os.fsync(file.fileno())
                file.close()
