"""Two streams as one log: the same bytes from every start, however the index comes in pieces."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable

import pytest

from httpserver.logs import merged
from worker.box import IndexRecord, Stream, pack_index


async def parts_of(data: bytes, size: int) -> AsyncGenerator[bytes, None]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


def cursor(data: bytes, size: int) -> merged._Cursor:
    def at(offset: int) -> AsyncGenerator[bytes, None]:
        return parts_of(data[offset:], size)

    opened: Callable[[int], AsyncGenerator[bytes, None]] = at
    return merged._Cursor(opened)


@pytest.mark.parametrize("batch", [1, 7, 1 << 20])
async def test_every_start_gives_the_rest_of_the_whole(batch: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(merged, "_BATCH_BYTES", batch)
    dice = random.Random(batch)
    for _ in range(40):
        streams, records, whole = [b"", b""], [], b""
        for n in range(dice.randrange(12)):
            which, length = dice.randrange(2), dice.randrange(1, 9)
            data = bytes(dice.randrange(256) for _ in range(length))
            records.append(IndexRecord(n, len(streams[which]), length, Stream(which + 1)))
            streams[which] += data
            whole += data
        for which in (0, 1):  # what no record names
            streams[which] += b"rest" * which
        whole += b"rest"
        sizes = [len(one) for one in streams]
        for start in range(len(whole) + 1):
            for size in (None, dice.randrange(start, len(whole) + 1), len(whole)):
                index = parts_of(pack_index(records), dice.choice([24, 31, 100, 1000]))
                cursors = [cursor(one, dice.choice([1, 5, 1000])) for one in streams]
                got = [part async for part in merged._joined(index, cursors, sizes, start, size)]
                assert b"".join(got) == whole[start:size], (start, size)


async def test_lines_in_turns_are_not_read_one_by_one():
    """Used to: six seconds for the end of a log of a gigabyte whose streams took turns at each line."""
    records = [IndexRecord(n, 100 * (n // 2), 100, Stream(n % 2 + 1)) for n in range(20_000)]
    index, takes = pack_index(records), 0

    class Counting(merged._Cursor):
        def take(self, start: int, length: int | None):
            nonlocal takes
            takes += 1
            return super().take(start, length)

    cursors = [Counting(lambda offset: parts_of(b"x" * (1_000_000 - offset), 1 << 18)) for _ in range(2)]
    joined = merged._joined(parts_of(index, 1 << 18), cursors, [1_000_000, 1_000_000], 0, 2_000_000)
    assert sum([len(part) async for part in joined]) == 2_000_000
    assert takes < 20
