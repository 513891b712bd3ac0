"""Headway's own traces: CSV with a task in each row. They are read strictly: a misread number looks like a result."""

from __future__ import annotations

from pathlib import Path

from .formats.cells import TableRow
from .formats.table import TableFormat, parse_table, text_of
from .trace_records import (
    MAX_CPUS,
    MAX_FILE_BYTES,
    MAX_GPUS,
    MAX_MEM_MIB,
    MAX_PRIORITY,
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


def read_trace(path: Path) -> TraceRecords:
    """The rows of a trace in the order of ``submit_s``; equal ones stay in the order of the file.

    ``-`` is standard input.

    Raises:
        TraceInvalid: the first thing that is wrong, with its row and column.
        OSError: the file can't be read.
    """
    return parse_trace(*trace_content(path))


def trace_content(path: Path) -> tuple[bytes, str]:
    """The unpacked bytes of a trace in any format, and its name for messages."""
    return content_of(path, "trace", MAX_FILE_BYTES)


def parse_trace(content: bytes, name: str) -> TraceRecords:
    """As :func:`read_trace`, from memory; ``name`` is for the messages."""
    return parse_table(text_of(content, name), name, FORMAT)


def _records(row: TableRow) -> list[TraceRecord]:
    timeout_s = row.span("timeout_s")
    if timeout_s is not None and timeout_s < MIN_TIMEOUT_S:
        text = quoted(row.text("timeout_s"))
        raise row.bad("timeout_s", f"{text} is no limit that a task could keep; leave the cell blank for its run time")
    types = [word.strip() for word in row.text("gpu_type").split("|")] if row.text("gpu_type") else []
    if not all(types):
        raise row.bad("gpu_type", f"{quoted(row.text('gpu_type'))} names an empty type")
    submit_s, runtime_s = row.instant("submit_s"), row.span("runtime_s")
    for column, value in (("submit_s", submit_s), ("runtime_s", runtime_s)):
        if value is None:
            raise row.bad(column, "the cell is blank")
    assert submit_s is not None
    assert runtime_s is not None
    return [
        TraceRecord(
            label=row.text("id") or str(row.number - 1),
            where=row.where,
            row=row.number - 1,
            submit_s=submit_s,
            runtime_s=runtime_s,
            timeout_s=timeout_s,
            gpus=row.whole("gpus", row.needed("gpus", MAX_GPUS)),
            gpu_types=tuple(sorted(set(types))),
            cpu_centi=rounded_up(100 * (row.number_in("cpus", MAX_CPUS) or 0.0)),
            memory_bytes=rounded_up(MIB * (row.number_in("mem_mib", MAX_MEM_MIB) or 0.0)),
            user=row.text("user"),
            priority=row.whole("priority", row.number_in("priority", MAX_PRIORITY, least=-MAX_PRIORITY) or 0.0),
        )
    ]


FORMAT = TableFormat(
    "headway", "a trace of Headway", REQUIRED, OPTIONAL, _records, ids="id", unique=True, names_others=True
)
