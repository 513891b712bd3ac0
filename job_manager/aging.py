"""The clock by which ended jobs, removals and remembered requests age: that of timers, which nobody sets."""

from __future__ import annotations

from sqlalchemy import Connection

from headway.clock import Clock
from headway.model.retention import RetentionRules
from headway.rpc.v1 import job_manager_pb2
from headway.steady import Anchor
from headway.store import ClockNotes

from . import wire
from .job import JobRecord
from .tables import timer_table


class Aging:
    """See the module. Each transaction begins with ``begin``, and ``committed`` comes after it."""

    def __init__(self, clock: Clock, rules: RetentionRules) -> None:
        self._clock = clock
        self._rules = rules
        self._anchor: Anchor | None = None
        self._notes: ClockNotes | None = None  # None: nothing is committed yet
        self._written: tuple[float, float] | None = None

    def begin(self, conn: Connection) -> float:
        """Now by this clock. It is written down how far it is, where that is due."""
        self._written = None
        if self._anchor is None or self._notes is None:
            self._anchor = timer_table.read_clock(conn, self._clock)
        elif self._notes.due():
            self._written = self._notes.note(conn)
        return self._anchor.now(self._clock)

    def committed(self) -> None:
        """What ``begin`` wrote stands."""
        if self._notes is None and self._anchor is not None:
            self._notes = ClockNotes(timer_table.clock, self._clock, self._anchor)
        if self._notes is not None and self._written is not None:
            self._notes.noted(self._written)

    def now(self) -> float:
        """Now by this clock, in epoch seconds. A transaction comes first."""
        assert self._anchor is not None, "a transaction comes first"
        return self._anchor.now(self._clock)

    def on_the_wall(self, instant: float) -> float:
        """What the wall clock of today says, or will say, at an instant of this clock.

        In whole seconds, so that what people see stands still.
        """
        return float(round(instant + self._clock.now() - self.now()))

    def shown(self, record: JobRecord) -> job_manager_pb2.Job:
        """The job as people see it."""
        until = self._rules.kept_until(record.owner, record.ages_from, pinned=record.pinned)
        return wire.job_to_pb(record, None if until is None else self.on_the_wall(until))
