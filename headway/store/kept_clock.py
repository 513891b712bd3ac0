"""The steady clock of timers and of ages, as a database keeps it over restarts and boots.

Within one life of the machine it is the boot clock and an offset, so nobody sets it. Only the time that the machine was
off is taken from the wall clock. So it is written down too by how much that one is ahead. Then a wall clock that was
set and is right again changes nothing. At a boot the steady clock never goes beyond the wall clock.
"""

from __future__ import annotations

import math

from sqlalchemy import Column, Connection, Float, Integer, MetaData, Table, Text, delete, insert, select, update

from ..clock import Clock
from ..steady import Anchor, anchored

_SEEN_EVERY_S = 3_600.0
# A wall clock that is less ahead than it was is believed only after this. Whoever sets it back and right again, and
# then boots, would else make all ages greater.
_BELIEVED_AFTER_S = 86_400.0
_STEP_S = 1.0


def clock_table(metadata: MetaData, name: str) -> Table:
    """The table of one clock; it has one row."""
    return Table(
        name,
        metadata,
        Column("id", Integer, primary_key=True),
        Column("boot_id", Text, nullable=False),
        Column("offset_s", Float, nullable=False),
        Column("seen_at", Float),  # an instant that was reached; NULL: written by an older Headway
        Column("ahead_s", Float),  # by how much the wall clock is ahead of this one
    )


def read_anchor(conn: Connection, table: Table, clock: Clock, *, latest: float | None = None) -> Anchor:
    """The anchor of this life of the machine; inside a write. ``latest``: an instant that was reached, if one is known.

    After a boot the clock goes on where it was, and counts the time that the wall clock says has passed. A wall clock
    that is behind adds nothing.
    """
    row = conn.execute(select(table)).first()
    kept = Anchor(row.boot_id, row.offset_s) if row is not None else None
    if kept is not None and kept.boot_id == clock.boot_id():
        return kept
    reached = -math.inf if latest is None else latest
    if row is None or row.seen_at is None:
        anchor = anchored(kept, clock, latest=reached)
        ahead_s = _ahead_s(anchor, clock)
    else:
        ahead_s = row.ahead_s
        anchor = Anchor(clock.boot_id(), max(clock.now() - ahead_s, row.seen_at, reached) - clock.monotonic())
    conn.execute(delete(table))
    values = {"seen_at": anchor.now(clock), "ahead_s": ahead_s}
    conn.execute(insert(table), {"id": 1, "boot_id": anchor.boot_id, "offset_s": anchor.offset_s, **values})
    return anchor


class ClockNotes:
    """Says when it is time to write down how far the clock is, and by how much the wall clock is ahead of it."""

    def __init__(self, table: Table, clock: Clock, anchor: Anchor) -> None:
        self._table = table
        self._clock = clock
        self._anchor = anchor
        self._seen_at = -math.inf
        self._ahead_s = -math.inf
        self._lower_from = math.inf  # since when the wall clock is less ahead
        self._lower_s = 0.0

    def due(self) -> bool:
        """Whether there is something to write down; no database is asked."""
        now = self._anchor.now(self._clock)
        return self._believed(now) != self._ahead_s or now >= self._seen_at + _SEEN_EVERY_S

    def note(self, conn: Connection) -> tuple[float, float]:
        """Writes it down; hand the result to ``noted`` once it is committed."""
        row = conn.execute(select(self._table)).first()
        now = self._anchor.now(self._clock)
        if self._ahead_s == -math.inf and row is not None and row.ahead_s is not None:
            self._ahead_s = row.ahead_s  # of an earlier start
        ahead_s = self._believed(now)
        conn.execute(update(self._table).values(seen_at=now, ahead_s=ahead_s))
        return now, ahead_s

    def noted(self, written: tuple[float, float]) -> None:
        """It stands."""
        self._seen_at, self._ahead_s = written

    def _believed(self, now: float) -> float:
        ahead_s = _ahead_s(self._anchor, self._clock)
        if ahead_s > self._ahead_s + _STEP_S:
            return ahead_s
        if ahead_s >= self._ahead_s - _STEP_S:
            self._lower_from = math.inf
            return self._ahead_s
        if self._lower_from == math.inf:
            self._lower_from, self._lower_s = now, ahead_s
        self._lower_s = max(self._lower_s, ahead_s)
        return self._lower_s if now >= self._lower_from + _BELIEVED_AFTER_S else self._ahead_s


def _ahead_s(anchor: Anchor, clock: Clock) -> float:
    # Never below 0: a clock that has lost its time says nothing of how much has passed.
    return max(0.0, clock.now() - anchor.now(clock))
