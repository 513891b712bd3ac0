"""Both streams of an attempt as one log, in the order in which their bytes came.

The launcher's index says which bytes came when. The merged log is their pieces in its order, then what the index does
not name. That is all of it for an attempt of a runtime without an index. It only grows at its end, so ranges, tails
and followers work as with any log.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from headway.errors import InvalidInput
from headway.ids import TaskId

from .snapshot import LocatedAttempt, LogSnapshot

if TYPE_CHECKING:
    from .reader import AttemptLogReader

BOTH = "both"
INDEX = "index"
STREAMS = ("stdout", "stderr")  # as the index numbers them, from 1
_RECORD = struct.Struct("<QQII")  # when, offset, length, stream; see worker/box/index.py

# Where in a record the number of its stream begins.
_NUMBER_AT = 20
# Beyond every log.
_NO_START = 1 << 66
# So much is put in order at once, and held while the reader is slow. Two streams in turns of a line each would else
# cost a read for each line.
_BATCH_BYTES = 256 << 10

Piece = tuple[int, int, int]  # stream from 0, first byte, length


def last_ends(data: bytes, upto: Sequence[int]) -> list[int]:
    """How far each stream is named after these whole records, by the last one of each, without a look at the others."""
    numbers = data[_NUMBER_AT :: _RECORD.size]
    ends = list(upto)
    for which in range(len(STREAMS)):
        last = numbers.rfind(which + 1)
        if last >= 0:
            _, offset, length, number = _RECORD.unpack_from(data, last * _RECORD.size)
            if number == which + 1:
                ends[which] = max(ends[which], offset + length)
    return ends


class IndexTurns:
    """Makes pieces of index records as they come, without gap or overlap.

    No piece goes beyond ``most``: a task may write what it likes into its own index.
    """

    def __init__(self, most: Sequence[int] | None = None) -> None:
        self.upto = [0, 0]  # how far each stream was named
        self._most = most
        self._rest = b""

    def skips(self, data: bytes, start: int) -> bool:
        """Whether all that these records name lies before ``start`` of the merged log; it is gone past then."""
        data = self._rest + data
        whole = len(data) - len(data) % _RECORD.size
        ends = last_ends(data[:whole], self.upto)
        if self._most is not None:
            ends = [max(have, min(end, most)) for have, end, most in zip(self.upto, ends, self._most, strict=True)]
        if sum(ends) > start:
            return False
        self.upto, self._rest = ends, data[whole:]
        return True

    def pieces(self, data: bytes) -> Iterator[Piece]:
        """The pieces of these records; neighbours of one stream are one."""
        data = self._rest + data
        whole = len(data) - len(data) % _RECORD.size
        self._rest = data[whole:]
        stream, begin = -1, 0
        for _, offset, length, number in _RECORD.iter_unpack(data[:whole]):
            which, end = number - 1, offset + length
            if which not in (0, 1):
                continue
            if self._most is not None:
                end = min(end, self._most[which])
            if end <= self.upto[which]:
                continue
            if which != stream:
                if stream >= 0:
                    yield stream, begin, self.upto[stream] - begin
                stream, begin = which, self.upto[which]
            self.upto[which] = end
        if stream >= 0:
            yield stream, begin, self.upto[stream] - begin


class _Cursor:
    """One stream, read forwards."""

    def __init__(self, at: Callable[[int], AsyncGenerator[bytes, None]]) -> None:
        self._at = at
        self._chunks: AsyncGenerator[bytes, None] | None = None
        self._held = b""

    async def take(self, start: int, length: int | None) -> AsyncIterator[bytes]:
        """So many bytes from ``start`` on, where the last call ended; None: all there will be."""
        if self._chunks is None:
            self._chunks = self._at(start)
        while length is None or length > 0:
            data = self._held or await anext(self._chunks, b"")
            if not data:
                return
            part = data if length is None else data[:length]
            self._held = data[len(part) :]
            if length is not None:
                length -= len(part)
            yield part

    async def close(self) -> None:
        if self._chunks is not None:
            await self._chunks.aclose()


async def opened(
    reader: AttemptLogReader, task: TaskId, found: LocatedAttempt, *, start: int, tail: int | None
) -> LogSnapshot:
    """What there is now from ``start``, or the last ``tail`` bytes.

    Raises:
        MountUnavailable: neither worker nor mount can give it.
    """
    sizes = await _sizes(reader, task, found)
    size = sum(sizes)
    if not found.ended:
        # The end of a log that grows: what is not named yet may still take turns.
        turns = IndexTurns(sizes)
        async with aclosing(_index(reader, task, found)) as index:
            async for data in index:
                turns.skips(data, _NO_START)
            size = sum(turns.upto)
    begin = max(0, size - tail) if tail is not None else start

    def at(stream: str) -> Callable[[int], AsyncGenerator[bytes, None]]:
        return lambda offset: _from(reader, task, found, stream, offset)

    cursors = [_Cursor(at(stream)) for stream in STREAMS]
    chunks = _joined(_index(reader, task, found), cursors, sizes, begin, size)
    return LogSnapshot(begin, size, found.ended, chunks)


async def follow(
    reader: AttemptLogReader, task: TaskId, found: LocatedAttempt, start: int, piece: int
) -> AsyncGenerator[bytes, None]:
    """From ``start`` until the attempt has ended and the last byte of both streams was given."""

    def at(stream: str) -> Callable[[int], AsyncGenerator[bytes, None]]:
        return lambda offset: reader.follow(task, found, stream, offset, piece=piece)

    index = _index(reader, task, found) if found.ended else reader.follow(task, found, INDEX, 0)
    sizes = await _sizes(reader, task, found) if found.ended else [0, 0]
    joined = _joined(index, [_Cursor(at(stream)) for stream in STREAMS], sizes, start, None)
    async with aclosing(joined) as chunks:
        async for data in chunks:
            yield data


async def _sizes(reader: AttemptLogReader, task: TaskId, found: LocatedAttempt) -> list[int]:
    sizes = []
    for stream in STREAMS:
        snapshot = await reader.open(task, found, stream)
        await snapshot.chunks.aclose()
        sizes.append(snapshot.size)
    return sizes


async def _index(reader: AttemptLogReader, task: TaskId, found: LocatedAttempt) -> AsyncGenerator[bytes, None]:
    if found.ended and not (found.bytes_of("stdout") and found.bytes_of("stderr")) and found.view is not None:
        return  # nothing took turns
    try:
        snapshot = await reader.open(task, found, INDEX)
    except InvalidInput:
        return  # a Worker of before, which knows no such log
    async with aclosing(snapshot.chunks) as chunks:
        async for data in chunks:
            yield data


async def _from(
    reader: AttemptLogReader, task: TaskId, found: LocatedAttempt, stream: str, offset: int
) -> AsyncGenerator[bytes, None]:
    snapshot = await reader.open(task, found, stream, start=offset)
    async with aclosing(snapshot.chunks) as chunks:
        async for data in chunks:
            yield data


async def _joined(
    index: AsyncGenerator[bytes, None], cursors: list[_Cursor], sizes: list[int], start: int, size: int | None
) -> AsyncGenerator[bytes, None]:
    """The merged log from ``start`` to ``size``, or to its end; ``sizes``: what each stream has at least."""
    turns, at = IndexTurns(None if size is None else sizes), 0
    given, gathered = [0, 0], 0
    try:
        async with aclosing(index) as records:
            async for data in records:
                if turns.skips(data, start):
                    at, given = sum(turns.upto), list(turns.upto)
                    continue
                batch: list[Piece] = []
                for stream, first, length in turns.pieces(data):
                    skip = min(length, max(0, start - at))
                    wanted = length - skip if size is None else min(length - skip, size - at - skip)
                    at += length
                    given[stream] = first + length
                    if wanted <= 0:
                        continue
                    if batch and wanted > _BATCH_BYTES:
                        async for part in _ordered(batch, cursors):
                            yield part
                        batch = []
                    batch.append((stream, first + skip, wanted))
                    gathered += wanted
                    whole = size is not None and at >= size
                    if gathered >= _BATCH_BYTES or whole:
                        async for part in _ordered(batch, cursors):
                            yield part
                        batch, gathered = [], 0
                    if whole:
                        return
                async for part in _ordered(batch, cursors):
                    yield part
                gathered = 0
        for stream, cursor in enumerate(cursors):
            over = max(0, min(start - at, sizes[stream] - given[stream]))
            at, given[stream] = at + over, given[stream] + over
            # What is skipped behind that is read: how much there is shows with its end.
            async for part in cursor.take(given[stream], None):
                skip = min(len(part), max(0, start - at))
                end = len(part) if size is None else max(0, min(len(part), size - at))
                at += len(part)
                if part[skip:end]:
                    yield part[skip:end]
                if size is not None and at >= size:
                    return
    finally:
        for cursor in cursors:
            await cursor.close()


async def _ordered(batch: list[Piece], cursors: list[_Cursor]) -> AsyncIterator[bytes]:
    """The bytes of these pieces. One alone comes as it is read; several are read at once, stream by stream."""
    if len(batch) == 1:
        for stream, first, length in batch:
            async for part in cursors[stream].take(first, length):
                yield part
        return
    read = []
    for which, cursor in enumerate(cursors):
        of_stream = [(first, length) for stream, first, length in batch if stream == which]
        total = sum(length for _, length in of_stream)
        read.append(b"".join([part async for part in cursor.take(of_stream[0][0], total)]) if of_stream else b"")
    out, at = [], [0] * len(cursors)
    for stream, _, length in batch:
        out.append(read[stream][at[stream] : at[stream] + length])
        at[stream] += length
    data = b"".join(out)
    # They would lie beside it for as long as a slow reader takes.
    read.clear()
    out.clear()
    if data:
        yield data
