"""Several followed logs as one answer, so that a browser with many of them open needs one connection.

The answer is a row of frames. A frame is a line of JSON. Behind one of the kind ``bytes`` stand as many bytes of a
log as it says. Whatever is ready goes out in turn, one piece a log. So a log that writes without end holds up no
other, and a slow reader makes the server hold one chunk a log.

A log that stands in the list more than once, from the same byte on, is read once.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from headway.clock import Clock
from headway.errors import HeadwayError
from headway.logs import get_logger
from headway.waiting import wait

log = get_logger(__name__)

PIECE_BYTES = 64 * 1024
KEEP_ALIVE_S = 15.0
INSIDE = "Something inside Headway failed; its log has more."


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """A log that was found; ``chunks`` are its bytes from ``offset`` on, until it has ended."""

    number: int
    offset: int
    ended: bool
    chunks: AsyncGenerator[bytes, None]


Opener = Callable[[], Awaitable[OpenedLog]]


@dataclass(slots=True, eq=False)
class _Lane:
    """What one log has ready: one frame."""

    frame: bytes = b""
    taken: asyncio.Event = field(default_factory=asyncio.Event)


class _Turns:
    def __init__(self) -> None:
        self._ready: deque[_Lane] = deque()
        self._news = asyncio.Event()

    async def give(self, lane: _Lane, frame: bytes) -> None:
        """Returns once it was taken: nothing more of this log is read before."""
        lane.frame = frame
        lane.taken.clear()
        self._ready.append(lane)
        self._news.set()
        await lane.taken.wait()

    def wake(self, _: object) -> None:
        """A lane has ended."""
        self._news.set()

    async def take(self, seconds: float, clock: Clock) -> bytes:
        """What is ready, in turn, about a piece of it; nothing if nothing comes for so long, or a lane has ended."""
        if not self._ready:
            self._news.clear()
            await wait(self._news, seconds, clock)
        frames, size = [], 0
        for _ in range(len(self._ready)):
            lane = self._ready.popleft()
            frames.append(lane.frame)
            size += len(lane.frame)
            lane.frame = b""
            lane.taken.set()
            if size >= PIECE_BYTES:
                break
        return b"".join(frames)


async def feed(
    openers: Sequence[Opener],
    clock: Clock,
    still_allowed: Callable[[], bool] = lambda: True,
    numbers: Sequence[Sequence[int]] = (),
) -> AsyncGenerator[bytes, None]:
    """Frames until each log has ended or was refused, or ``still_allowed`` says no (asked at once and each 15 s).

    ``numbers`` are the places that each log has in the list; by default it has the place of its opener.
    """
    turns = _Turns()
    places = numbers or [(number,) for number in range(len(openers))]
    lanes = [asyncio.ensure_future(_follow(turns, of, opener)) for of, opener in zip(places, openers, strict=True)]
    for lane in lanes:
        lane.add_done_callback(turns.wake)
    try:
        alive_at = clock.monotonic()
        while not all(lane.done() for lane in lanes):
            if clock.monotonic() >= alive_at:
                if not still_allowed():
                    return
                alive_at = clock.monotonic() + KEEP_ALIVE_S
                yield _frame("alive")
            if frames := await turns.take(alive_at - clock.monotonic(), clock):
                yield frames
    finally:
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)


async def _follow(turns: _Turns, numbers: Sequence[int], opener: Opener) -> None:
    lane = _Lane()

    async def give(kind: str, piece: bytes = b"", **facts: object) -> None:
        for number in numbers:
            await turns.give(lane, _frame(kind, log=number, **facts) + piece)

    async def refuse(error: HeadwayError) -> None:
        await give("problem", status=error.http_status, slug=error.slug, title=error.title, detail=error.message)

    try:
        opened = await opener()
        async with aclosing(opened.chunks) as chunks:
            at = opened.offset
            await give("open", attempt=opened.number, offset=at, ended=opened.ended)
            async for chunk in chunks:
                for begin in range(0, len(chunk), PIECE_BYTES):
                    piece = chunk[begin : begin + PIECE_BYTES]
                    await give("bytes", piece, offset=at, size=len(piece))
                    at += len(piece)
        await give("end")
    except HeadwayError as error:
        await refuse(error)
    except Exception as error:
        # One log that can't be read must not end the others.
        log.error("logs.feed_failed", exc=error)
        await refuse(HeadwayError(INSIDE))


def _frame(kind: str, **facts: object) -> bytes:
    return json.dumps({"kind": kind, **facts}, separators=(",", ":")).encode() + b"\n"
