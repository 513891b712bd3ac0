"""When which bytes of a log came, from the launcher's index."""

from __future__ import annotations

import random
import struct

import pytest

from httpserver.logs import times
from httpserver.logs.times import IndexTimes
from worker.box import IndexRecord, Stream, pack_index

OUT, ERR = Stream.STDOUT, Stream.STDERR


def index_of(*records: tuple[float, Stream, int, int]) -> bytes:
    """Of (seconds, stream, offset, length)."""
    return pack_index(IndexRecord(int(at * 1e9), offset, length, stream) for at, stream, offset, length in records)


def marks(data: bytes, stream: str, start: int, end: int, piece: int = 1 << 20) -> tuple[list[tuple[int, object]], int]:
    found = IndexTimes(stream, start, end)
    for at in range(0, len(data), piece):
        if not found.take(data[at : at + piece]):
            break
    return list(zip(found.marks.offsets, found.marks.at, strict=True)), found.marks.end


TURNS = index_of((1.5, OUT, 0, 10), (2, ERR, 0, 5), (3, OUT, 10, 10), (1, OUT, 20, 4), (4, ERR, 5, 5))


@pytest.mark.parametrize("piece", [1, 24, 25, 1000])
@pytest.mark.parametrize(
    ("stream", "start", "end", "want"),
    [
        ("stdout", 0, 24, ([(0, 1.5), (10, 3.0), (20, 1.0)], 24)),  # a clock that was put back is shown as it was
        ("stdout", 12, 15, ([(12, 3.0)], 15)),
        ("stdout", 12, 99, ([(12, 3.0), (20, 1.0)], 24)),  # nothing is told of what the index does not name yet
        ("stdout", 50, 99, ([], 50)),
        ("stderr", 4, 10, ([(4, 2.0), (5, 4.0)], 10)),
        ("both", 0, 34, ([(0, 1.5), (10, 2.0), (15, 3.0), (25, 1.0), (29, 4.0)], 34)),
        ("both", 16, 26, ([(16, 3.0), (25, 1.0)], 26)),
    ],
)
def test_bytes_have_the_times_of_their_records(
    stream: str, start: int, end: int, want: tuple[list[tuple[int, float]], int], piece: int
):
    assert marks(TURNS, stream, start, end, piece) == want


def test_bytes_that_no_record_names_have_no_time():
    gap = index_of((1, OUT, 4, 2), (2, OUT, 8, 2))
    assert marks(gap, "stdout", 0, 10) == ([(0, None), (4, 1.0), (6, None), (8, 2.0)], 10)
    assert marks(gap, "both", 5, 10) == ([(5, 1.0), (6, None), (8, 2.0)], 10)


def test_an_answer_has_a_limit_and_says_where_it_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(times, "MOST_MARKS", 3)
    data = index_of(*((at, OUT, 10 * at, 10) for at in range(1, 9)))
    found, end = marks(data, "stdout", 0, 90)
    assert (found, end) == ([(0, None), (10, 1.0), (20, 2.0)], 30)
    found, end = marks(data, "stdout", end, 90)
    assert (found, end) == ([(30, 3.0), (40, 4.0), (50, 5.0)], 60)


def test_an_index_that_a_task_wrote_itself_fails_nothing():
    dice = random.Random(7)
    for _ in range(300):
        data = b"".join(
            struct.pack(
                "<QQII",
                dice.choice([0, 10**18, 2**64 - 1]),
                dice.choice([0, 5, 2**63, 2**64 - 1]),
                dice.choice([0, 9, 2**32 - 1]),
                dice.choice([0, 1, 2, 3, 513]),
            )
            for _ in range(6)
        )
        for stream in ("stdout", "stderr", "both"):
            found, end = marks(data, stream, 3, 100, 24)
            assert 3 <= end <= 100
            offsets = [offset for offset, _ in found]
            assert offsets == sorted(set(offsets))
            assert all(at is None or 0 < float(str(at)) < 253_402_300_800 for _, at in found)
