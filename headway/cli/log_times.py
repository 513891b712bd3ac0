"""Times before the lines of a log: logs -t."""

from __future__ import annotations

import io
import time
from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ..client import Client, Refused
from ..errors import Unavailable

# Asked for at once. An answer tells of fewer bytes where they came in very many pieces.
_WINDOW = 4 << 20
# The index follows a log that grows by up to a second.
_PATIENCE_S = 1.6
_PAUSE_S = 0.1
_BLANK = b" " * 25

Ask = Callable[[int, int], dict[str, Any]]


class LineClock:
    """Tells when a byte of one log came. Bytes are asked about in rising order."""

    def __init__(self, ask: Ask, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._ask = ask
        self._sleep = sleep
        self._from = self._end = 0
        self._offsets: list[int] = []
        self._at: list[float | None] = []
        self._patient = True

    def of(self, byte: int) -> float | None:
        """Seconds since 1970; None: nobody knows."""
        waited = 0.0
        while not self._from <= byte < self._end:
            answer = self._ask(byte, _WINDOW)
            self._from, self._end = byte, answer["end"]
            self._offsets = answer["offsets"]
            self._at = answer.get("at") or [None] * len(self._offsets)
            if byte < self._end:
                self._patient = True
                break
            if answer["ended"] or not self._patient or waited >= _PATIENCE_S:
                # Not for each line again: this log may have no index at all.
                self._patient = False
                return None
            self._sleep(_PAUSE_S)
            waited += _PAUSE_S
        found = bisect_right(self._offsets, byte) - 1
        return self._at[found] if found >= 0 else None


class Stamper:
    """Puts a time before each line of one log, which comes in pieces from ``offset`` on.

    ``within``: it begins in the middle of a line, which gets none.
    """

    def __init__(self, clock: LineClock, offset: int = 0, *, within: bool = False) -> None:
        self._clock = clock
        self._offset = offset
        self._within = within

    def of(self, data: bytes) -> bytes:
        """The piece with its times."""
        out = []
        for line in io.BytesIO(data).readlines():
            if not self._within:
                out.append(stamp(self._clock.of(self._offset)))
            out.append(line)
            self._offset += len(line)
            self._within = not line.endswith(b"\n")
        return b"".join(out)


def stamp(at: float | None) -> bytes:
    """As `docker logs -t` has it, to the millisecond: ``2026-11-29T18:24:22.123Z``; blank where nobody knows."""
    if at is None:
        return _BLANK
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z").encode() + b" "


def stamper(
    http: Client,
    job_id: str,
    name: str,
    attempt: int | str,
    stream: str,
    offset: int = 0,
    *,
    within: bool = False,
) -> Stamper:
    """Of one log of a server."""

    def ask(byte: int, length: int) -> dict[str, Any]:
        try:
            return http.patiently(
                lambda: http.log_times(job_id, name, attempt=attempt, stream=stream, offset=byte, length=length)
            )
        except Refused as refused:
            if refused.status == 404:
                raise Unavailable("This server is older and tells no times: leave out -t.") from refused
            raise

    return Stamper(LineClock(ask), offset, within=within)
