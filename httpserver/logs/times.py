"""When the bytes of a log came, by the launcher's index: for lines in sight, not for the whole log."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.errors import InvalidInput
from headway.ids import TaskId

from .merged import BOTH, INDEX, STREAMS, last_ends
from .snapshot import LocatedAttempt

if TYPE_CHECKING:
    from .reader import AttemptLogReader

MOST_MARKS = 10_000
MOST_BYTES = 64 << 20
_RECORD = struct.Struct("<QQII")
# The year 9999: later ones are no dates in most languages, and only a task that wrote its own index has them.
_LATEST_NS = 253_402_300_800 * 10**9


@dataclass(slots=True)
class TimeMarks:
    """The bytes from ``offsets[i]`` up to the next offset came at ``at[i]``; None: not known. Nothing is told of bytes
    from ``end`` on."""

    end: int
    offsets: list[int] = field(default_factory=list)
    at: list[float | None] = field(default_factory=list)

    def add(self, offset: int, at: float | None) -> bool:
        """False: there is no room."""
        if self.at and self.at[-1] == at:
            return True
        if len(self.at) >= MOST_MARKS:
            return False
        self.offsets.append(offset)
        self.at.append(at)
        return True


class IndexTimes:
    """Finds the times of bytes from ``start`` to ``end`` of one stream, or of the merged log, in index records."""

    def __init__(self, stream: str, start: int, end: int) -> None:
        self._wanted = (0, 1) if stream == BOTH else (STREAMS.index(stream),)
        self._start = start
        self._end = end
        self._upto = [0, 0]
        self._rest = b""
        self.marks = TimeMarks(start)

    @property
    def named(self) -> int:
        """How far the records so far tell of the log."""
        return sum(self._upto[which] for which in self._wanted)

    def take(self, data: bytes) -> bool:
        """False: nothing more is needed."""
        data = self._rest + data
        whole = len(data) - len(data) % _RECORD.size
        self._rest = data[whole:]
        if self._all_before(data[:whole]):
            return True
        for when, begin, length, which in self._turns(data[:whole]):
            known, self.marks.end = self.marks.end, min(self._end, max(begin + length, self.marks.end))
            if begin + length > self._start and not self.marks.add(max(begin, self._start), when):
                self.marks.end = known
                return False
            self._upto[which] += length
            if self.named >= self._end:
                return False
        return True

    def _turns(self, data: bytes) -> Iterator[tuple[float | None, int, int, int]]:
        """Time, first byte, length and stream of each turn; bytes that no record names are turns without a time."""
        for wall_ns, offset, length, number in _RECORD.iter_unpack(data):
            which = number - 1
            if which not in self._wanted:
                continue
            upto, end = self._upto[which], offset + length
            if offset > upto:
                yield None, self.named, offset - upto, which
            if end > (upto := self._upto[which]):
                # To the millisecond: a record covers more than one.
                at = round(wall_ns / 1e9, 3) if 0 < wall_ns < _LATEST_NS else None
                yield at, self.named, end - upto, which

    def _all_before(self, data: bytes) -> bool:
        """Goes past records that are all of bytes before the start, without a look at each."""
        upto = last_ends(data, self._upto)
        if sum(upto[which] for which in self._wanted) > self._start:
            return False
        self._upto = upto
        return True


async def times_of(
    reader: AttemptLogReader, task: TaskId, found: LocatedAttempt, stream: str, start: int, length: int
) -> TimeMarks:
    """When the bytes from ``start`` on came. Of a log that may grow it tells as far as the index does.

    Raises:
        MountUnavailable: neither worker nor mount can give it.
    """
    end = start + length
    if stream not in (BOTH, *STREAMS):
        return TimeMarks(end, [start], [None])
    times = IndexTimes(stream, start, end)
    if (records := await _index(reader, task, found)) is not None:
        async with aclosing(records) as chunks:
            async for data in chunks:
                if not times.take(data):
                    return times.marks
    if found.ended:
        # What follows was never named: Headway's own words at the end, or all, where there is no index.
        begin = max(start, times.named)
        if begin < end and times.marks.add(begin, None):
            times.marks.end = end
    return times.marks


async def _index(reader: AttemptLogReader, task: TaskId, found: LocatedAttempt) -> AsyncGenerator[bytes, None] | None:
    try:
        return (await reader.open(task, found, INDEX)).chunks
    except InvalidInput:
        return None  # a Worker of before, which knows no such log
