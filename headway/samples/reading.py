"""Reading files of samples that may grow, be cut anywhere, or have broken bytes: what is readable is given.

Records have one size and stand in order of time, so a part is found by halving. A record whose checksum doesn't fit is
passed over up to the next good one.
"""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from .layout import MARK, MINUTE, OURS, SAMPLE, RecordColumns, body_of, is_good, read_header, sample_of, size_of
from .model import GpuIdentity, Header, Sample

_HEADER_READ: Final = 64 * 1024
_BLOCK: Final = 256 * 1024
# Without a readable header: records of more GPUs than that are not looked for.
_MOST_GPUS: Final = 1024
_LATEST: Final = 1e11  # a moment that a calendar can show
_HALVED_ENOUGH: Final = 64  # records, which are then read in a row


class ByteSource(Protocol):
    """Bytes that stand somewhere."""

    def size(self) -> int: ...

    def read(self, offset: int, length: int) -> bytes:
        """Fewer at the end."""
        ...


class InMemory:
    """Bytes that are here."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def read(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


class Joined:
    """What lies on the shared folder up to ``at``, and behind it what its Worker sent."""

    def __init__(self, front: ByteSource | None, at: int, tail: bytes) -> None:
        self._front = front
        self._at = at
        self._tail = tail

    def size(self) -> int:
        return self._at + len(self._tail)

    def read(self, offset: int, length: int) -> bytes:
        data = b""
        if self._front is not None and offset < self._at:
            data = self._front.read(offset, min(length, self._at - offset))
            if len(data) < min(length, self._at - offset):
                return data
        begin = max(0, offset - self._at)
        return data + self._tail[begin : begin + length - len(data)]


class FileSource:
    """An open file, by its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, offset)


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it was unpacked: mark, kind, GPUs, moment, values."""

    offset: int
    values: tuple[Any, ...]

    @property
    def at(self) -> float:
        return float(self.values[3])


class SampleFile:
    """One of the two files. ``lost`` counts the records that could not be read so far."""

    def __init__(self, source: ByteSource, kind: bytes = SAMPLE) -> None:
        self._source = source
        self._kind = kind
        self.lost = 0
        self.size = source.size()
        front = source.read(0, _HEADER_READ)
        found = read_header(front)
        if found is None:
            self.header: Header | None = None
            self.columns: RecordColumns = OURS
            gpus, self.begin = _by_its_records(front, kind)
        else:
            self.header, self.columns, self.begin, certain = found
            gpus = len(self.header.gpus)
            if not certain:
                self.begin = _first_good(front, self.begin // 2, kind, gpus, self.columns) or self.begin
        self.gpus = gpus
        self._body = body_of(kind, gpus, self.columns)
        self.record_size = size_of(kind, gpus, self.columns)
        self._front = MARK + kind + gpus.to_bytes(2, "little")

    def read_from(self, source: ByteSource) -> None:
        """Records of another place without a header of its own."""
        self._source, self.size, self.begin = source, source.size(), 0

    def known(self) -> Header:
        """The header. One that is broken is replaced by what the records tell: their number of GPUs and their pace."""
        if self.header is not None:
            return self.header
        first = [record.at for record in _few(self._from(self.begin, counted=False), 3)]
        pace = min((b - a for a, b in itertools.pairwise(first) if b > a), default=1.0)
        return Header(
            gpus=tuple(GpuIdentity("", "", 0) for _ in range(self.gpus)),
            every_s=60.0 if self._kind == MINUTE else pace,
            began_at=first[0] if first else 0.0,
        )

    def records(self, since: float | None = None, until: float | None = None) -> Iterator[Record]:
        """Good records whose moment lies between both; both ends belong to it."""
        start = self.begin if since is None else self._offset_of(since)
        for record in self._from(start):
            if until is not None and record.at > until:
                return
            if since is None or record.at >= since:
                yield record

    def samples(self, since: float | None = None, until: float | None = None) -> Iterator[Sample]:
        """What ``metrics`` has."""
        for record in self.records(since, until):
            yield sample_of(record.values, self.columns)

    def count(self, since: float | None, until: float | None) -> int:
        """About how many records lie between both."""
        start = self.begin if since is None else self._offset_of(since)
        end = self.size if until is None else self._offset_of(until)
        return max(0, end - start) // self.record_size

    def bounds(self) -> tuple[float, float] | None:
        """The moments of the first and the last good record; None: there is none."""
        first = next(self._from(self.begin, counted=False), None)
        if first is None:
            return None
        last, back = first, 16 * self.record_size
        while True:
            start = max(self.begin, self._aligned(self.size - back))
            for record in self._from(start, counted=False):
                last = record
            if last is not first or start <= self.begin:
                return first.at, last.at
            back *= 8

    def _aligned(self, offset: int) -> int:
        return self.begin + max(0, offset - self.begin) // self.record_size * self.record_size

    def _offset_of(self, moment: float) -> int:
        """A place before the first record of that moment or later, and not far before."""
        low, high = self.begin, self.size
        while high - low > _HALVED_ENOUGH * self.record_size:
            middle = self._aligned((low + high) // 2)
            found = next(self._from(middle, counted=False), None)
            if found is None or found.at >= moment:
                high = middle
            else:
                low = max(found.offset, low + self.record_size)
        return low

    def _from(self, offset: int, *, counted: bool = True) -> Iterator[Record]:
        """Good records from there on. Blocks are read as they are needed: one record's worth at first."""
        size, block = self.record_size, 4 * self.record_size
        at, data, base = offset, b"", offset
        broken = 0  # bytes since the last good record
        while True:
            if at + size > base + len(data):
                data, base = self._source.read(at, max(size, block)), at
                block = min(_BLOCK, block * 4)
                if len(data) < size:
                    broken += len(data)
                    break
            place = at - base
            if data.startswith(self._front, place) and is_good(data[place : place + size]):
                record = Record(at, self._body.unpack_from(data, place))
                if 0 <= record.at <= _LATEST:
                    if broken and counted:
                        self.lost += -(-broken // size)
                    broken = 0
                    yield record
                    at += size
                    continue
            following = data.find(self._front, place + 1)
            step = (following if following >= 0 else max(place + 1, len(data) - len(self._front) + 1)) - place
            broken += step
            at += step
        if broken and counted:
            self.lost += -(-broken // size)


class Feed:
    """Reads records as their bytes come."""

    def __init__(self, file: SampleFile) -> None:
        self._file = file
        self._rest = b""

    def add(self, data: bytes) -> list[Sample]:
        """The samples that are whole now."""
        self._rest += data
        part = copy.copy(self._file)
        part.read_from(InMemory(self._rest))
        samples, used = [], 0
        for record in part.records():
            samples.append(sample_of(record.values, part.columns))
            used = record.offset + part.record_size
        # What is broken and older than a record is not looked at again.
        self._rest = self._rest[max(used, len(self._rest) - part.record_size + 1) :]
        return samples


def read_all(data: bytes) -> tuple[Header, list[Sample], int]:
    """Header, samples and the number of records that were lost."""
    file = SampleFile(InMemory(data))
    samples = list(file.samples())
    return file.known(), samples, file.lost


def _by_its_records(front: bytes, kind: bytes) -> tuple[int, int]:
    """The number of GPUs and the place of the first good record in bytes without a header; zeros: there is none."""
    at = front.find(MARK + kind)
    while at >= 0:
        gpus = int.from_bytes(front[at + 2 : at + 4], "little")
        if gpus <= _MOST_GPUS and _good_at(front, at, size_of(kind, gpus)):
            return gpus, at
        at = front.find(MARK + kind, at + 1)
    return 0, 0


def _first_good(front: bytes, start: int, kind: bytes, gpus: int, columns: RecordColumns) -> int | None:
    size = size_of(kind, gpus, columns)
    at = front.find(MARK + kind, start)
    while at >= 0 and not _good_at(front, at, size):
        at = front.find(MARK + kind, at + 1)
    return at if at >= 0 else None


def _good_at(data: bytes, at: int, size: int) -> bool:
    return at + size <= len(data) and is_good(data[at : at + size])


def _few(records: Iterator[Record], count: int) -> Iterator[Record]:
    for _, record in zip(range(count), records, strict=False):
        yield record
