"""Reads a table, row by row: text with a header, whose cells are parted by one sign."""

from __future__ import annotations

import csv
import difflib
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from headway.units import counted

from ..errors import TraceInvalid
from ..trace_records import MAX_TASKS, TraceRecord, TraceRecords
from .cells import ColumnPlaces, TableRow


class LeftOut(Exception):
    """A row that is no task. ``str()`` says why, as the end of `12 rows are left out: ...`."""


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A kind of table: its columns, and how a row becomes tasks.

    ``records`` gives the tasks of a row, or raises :class:`LeftOut`. ``header`` names the columns of a file that has no
    header of its own.
    """

    name: str  # of `--format`
    kind: str  # for people: `the job list of Helios`
    required: tuple[str, ...]
    optional: tuple[str, ...]
    records: Callable[[TableRow], Sequence[TraceRecord]]
    sign: str = ","
    header: tuple[str, ...] = ()
    told: tuple[str, ...] = ()  # sentences about what the format does not hold
    ids: str = ""  # the column whose values become labels
    unique: bool = False  # whether one id may stand in one row only; else later ones get a number
    names_others: bool = False  # whether columns that are not read are named
    also_needs: Callable[[Sequence[str]], str] = lambda names: ""  # what else is missing, as a clause

    @property
    def known(self) -> tuple[str, ...]:
        return (*self.required, *self.optional)


def text_of(content: bytes, name: str, kind: str = "a CSV file") -> str:
    """The text of a file.

    Raises:
        TraceInvalid: it is no text in UTF-8.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TraceInvalid(f"{name}, line {line}: this is not text in UTF-8, so it is no trace ({kind}).") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise TraceInvalid(f"{name}, line {line}: there is a zero byte, so this is no trace ({kind}).")
    return text


def parse_table(text: str, name: str, form: TableFormat) -> TraceRecords:
    """The tasks of a table in the order of their submission; equal ones stay in the order of the file.

    Raises:
        TraceInvalid: the first thing that is wrong, with its row and column.
    """
    reader = _Reader(name, form)
    if form.header and not _has_header(text, form):
        reader.take_header(list(form.header), 0)
    for cells, line in _lines(text, name, form.sign):
        reader.take(cells, line)
    return reader.finished()


def _has_header(text: str, form: TableFormat) -> bool:
    first = text.partition("\n")[0]
    return {cell.strip() for cell in first.split(form.sign)} >= set(form.required)


def _lines(text: str, name: str, sign: str) -> Iterator[tuple[list[str], int]]:
    if sign != ",":  # such programs quote nothing
        for number, line in enumerate(text.splitlines(), 1):
            yield line.split(sign), number
        return
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in lines:
            yield cells, lines.line_num
    except csv.Error as error:
        raise TraceInvalid(f"{name}, line {lines.line_num}: this is not CSV: {error}.") from None


class RecordList:
    """Collects the tasks of a file, counts the rows that are left out, and says what is worth telling."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.notes: list[str] = []
        self._records: list[TraceRecord] = []
        self._left_out: Counter[str] = Counter()
        self._labels: dict[str, int] = {}
        self._copies: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._records)

    def leave_out(self, why: str) -> None:
        self._left_out[why] += 1

    def add(self, record: TraceRecord) -> None:
        if len(self._records) >= MAX_TASKS:
            raise TraceInvalid(f"{record.where}: {self.name} has more than {MAX_TASKS:,} tasks, the most that are run.")
        self._records.append(record)

    def row_of(self, label: str, row: int) -> int:
        """The row (from 1) that used this label first."""
        return self._labels.setdefault(label, row)

    def fresh(self, label: str) -> str:
        """A label that no other task has: the same, or with a number behind."""
        self._copies[label] += 1
        return label if self._copies[label] == 1 else f"{label}#{self._copies[label]}"

    def finished(self, empty: str) -> TraceRecords:
        """All tasks in the order of their submission. ``empty`` is the sentence for a file without any."""
        for why, count in self._left_out.items():
            self.notes.append(f"{self.name}: {counted(count, 'row')} {'is' if count == 1 else 'are'} left out: {why}.")
        if not self._records:
            raise TraceInvalid(" ".join((empty, *self.notes[-len(self._left_out) :])) if self._left_out else empty)
        in_order = tuple(sorted(self._records, key=lambda record: record.submit_s))
        if in_order != tuple(self._records):
            self.notes.append(f"{self.name} was not in the order of submit_s; its rows were sorted.")
        return TraceRecords(in_order, tuple(self.notes))


class _Reader:
    """Reads the lines of a file one after the other."""

    def __init__(self, name: str, form: TableFormat) -> None:
        self._name = name
        self._form = form
        self._list = RecordList(name)
        self._columns: ColumnPlaces | None = None
        self._width = 0
        self._rows = 0

    def take(self, cells: list[str], line: int) -> None:
        if not any(cell.strip() for cell in cells):
            return
        if self._columns is None:
            self.take_header(cells, line)
            return
        self._rows += 1
        row = TableRow(self._columns, self._rows, line, cells)
        if len(cells) != self._width:
            raise row.bad("", f"{counted(len(cells), 'cell')} where the header has {self._width}")
        try:
            found = self._form.records(row)
        except LeftOut as why:
            self._list.leave_out(str(why))
            return
        for record in found:
            self._list.add(self._labelled(record, row))

    def take_header(self, cells: list[str], line: int) -> None:
        names = [cell.strip() for cell in cells]
        for name in names:
            if name and names.count(name) > 1:
                raise TraceInvalid(f"{self._name}, line {line}: the column {name} is there twice.")
        missing = [name for name in self._form.required if name not in names]
        if missing:
            raise TraceInvalid(f"{self._name}, line {line}: {_missing(missing, names, self._form)}")
        if more := self._form.also_needs(names):
            raise TraceInvalid(f"{self._name}, line {line}: {more}.")
        known = self._form.known
        ignored = [name for name in names if name and name not in known]
        if ignored and self._form.names_others:
            shown = ", ".join(_with_hint(name, known) for name in ignored[:10])
            self._list.notes.append(f"{self._name}: columns that are not read: {shown}.")
        self._list.notes.extend(f"{self._name}: {sentence}" for sentence in self._form.told)
        self._columns = ColumnPlaces(self._name, {name: i for i, name in enumerate(names) if name})
        self._width = len(cells)

    def finished(self) -> TraceRecords:
        if self._columns is None:
            raise TraceInvalid(f"{self._name} is empty: a trace starts with a row that names its columns.")
        if self._columns.zoneless:
            self._list.notes.append(f"{self._name}: its dates name no zone and are taken as UTC.")
        if not self._rows:
            raise TraceInvalid(f"{self._name} has a header and no tasks below it.")
        return self._list.finished(f"{self._name} has no task that can be run.")

    def _labelled(self, record: TraceRecord, row: TableRow) -> TraceRecord:
        if not self._form.ids or not row.has(self._form.ids):
            return record
        if not self._form.unique:
            label = self._list.fresh(record.label)
            return record if label == record.label else replace(record, label=label)
        earlier = self._list.row_of(record.label, row.number)
        if earlier < row.number:
            raise row.bad(self._form.ids, f"{record.label!r} is in row {earlier} already")
        return record


def _missing(missing: Sequence[str], names: Sequence[str], form: TableFormat) -> str:
    what = f"the column {missing[0]} is missing" if len(missing) == 1 else f"columns are missing: {', '.join(missing)}"
    other = next((sign for sign in (";", "\t", "|", ",") if len(names) == 1 and sign in names[0]), "")
    if other:
        parted = "commas" if form.sign == "," else repr(form.sign)
        return f"{what}; cells are parted by {parted}, not by {other!r}."
    if not any(name in form.known for name in names):
        return f"{what}; the first row names the columns: {', '.join(form.required)}, and if you have them " + (
            f"{', '.join(form.optional)}."
        )
    near = difflib.get_close_matches(missing[0], [name for name in names if name not in form.known], n=1)
    return f"{what}{f' (there is {near[0]!r})' if near else ''}."


def _with_hint(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return f"{name} (is it {near[0]}?)" if near else name
