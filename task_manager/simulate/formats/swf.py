"""Reads SWF, the Standard Workload Format of the Parallel Workloads Archive (Chapin et al., 1999).

A line is a job of 18 numbers; ``;`` begins a comment, and -1 means that a number is not known.
"""

from __future__ import annotations

from ..errors import TraceInvalid
from ..trace_records import MAX_GPUS, MAX_INSTANT_S, MAX_SPAN_S, TraceRecord, TraceRecords, rounded_up
from .cells import ColumnPlaces, TableRow
from .table import LeftOut, RecordList, text_of

NAME, KIND = "swf", "SWF"
# In the order of the file; the numbers count from 1.
COLUMNS = (
    "1 (job)", "2 (submission)", "3 (wait)", "4 (run time)", "5 (processors held)", "6 (CPU time)",
    "7 (memory used)", "8 (processors asked for)", "9 (time asked for)", "10 (memory asked for)", "11 (status)",
    "12 (user)", "13 (group)", "14 (program)", "15 (queue)", "16 (partition)", "17 (job before)", "18 (think time)",
)  # fmt: skip
(
    _JOB, _SUBMIT, _WAIT, _RUN, _HELD, _CPU_TIME, _USED, _PROCESSORS, _LIMIT, _MEMORY, _STATUS, _USER,
    *_OTHERS,
) = COLUMNS  # fmt: skip
_PARTS = (2, 3, 4)  # of a job that was checkpointed; the whole job has a line of its own
_CANCELLED = 5
_UNKNOWN = -1.0
_MOST = 1e15


def parse_swf(content: bytes, name: str) -> TraceRecords:
    """The jobs of a log in the order of their submission.

    Raises:
        TraceInvalid: the first thing that is wrong, with its row and column.
    """
    columns = ColumnPlaces(name, {column: i for i, column in enumerate(COLUMNS)})
    found = RecordList(name)
    rows = 0
    for line, text in enumerate(text_of(content, name, "a file in SWF").splitlines(), 1):
        cells = text.partition(";")[0].split()
        if not cells:
            continue
        rows += 1
        row = TableRow(columns, rows, line, cells)
        if len(cells) != len(COLUMNS):
            raise row.bad("", f"{len(cells)} numbers where SWF has {len(COLUMNS)}")
        try:
            found.add(_record(row, found))
        except LeftOut as why:
            found.leave_out(str(why))
    if not rows:
        raise TraceInvalid(f"{name} has no jobs, only comments.")
    return found.finished(f"{name} has no job that can be run.")


def _record(row: TableRow, found: RecordList) -> TraceRecord:
    numbers = {column: _number(row, column) for column in COLUMNS}
    submit_s, runtime_s = numbers[_SUBMIT], numbers[_RUN]
    if numbers[_STATUS] in _PARTS:
        raise LeftOut("parts of jobs that were stopped and went on, and are listed as wholes too")
    if numbers[_STATUS] == _CANCELLED and not runtime_s:
        raise LeftOut("cancelled before they ran")
    if submit_s is None or runtime_s is None:
        raise LeftOut("their submission or run time is not known")
    asked = numbers[_PROCESSORS] or numbers[_HELD]
    processors = 0 if asked is None else row.whole(_PROCESSORS if numbers[_PROCESSORS] else _HELD, asked)
    if not processors:
        raise LeftOut("how many processors they take is not known")
    user = numbers[_USER]
    return TraceRecord(
        label=found.fresh(row.text(_JOB)),
        where=row.where,
        row=row.number - 1,
        submit_s=submit_s,
        runtime_s=runtime_s,
        timeout_s=numbers[_LIMIT] or None,
        gpus=None,
        processors=processors,
        memory_bytes=rounded_up(1024 * (numbers[_MEMORY] or 0.0)) * processors,  # KiB of each processor
        user="" if user is None else f"{user:g}",
        cells=_CELLS,
    )


_CELLS = {"gpus": _PROCESSORS, "cpus": _PROCESSORS, "mem_mib": _MEMORY, "timeout_s": _LIMIT}


_BOUNDS = {_SUBMIT: MAX_INSTANT_S, _RUN: MAX_SPAN_S, _LIMIT: MAX_SPAN_S, _PROCESSORS: MAX_GPUS, _HELD: MAX_GPUS}


def _number(row: TableRow, column: str) -> float | None:
    """A number of the line; None: it is not known."""
    text = row.text(column)
    if text == "-1":
        return None
    if text.isdecimal() and text.isascii() and float(text) <= _BOUNDS.get(column, _MOST):  # most are such, and quick
        return float(text)
    value = row.number_of(column, text, _MOST, least=-_MOST)
    if value == _UNKNOWN:
        return None
    if value < 0:
        raise row.bad(column, f"{text} is negative (-1 stands for a number that is not known)")
    return row.number_of(column, text, _BOUNDS.get(column, _MOST))


def why_swf(text: str) -> str:
    """By what a text is known as SWF; empty: it is none."""
    for line in text.splitlines():
        cells = line.partition(";")[0].split()
        if cells:
            return "its lines of 18 numbers" if len(cells) == len(COLUMNS) and all(map(_is_number, cells)) else ""
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
