"""Lines of a log by number and by byte, found by a read from its start in flat memory."""

from __future__ import annotations

from collections.abc import AsyncIterator


async def begin_of(chunks: AsyncIterator[bytes], line: int) -> tuple[int, int]:
    """The number and the first byte of a line, from 1; of the last one, if there are fewer."""
    seen, begin, at = 1, 0, 0
    async for data in chunks:
        if seen >= line:
            break
        count = data.count(b"\n")
        if seen + count < line:
            if count:
                begin = at + data.rindex(b"\n") + 1
            seen += count
        else:
            place = -1
            for _ in range(line - seen):
                place = data.index(b"\n", place + 1)
            seen, begin = line, at + place + 1
        at += len(data)
    return seen, begin


async def line_at(chunks: AsyncIterator[bytes], offset: int) -> tuple[int, int]:
    """The number and the first byte of the line that has this byte."""
    seen, begin, at = 1, 0, 0
    async for data in chunks:
        part = data[: max(0, offset - at)]
        if count := part.count(b"\n"):
            seen += count
            begin = at + part.rindex(b"\n") + 1
        at += len(data)
        if at >= offset:
            break
    return seen, begin
