"""Several followed logs in one answer."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from headway.errors import NotFound
from httpserver.logs.feed import PIECE_BYTES, OpenedLog, feed
from tests.support.clock import FakeClock


class Source:
    """A log of these chunks; without any, of chunks without end."""

    def __init__(self, *chunks: bytes, offset: int = 0, hold: asyncio.Event | None = None) -> None:
        self.chunks = chunks
        self.offset = offset
        self.hold = hold
        self.read = 0
        self.closed = False

    async def _read(self) -> AsyncGenerator[bytes, None]:
        try:
            if self.hold is not None:
                await self.hold.wait()
            for chunk in self.chunks:
                yield chunk
            while not self.chunks:
                self.read += 1
                yield b"x" * (3 * PIECE_BYTES)
        finally:
            self.closed = True

    async def open(self) -> OpenedLog:
        return OpenedLog(1, self.offset, False, self._read())


async def missing() -> OpenedLog:
    raise NotFound("There is no such attempt.")


async def broken() -> OpenedLog:
    raise ValueError("never seen before")


def frames(data: bytes) -> list[tuple[dict[str, Any], bytes]]:
    found = []
    while data:
        line, _, data = data.partition(b"\n")
        head = json.loads(line)
        size = head.get("size", 0)
        found.append((head, data[:size]))
        data = data[size:]
    return found


async def test_each_log_ends_or_is_refused_by_itself(clock: FakeClock) -> None:
    openers: list[Callable[[], Awaitable[OpenedLog]]] = [
        Source(b"ab", b"c", offset=7).open,
        missing,
        broken,
        Source(b"z\n" * PIECE_BYTES).open,
    ]
    data = b"".join([part async for part in feed(openers, clock)])
    of = {number: [(h, d) for h, d in frames(data) if h.get("log") == number] for number in range(4)}
    assert [(h["kind"], h.get("offset"), d) for h, d in of[0]] == [
        ("open", 7, b""),
        ("bytes", 7, b"ab"),
        ("bytes", 9, b"c"),
        ("end", None, b""),
    ]
    assert [(h["kind"], h["status"]) for n in (1, 2) for h, _ in of[n]] == [("problem", 404), ("problem", 500)]
    assert "never seen" not in of[2][0][0]["detail"]
    assert [h.get("offset") for h, _ in of[3]] == [0, 0, PIECE_BYTES, None]
    assert b"".join(d for _, d in of[3]) == b"z\n" * PIECE_BYTES


async def test_a_log_without_end_holds_up_no_other_and_a_slow_reader_fills_no_memory(clock: FakeClock) -> None:
    endless = [Source() for _ in range(4)]
    word = asyncio.Event()
    quiet = Source(b"at last", hold=word)
    seen: Counter[int] = Counter()
    async with aclosing(feed([*(one.open for one in endless), quiet.open], clock)) as parts:
        async for part in parts:
            for head, _ in frames(part):
                seen[head.get("log", 0)] += head["kind"] == "bytes"
            if sum(seen.values()) >= 100:
                break
        # Each had as many turns as the others, to one piece.
        assert max(seen[n] for n in range(4)) - min(seen[n] for n in range(4)) <= 1
        word.set()
        for _ in range(50):
            await asyncio.sleep(0)  # nobody reads
        assert all(3 * (one.read - 1) * PIECE_BYTES <= (seen[n] + 2) * PIECE_BYTES for n, one in enumerate(endless))
        between = 0
        async for part in parts:
            if any(data == b"at last" for _, data in frames(part)):
                break
            between += 1
        assert between <= len(endless) + 1
    # Who goes leaves nothing behind.
    assert all(one.closed for one in (*endless, quiet))


async def test_a_quiet_one_shows_that_it_lives_until_its_session_has_ended(clock: FakeClock) -> None:
    allowed = True
    quiet = Source(b"", hold=asyncio.Event())
    got: list[str] = []

    async def read() -> None:
        async for part in feed([quiet.open], clock, lambda: allowed):
            got.extend(head["kind"] for head, _ in frames(part))

    reading = asyncio.create_task(read())
    for _ in range(2):
        await asyncio.sleep(0.01)
        await clock.advance(15.5)
    await asyncio.sleep(0.01)
    assert got == ["alive", "open", "alive", "alive"]
    allowed = False
    await clock.advance(15.5)
    await asyncio.wait_for(reading, 5)
    assert (quiet.closed, got) == (True, ["alive", "open", "alive", "alive"])
    assert [part async for part in feed([quiet.open], clock, lambda: False)] == []


async def test_a_log_that_stands_twice_in_the_list_is_read_once(clock: FakeClock) -> None:
    twice = Source(b"ab")
    opened = 0

    async def opener() -> OpenedLog:
        nonlocal opened
        opened += 1
        return await twice.open()

    data = b"".join([part async for part in feed([opener, Source(b"c").open], clock, numbers=[(0, 2), (1,)])])
    of = {number: [(h["kind"], d) for h, d in frames(data) if h.get("log") == number] for number in range(3)}
    assert opened == 1
    assert of[0] == of[2] == [("open", b""), ("bytes", b"ab"), ("end", b"")]
    assert of[1] == [("open", b""), ("bytes", b"c"), ("end", b"")]
