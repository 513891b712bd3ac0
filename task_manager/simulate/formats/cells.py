"""The cells of a table, as numbers, moments and durations. Errors say the row and the column."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ..errors import TraceInvalid
from ..trace_records import MAX_INSTANT_S, MAX_SPAN_S, quoted

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?"
)
# As Slurm writes them: m:ss, h:mm:ss, d-hh, d-hh:mm, d-hh:mm:ss.
_CLOCK = re.compile(
    r"(?:(?P<days>[0-9]{1,6})-(?P<hours>[0-9]{1,2})(?::(?P<minutes>[0-9]{2})(?::(?P<seconds>[0-9]{2}(?:\.[0-9]{1,9})?))?)?"
    r"|(?:(?P<h>[0-9]{1,7}):)?(?P<m>[0-9]{1,7}):(?P<s>[0-9]{2}(?:\.[0-9]{1,9})?))"
)
_SECONDS, _DATE_WITH_ZONE, _DATE_WITHOUT = "seconds", "a date with a zone", "a date without a zone"
_FORM = "2024-03-01T12:00:00"


@dataclass(slots=True)
class ColumnPlaces:
    """The columns of one file: where they stand, and how the first row writes its moments and durations."""

    file: str
    at: dict[str, int]
    forms: dict[str, tuple[str, int]] = field(default_factory=dict)  # by column: how, and in which row first
    zoneless: bool = False  # a date without a zone was read


class TableRow:
    """One row, with typed cells and with errors that say where they are."""

    __slots__ = ("_cells", "_columns", "line", "number")

    def __init__(self, columns: ColumnPlaces, number: int, line: int, cells: list[str]) -> None:
        self._columns = columns
        self._cells = cells
        self.number = number  # from 1
        self.line = line

    @property
    def where(self) -> str:
        return f"{self._columns.file}, row {self.number} (line {self.line})"

    def bad(self, column: str, what: str) -> TraceInvalid:
        place = f", column {column}" if column else ""
        return TraceInvalid(f"{self.where}{place}: {what}.")

    def has(self, column: str) -> bool:
        return column in self._columns.at

    def text(self, column: str) -> str:
        """The cell without spaces around it; empty where there is no such column."""
        at = self._columns.at.get(column)
        return "" if at is None else self._cells[at].strip()

    def number_in(self, column: str, most: float, *, least: float = 0.0) -> float | None:
        """None where the cell is blank."""
        text = self.text(column)
        return self.number_of(column, text, most, least=least) if text else None

    def number_of(self, column: str, text: str, most: float, *, least: float = 0.0) -> float:
        """The number that a part of a cell is."""
        if not _NUMBER.fullmatch(text):
            word = "a finite number" if text.lower().lstrip("+-") in ("nan", "inf", "infinity") else "a number"
            raise self.bad(column, f"{quoted(text)} is not {word}")
        value = float(text)
        if value < 0 <= least:
            raise self.bad(column, f"{quoted(text)} is negative")
        if not least <= value <= most:
            raise self.bad(column, f"{quoted(text)} is not between {least:g} and {most:g}")
        return value

    def needed(self, column: str, most: float) -> float:
        value = self.number_in(column, most)
        if value is None:
            raise self.bad(column, "the cell is blank")
        return value

    def whole(self, column: str, value: float) -> int:
        if value != math.floor(value):
            raise self.bad(column, f"{quoted(self.text(column))} is not a whole number")
        return int(value)

    def instant(self, column: str, *, unknown: frozenset[str] = frozenset()) -> float | None:
        """A moment in seconds: a number of seconds, or an ISO date. None: the cell is blank or one of ``unknown``.

        A date without a zone counts as UTC. All moments of a column must be written alike.
        """
        text = self.text(column)
        if not text or text in unknown:
            return None
        if _NUMBER.fullmatch(text):
            self._same_form(column, text, _SECONDS)
            return self.number_of(column, text, MAX_INSTANT_S)
        match = _DATE.fullmatch(text)
        if match is None:
            word = text.lower().lstrip("+-")
            kind = "a finite number" if word in ("nan", "inf", "infinity") else "a number"
            form = f", nor a date such as {_FORM}" if any(sign in "-/:" for sign in text) else ""
            raise self.bad(column, f"{quoted(text)} is not {kind}{form}")
        zone = match["zone"]
        self._same_form(column, text, _DATE_WITH_ZONE if zone else _DATE_WITHOUT)
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise self.bad(column, f"{quoted(text)} is no date that there is") from None
        if found.tzinfo is None:
            self._columns.zoneless = True
            found = found.replace(tzinfo=UTC)
        value = found.timestamp()
        if value < 0:
            raise self.bad(column, f"{quoted(text)} is before 1970")
        return value

    def span(self, column: str, *, unknown: frozenset[str] = frozenset()) -> float | None:
        """A duration in seconds: a number of seconds, or ``h:mm:ss`` with days before as in ``1-02:03:04``.

        None: the cell is blank or one of ``unknown``.
        """
        text = self.text(column)
        if not text or text in unknown:
            return None
        match = _CLOCK.fullmatch(text) if not _NUMBER.fullmatch(text) else None
        if match is None:
            value = self.number_of(column, text, MAX_SPAN_S)
            self._same_form(column, text, _SECONDS)
            return value
        self._same_form(column, text, "hours, minutes and seconds")
        days, hours = int(match["days"] or 0), int(match["hours"] or match["h"] or 0)
        minutes, seconds = int(match["minutes"] or match["m"] or 0), float(match["seconds"] or match["s"] or 0)
        nested = match["h"] is not None or match["days"] is not None
        if seconds >= 60 or (nested and minutes >= 60) or (match["days"] is not None and hours >= 24):
            raise self.bad(
                column, f"{quoted(text)} is no duration: minutes and seconds end at 59, hours behind days at 23"
            )
        value = 86_400.0 * days + 3_600.0 * hours + 60.0 * minutes + seconds
        if value > MAX_SPAN_S:
            raise self.bad(column, f"{quoted(text)} is not between 0 and {MAX_SPAN_S:g} s")
        return value

    def _same_form(self, column: str, text: str, form: str) -> None:
        first, row = self._columns.forms.setdefault(column, (form, self.number))
        if first != form:
            raise self.bad(
                column,
                f"{quoted(text)} is {_worded(form)}, but row {row} has {_worded(first)}; one column has one form",
            )


def _worded(form: str) -> str:
    return "a number of seconds" if form == _SECONDS else form
