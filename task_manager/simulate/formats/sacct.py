"""Reads what Slurm's `sacct -P` writes: a job a line, cells parted by ``|``, with a header of its columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..trace_records import MAX_CPUS, MAX_GPUS, MAX_SPAN_S, TraceRecord, quoted, rounded_up
from .cells import TableRow
from .table import LeftOut, TableFormat

_REQUIRED = ("JobID", "Submit", "State")
_SPANS = ("Elapsed", "ElapsedRaw", "Start", "End")
_LIMITS = ("Timelimit", "TimelimitRaw")
# What was asked for comes before what was given: what was given may be a whole machine.
_TRES = ("ReqTRES", "AllocTRES")
_GRES = ("ReqGRES", "AllocGRES")
_CPUS = ("ReqCPUS", "AllocCPUS", "NCPUS")
_OTHERS = ("User", "ReqMem", "NNodes", "Priority")
_UNKNOWN = frozenset({"Unknown", "None", "UNLIMITED", "Partition_Limit", "INVALID", "N/A"})
_LEFT_OUT = {
    "PENDING": "not started yet",
    "RUNNING": "still running",
    "SUSPENDED": "still running",
    "REQUEUED": "queued again, so that they have a row for each try",
    "RESIZING": "still running",
    "REVOKED": "never started",
}
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTP]?)(?:i?B)?([nc]?)", re.IGNORECASE)
_GPU_WORD = re.compile(r"(?:gres[/:])?gpu(?:[:/](?P<type>[^=:]+))?[=:](?P<count>[0-9]+)(?:\(.*\))?", re.IGNORECASE)
_STEP = re.compile(r"\.(?:batch|extern|interactive|[0-9]+)")


def _records(row: TableRow) -> Sequence[TraceRecord]:
    label = row.text("JobID")
    if _STEP.search(label):
        raise LeftOut("steps of jobs")
    state = row.text("State").split(" ")[0].upper()
    if state in _LEFT_OUT:
        raise LeftOut(_LEFT_OUT[state])
    runtime_s = _runtime_s(row)
    submit_s = row.instant("Submit", unknown=_UNKNOWN)
    if submit_s is None:
        raise LeftOut("their submission is not known")
    if runtime_s is None or (runtime_s == 0 and state == "CANCELLED"):
        raise LeftOut("never started")
    gpus, types = _gpus(row)
    return [
        TraceRecord(
            label=label,
            where=row.where,
            row=row.number - 1,
            submit_s=submit_s,
            runtime_s=runtime_s,
            timeout_s=_limit_s(row) or None,
            gpus=gpus,
            gpu_types=types,
            cpu_centi=100 * _cpus(row),
            memory_bytes=_memory(row),
            user=row.text("User"),
            cells=_CELLS,
        )
    ]


_CELLS = dict.fromkeys(("gpus", "gpu_type", "cpus", "mem_mib"), "ReqTRES") | {"timeout_s": "Timelimit"}


def _runtime_s(row: TableRow) -> float | None:
    begun = [row.instant(column, unknown=_UNKNOWN) for column in ("Start", "End")]
    if row.has("Start") and begun[0] is None:
        return None
    for column in ("ElapsedRaw", "Elapsed"):
        value = row.span(column, unknown=_UNKNOWN)
        if value is not None:
            return value
    start_s, end_s = begun
    if start_s is None or end_s is None:
        return None
    if end_s < start_s:
        raise row.bad("End", f"{quoted(row.text('End'))} is before the start, {row.text('Start')}")
    return end_s - start_s


def _limit_s(row: TableRow) -> float | None:
    value = row.span("Timelimit", unknown=_UNKNOWN)
    if value is not None or not row.text("TimelimitRaw") or row.text("TimelimitRaw") in _UNKNOWN:
        return value
    return 60 * (row.number_in("TimelimitRaw", MAX_SPAN_S / 60) or 0.0)


def _gpus(row: TableRow) -> tuple[int, tuple[str, ...]]:
    """How many GPUs, and of which types. `gres/gpu` counts all; without it those of each type are added."""
    for column in (*_TRES, *_GRES):
        whole, typed = 0, {}
        for part in filter(None, row.text(column).split(",")):
            match = _GPU_WORD.fullmatch(part.strip())
            if match is None:
                if part.strip().lower().removeprefix("gres/").startswith("gpu"):
                    raise row.bad(column, f"{quoted(part)} is no number of GPUs such as gres/gpu=2")
                continue
            count = int(match["count"])
            if match["type"]:
                typed[match["type"]] = count
            else:
                whole = count
        gpus = whole or sum(typed.values())
        if gpus > MAX_GPUS:
            raise row.bad(column, f"{gpus} GPUs are more than {MAX_GPUS:,}")
        if gpus:
            # What was given says nothing of what else would have done.
            return gpus, tuple(sorted(typed)) if column.startswith("Req") else ()
    return 0, ()


def _cpus(row: TableRow) -> int:
    for column in _TRES:
        count = _tres(row.text(column)).get("cpu")
        if count is not None:
            return row.whole(column, row.number_of(column, count, MAX_CPUS))
    for column in _CPUS:
        value = row.number_in(column, MAX_CPUS)
        if value is not None:
            return row.whole(column, value)
    return 0


def _memory(row: TableRow) -> int:
    for column in _TRES:
        text = _tres(row.text(column)).get("mem")
        if text is not None:
            return _bytes(row, column, text)
    text = row.text("ReqMem")
    return _bytes(row, "ReqMem", text) if text and text != "?" else 0


def _bytes(row: TableRow, column: str, text: str) -> int:
    """Bytes of `64G`, `4000M`, and of `4Gn` and `4Gc`, which are of a node and of a CPU."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise row.bad(column, f"{quoted(text)} is no amount of memory such as 64G")
    times = 1
    if match[3].lower() == "c":
        times = max(1, _cpus(row))
    elif match[3].lower() == "n":
        times = max(1, row.whole("NNodes", row.number_in("NNodes", MAX_CPUS) or 1.0))
    return rounded_up(float(match[1]) * _UNITS[match[2].upper() or "M"]) * times


def _tres(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(","))
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


def _also_needs(names: Sequence[str]) -> str:
    if {"Elapsed", "ElapsedRaw"} & set(names) or {"Start", "End"} <= set(names):
        return ""
    return "there is no column of run times: Elapsed, or Start and End"


FORMAT = TableFormat(
    "sacct",
    "`sacct -P` of Slurm",
    _REQUIRED,
    (*_SPANS, *_LIMITS, *_TRES, *_GRES, *_CPUS, *_OTHERS),
    _records,
    sign="|",
    ids="JobID",
    also_needs=_also_needs,
)
