"""The table of what a Worker tells of an attempt: one row for each fact.

From a row follow the fields of report and view, how a later report is taken, the stored column and the HTTP schema. A
fact has one name everywhere; two are named otherwise in a report.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from .rows import Row, rows_of, with_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact(Row):
    """One row. Its default says that the fact is not known (yet)."""

    kind: type  # float, int, str, or tuple: of strings
    about: str = ""  # for the HTTP schema: what the name leaves open
    report: str = ""  # the field of rpc.v1.AttemptReport; empty: the name
    grows: bool = False  # the greatest value counts; else the latest that is known
    shown: bool = True  # a field of rpc.v1.AttemptView and of the HTTP API

    @property
    def reported(self) -> str:
        return self.report or self.name

    @property
    def instant(self) -> bool:
        return self.name.endswith("_at")

    def read(self, message: Any, field: str) -> Any:
        """The fact in a message."""
        if self.default is None and not message.HasField(field):
            return None
        value = getattr(message, field)
        return tuple(value) if self.kind is tuple else value

    def merged(self, old: Any, new: Any) -> Any:
        """The fact after a later report, which may leave it out."""
        if self.grows:
            return max(old, new)
        return old if new == self.default else new


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """What is known of one attempt. Instants are by the Worker's clock, in epoch seconds."""

    accepted_at: float | None = with_row(Fact(kind=float))
    container_started_at: float | None = with_row(Fact(kind=float))
    started_at: float | None = with_row(
        Fact(kind=float, report="process_started_at", about="of the user's process; the timeout counts from here")
    )
    ended_at: float | None = with_row(Fact(kind=float))
    run_s: float | None = with_row(Fact(kind=float, shown=False))  # by the Worker's boot clock
    peak_memory_bytes: int | None = with_row(Fact(kind=int))
    stdout_bytes: int = with_row(Fact(kind=int, grows=True), default=0)
    stderr_bytes: int = with_row(Fact(kind=int, grows=True), default=0)
    dropped_bytes: int = with_row(Fact(kind=int, grows=True, about="output past the log limit, not kept"), default=0)
    image_id: str = with_row(
        Fact(kind=str, about="empty until it is known, and for others than owner and admins"), default=""
    )
    warnings: tuple[str, ...] = with_row(
        Fact(kind=tuple, about="of its end, then what could not be done after it; none for others"), default=()
    )
    # The extended timeout that its launcher uses; None: as launched.
    counted_s: float | None = with_row(Fact(kind=float, report="timeout_s", shown=False))


FACTS: Final = rows_of(AttemptFacts, Fact)
SHOWN: Final = tuple(row for row in FACTS if row.shown)


def from_report(message: Any, rows: Iterable[Fact] = FACTS) -> dict[str, Any]:
    """The facts of an AttemptReport by name."""
    return {row.name: row.read(message, row.reported) for row in rows}


def from_view(message: Any, rows: Iterable[Fact] = SHOWN) -> dict[str, Any]:
    """The facts of an AttemptView by name."""
    return {row.name: row.read(message, row.name) for row in rows}


def to_view(facts: AttemptFacts, rows: Iterable[Fact] = SHOWN) -> dict[str, Any]:
    """The fields of an AttemptView; None: not set."""
    return {row.name: getattr(facts, row.name) for row in rows}


def merged(known: AttemptFacts, later: AttemptFacts, rows: Iterable[Fact] = FACTS) -> dict[str, Any]:
    """All facts by name once a later report is taken."""
    return {row.name: row.merged(getattr(known, row.name), getattr(later, row.name)) for row in rows}
