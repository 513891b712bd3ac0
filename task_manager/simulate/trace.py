"""Reads traces: CSV with one task in each row. It is strict, since a misread number would look like a result."""

from __future__ import annotations

import csv
import difflib
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path

from .errors import TraceInvalid
from .trace_records import (
    MAX_CPUS,
    MAX_FILE_BYTES,
    MAX_GPUS,
    MAX_INSTANT_S,
    MAX_MEM_MIB,
    MAX_PRIORITY,
    MAX_SPAN_S,
    MIB,
    MIN_TIMEOUT_S,
    TraceRecord,
    TraceRecords,
    content_of,
    quoted,
    rounded_up,
)

REQUIRED = ("submit_s", "runtime_s", "gpus")
OPTIONAL = ("id", "timeout_s", "gpu_type", "cpus", "mem_mib", "user", "priority")
KNOWN = (*REQUIRED, *OPTIONAL)

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


def read_trace(path: Path) -> TraceRecords:
    """The rows of a trace in the order of ``submit_s``; equal ones stay in the order of the file.

    ``-`` is standard input.

    Raises:
        TraceInvalid: the first thing that is wrong, with its row and column.
        OSError: the file can't be read.
    """
    return parse_trace(*content_of(path, "trace", MAX_FILE_BYTES))


def parse_trace(content: bytes, name: str) -> TraceRecords:
    """As :func:`read_trace`, from memory; ``name`` is for the messages."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TraceInvalid(f"{name}, line {line}: this is not text in UTF-8, so it is no trace (a CSV file).") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise TraceInvalid(f"{name}, line {line}: there is a zero byte, so this is no trace (a CSV file).")
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    reader = _Reader(name)
    try:
        for cells in lines:
            reader.take(cells, lines.line_num)
    except csv.Error as error:
        raise TraceInvalid(f"{name}, line {lines.line_num}: this is not CSV: {error}.") from None
    return reader.finished()


class _Reader:
    """Reads the lines of a file one after the other."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._columns: dict[str, int] | None = None
        self._width = 0
        self._records: list[TraceRecord] = []
        self._labels: dict[str, int] = {}
        self._notes: list[str] = []

    def take(self, cells: list[str], line: int) -> None:
        if not any(cell.strip() for cell in cells):
            return
        if self._columns is None:
            self._columns = self._header(cells, line)
            self._width = len(cells)
            return
        row = _Row(self._name, len(self._records) + 1, line, self._columns, cells)
        if len(cells) != self._width:
            raise row.bad("", f"{len(cells)} cells where the header has {self._width}")
        record = _record(row)
        if "id" in self._columns:
            earlier = self._labels.setdefault(record.label, len(self._records) + 1)
            if earlier <= len(self._records):
                raise row.bad("id", f"{record.label!r} is in row {earlier} already")
        self._records.append(record)

    def finished(self) -> TraceRecords:
        if self._columns is None:
            raise TraceInvalid(f"{self._name} is empty: a trace starts with a row that names its columns.")
        if not self._records:
            raise TraceInvalid(f"{self._name} has a header and no tasks below it.")
        in_order = tuple(sorted(self._records, key=lambda record: record.submit_s))
        if in_order != tuple(self._records):
            self._notes.append(f"{self._name} was not in the order of submit_s; its rows were sorted.")
        return TraceRecords(in_order, tuple(self._notes))

    def _header(self, cells: list[str], line: int) -> dict[str, int]:
        names = [cell.strip() for cell in cells]
        for name in names:
            if name and names.count(name) > 1:
                raise TraceInvalid(f"{self._name}, line {line}: the column {name} is there twice.")
        missing = [name for name in REQUIRED if name not in names]
        if missing:
            raise TraceInvalid(f"{self._name}, line {line}: {_missing(missing, names)}")
        ignored = [name for name in names if name and name not in KNOWN]
        if ignored:
            self._notes.append(f"{self._name}: columns that are not read: {', '.join(map(_with_hint, ignored[:10]))}.")
        return {name: i for i, name in enumerate(names) if name}


def _missing(missing: Sequence[str], names: Sequence[str]) -> str:
    what = f"the column {missing[0]} is missing" if len(missing) == 1 else f"columns are missing: {', '.join(missing)}"
    other = next((sign for sign in (";", "\t", "|") if len(names) == 1 and sign in names[0]), "")
    if other:
        return f"{what}; cells are parted by commas, not by {other!r}."
    if not any(name in KNOWN for name in names):
        return f"{what}; the first row names the columns: {', '.join(REQUIRED)}, and if you have them " + (
            f"{', '.join(OPTIONAL)}."
        )
    near = difflib.get_close_matches(missing[0], [name for name in names if name not in KNOWN], n=1)
    return f"{what}{f' (there is {near[0]!r})' if near else ''}."


def _with_hint(name: str) -> str:
    near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.75)
    return f"{name} (is it {near[0]}?)" if near else name


class _Row:
    """One row, with typed cells and with errors that say where they are."""

    def __init__(self, name: str, number: int, line: int, columns: dict[str, int], cells: list[str]) -> None:
        self.where = f"{name}, row {number} (line {line})"
        self.number = number
        self._columns = columns
        self._cells = cells

    def bad(self, column: str, what: str) -> TraceInvalid:
        place = f", column {column}" if column else ""
        return TraceInvalid(f"{self.where}{place}: {what}.")

    def text(self, column: str) -> str:
        at = self._columns.get(column)
        return "" if at is None else self._cells[at].strip()

    def number_in(self, column: str, most: float, *, least: float = 0.0) -> float | None:
        """None where the cell is blank."""
        text = self.text(column)
        if not text:
            return None
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


def _record(row: _Row) -> TraceRecord:
    timeout_s = row.number_in("timeout_s", MAX_SPAN_S)
    if timeout_s is not None and timeout_s < MIN_TIMEOUT_S:
        text = quoted(row.text("timeout_s"))
        raise row.bad("timeout_s", f"{text} is no limit that a task could keep; leave the cell blank for its run time")
    types = [word.strip() for word in row.text("gpu_type").split("|")] if row.text("gpu_type") else []
    if not all(types):
        raise row.bad("gpu_type", f"{quoted(row.text('gpu_type'))} names an empty type")
    return TraceRecord(
        label=row.text("id") or str(row.number - 1),
        where=row.where,
        row=row.number - 1,
        submit_s=row.needed("submit_s", MAX_INSTANT_S),
        runtime_s=row.needed("runtime_s", MAX_SPAN_S),
        timeout_s=timeout_s,
        gpus=row.whole("gpus", row.needed("gpus", MAX_GPUS)),
        gpu_types=tuple(sorted(set(types))),
        cpu_centi=rounded_up(100 * (row.number_in("cpus", MAX_CPUS) or 0.0)),
        memory_bytes=rounded_up(MIB * (row.number_in("mem_mib", MAX_MEM_MIB) or 0.0)),
        user=row.text("user"),
        priority=row.whole("priority", row.number_in("priority", MAX_PRIORITY, least=-MAX_PRIORITY) or 0.0),
    )
