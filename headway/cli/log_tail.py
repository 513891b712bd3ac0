"""The end of a log: logs --tail, by lines or by bytes."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import click

from ..units import BadValue, parse_size

# Read back at first; more where the lines are longer.
_WINDOW = 64 << 10

Read = Callable[[int], Iterable[tuple[int, bytes]]]


@dataclass(frozen=True, slots=True)
class Tail:
    """So many lines, or bytes, from the end."""

    lines: int | None = None
    size_bytes: int | None = None


class TailType(click.ParamType):  # type: ignore[type-arg]
    """``200`` lines, or ``64KiB``."""

    name = "lines|size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Tail:
        if isinstance(value, Tail):
            return value
        if re.fullmatch(r"[0-9]{1,18}", value):
            return Tail(lines=int(value))
        try:
            return Tail(size_bytes=parse_size(value))
        except BadValue:
            self.fail(f"{value!r} is no number of lines such as 200, and no size such as 64KiB", param, ctx)


def begin_of(read: Read, tail: Tail) -> tuple[int, bool]:
    """The first byte of a log's end, and whether it lies within a line. ``read``: the last so many bytes, in pieces
    with their places; of a large log nothing is held."""
    if tail.size_bytes is not None:
        return _of_bytes(read, tail.size_bytes)
    wanted = tail.lines or 0
    window = _WINDOW
    while True:
        starts: deque[int] = deque(maxlen=wanted + 1)
        first, end = None, 0
        for at, data in read(window if wanted else 1):
            first = at if first is None else first
            end = at + len(data)
            starts.extend(at + found.end() for found in re.finditer(b"\n", data))
        if not wanted:
            return end, False
        if starts and starts[-1] == end:
            starts.pop()  # no line begins at the end
        if len(starts) >= wanted:
            return starts[-wanted], False
        if not first:
            return 0, False
        window *= 8


def _of_bytes(read: Read, count: int) -> tuple[int, bool]:
    """With the byte before, which tells whether a line ends there."""
    first, end, before = 0, 0, b"\n"
    for at, data in read(count + 1):
        if not end:
            first, before = at, data[:1]
        end = at + len(data)
    begin = max(0, end - count)
    return begin, begin > 0 and not (begin == first + 1 and before == b"\n")
