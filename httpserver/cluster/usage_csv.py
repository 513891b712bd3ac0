"""Sums of usage as CSV, a line for each row; with days, for each row of each day. Pure, but for who gives the rows."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

Span = tuple[float, float]

_DAY_S = 86_400.0
SUMS = (
    "gpu_hours", "wasted_gpu_hours", "failed_gpu_hours", "idle_gpu_hours", "measured_gpu_hours",
    "mean_gpu_utilisation", "booked_gpu_hours", "used_gpu_hours", "booked_used", "cpu_hours", "memory_gib_hours",
    "attempts", "tasks", "started", "mean_wait_s", "ended", "timed_out",
)  # fmt: skip
# A spreadsheet takes what begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def days(from_at: float, to_at: float) -> list[Span]:
    """The span cut at each midnight of UTC."""
    found = []
    begin = from_at
    while begin < to_at:
        end = min((begin // _DAY_S + 1) * _DAY_S, to_at)
        found.append((begin, end))
        begin = end
    return found


async def pieces(
    by: str,
    spans: Sequence[Span],
    first: Iterable[Any],
    rows_of: Callable[[Span], Awaitable[Iterable[Any]]],
    *,
    daily: bool,
) -> AsyncGenerator[bytes, None]:
    """The header, then the lines of each span; ``first`` are the rows of the first one."""
    of_job = ["job_name", "owner"] if by == "job" else []
    yield _lines([[*(["day"] if daily else []), by, *of_job, *SUMS]])
    for index, span in enumerate(spans):
        rows = first if index == 0 else await rows_of(span)
        day = [datetime.fromtimestamp(span[0], UTC).date().isoformat()] if daily else []
        names = ["key", *of_job]
        yield _lines(
            [*day, *(_text(getattr(row, name)) for name in names), *(_number(getattr(row, name)) for name in SUMS)]
            for row in rows
        )


def _lines(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _text(value: str | None) -> str:
    return f"'{value}" if value and value.startswith(_FORMULA) else value or ""


def _number(value: float | None) -> object:
    if value is None:
        return ""
    return value if isinstance(value, int) else f"{value:.6f}".rstrip("0").rstrip(".")
