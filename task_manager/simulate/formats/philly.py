"""Reads the job log of Microsoft's Philly clusters (`cluster_job_log`; Jeon et al., ATC 2019): JSON, a list of jobs."""

from __future__ import annotations

import json
from typing import Any

from ..errors import TraceInvalid
from ..trace_records import MAX_GPUS, MAX_SPAN_S, TraceRecord, TraceRecords, quoted
from .cells import ColumnPlaces, TableRow
from .table import LeftOut, RecordList, text_of

NAME, KIND = "philly", "the job log of Philly"
COLUMNS = ("jobid", "user", "submitted_time", "attempts", "start_time", "end_time", "detail", "gpus")
_UNKNOWN = frozenset({"None", "null"})


def parse_philly(content: bytes, name: str) -> TraceRecords:
    """The jobs of a log in the order of their submission. A job runs as long as its attempts did together.

    Raises:
        TraceInvalid: the first thing that is wrong, with its job and field.
    """
    try:
        jobs = json.loads(text_of(content, name, "a job log of Philly"))
    except json.JSONDecodeError as error:
        raise TraceInvalid(
            f"{name}, line {error.lineno}, column {error.colno}: this is not JSON: {error.msg}."
        ) from None
    except RecursionError:
        raise TraceInvalid(f"{name} is no job log: it is nested too deeply.") from None
    if not isinstance(jobs, list) or not jobs:
        raise TraceInvalid(f"{name} is no job log of Philly: it needs a list of jobs.")
    found = RecordList(name)
    columns = ColumnPlaces(name, {column: i for i, column in enumerate(COLUMNS)})
    for number, job in enumerate(jobs, 1):
        try:
            found.add(_record(_Job(columns, number, job), found))
        except LeftOut as why:
            found.leave_out(str(why))
    found.notes.append(f"{name}: Philly holds no limits, so a timeout is the run time; its dates are taken as UTC.")
    return found.finished(f"{name} has no job that can be run.")


class _Job(TableRow):
    """One job, whose fields are read as the cells of a row."""

    __slots__ = ("attempts",)

    def __init__(self, columns: ColumnPlaces, number: int, value: Any) -> None:
        TableRow.__init__(self, columns, number, 0, [""] * len(COLUMNS))
        if not isinstance(value, dict):
            raise TraceInvalid(f"{self.where} is not an object.")
        self.put(value, "jobid", "user", "submitted_time")
        attempts = value.get("attempts")
        if not isinstance(attempts, list) or not all(isinstance(attempt, dict) for attempt in attempts):
            raise self.bad("attempts", "this is not a list of attempts")
        self.attempts: list[dict[str, Any]] = attempts

    @property
    def where(self) -> str:
        return f"{self._columns.file}, job {self.number}"

    def put(self, value: dict[str, Any], *names: str) -> None:
        """Takes these fields as the texts of cells."""
        for name in names:
            field = value.get(name)
            if field is not None and not isinstance(field, str | int | float):
                raise self.bad(name, "this is no text")
            self._cells[COLUMNS.index(name)] = "" if field is None else str(field)

    def gpus(self, attempt: dict[str, Any]) -> int:
        detail = attempt.get("detail") or []
        if not isinstance(detail, list) or not all(isinstance(one, dict) for one in detail):
            raise self.bad("detail", "this is not a list of machines")
        lists = [one.get("gpus") or [] for one in detail]
        if not all(isinstance(one, list) for one in lists):
            raise self.bad("gpus", "this is not a list of GPUs")
        count = sum(map(len, lists))
        if count > MAX_GPUS:
            raise self.bad("gpus", f"{count} are more than {MAX_GPUS:,}")
        return count


def _record(job: _Job, found: RecordList) -> TraceRecord:
    submit_s = job.instant("submitted_time", unknown=_UNKNOWN)
    if submit_s is None:
        raise LeftOut("their submission is not known")
    runtime_s, gpus, ran = 0.0, 0, False
    for attempt in job.attempts:
        job.put(attempt, "start_time", "end_time")
        start_s = job.instant("start_time", unknown=_UNKNOWN)
        end_s = job.instant("end_time", unknown=_UNKNOWN)
        gpus = max(gpus, job.gpus(attempt))
        if start_s is None or end_s is None:
            continue
        if end_s < start_s:
            raise job.bad("end_time", f"{quoted(job.text('end_time'))} is before the start, {job.text('start_time')}")
        runtime_s += end_s - start_s
        ran = True
    if not ran:
        raise LeftOut("no attempt with a start and an end")
    if runtime_s > MAX_SPAN_S:
        raise job.bad("end_time", f"{runtime_s:g} s are more than {MAX_SPAN_S:g}")
    return TraceRecord(
        label=found.fresh(job.text("jobid") or str(job.number - 1)),
        where=job.where,
        row=job.number - 1,
        submit_s=submit_s,
        runtime_s=runtime_s,
        timeout_s=None,
        gpus=gpus,
        user=job.text("user"),
    )
