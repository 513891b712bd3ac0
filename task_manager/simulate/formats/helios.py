"""Reads the job list of the Helios traces (`cluster_log.csv`; Hu et al., SC 2021)."""

from __future__ import annotations

from collections.abc import Sequence

from ..trace_records import MAX_CPUS, MAX_GPUS, TraceRecord, rounded_up
from .cells import TableRow
from .table import LeftOut, TableFormat

_REQUIRED = ("submit_time", "duration", "gpu_num")
_OPTIONAL = ("job_id", "user", "vc", "cpu_num", "node_num", "state", "start_time", "end_time", "queue")
_UNKNOWN = frozenset({"None", "Unknown"})


def _records(row: TableRow) -> Sequence[TraceRecord]:
    submit_s, runtime_s = row.instant("submit_time"), row.span("duration", unknown=_UNKNOWN)
    row.instant("start_time", unknown=_UNKNOWN)
    row.span("queue", unknown=_UNKNOWN)
    if runtime_s is None or (row.has("start_time") and row.text("start_time") in ("", *_UNKNOWN)):
        raise LeftOut("never started")
    if submit_s is None:
        raise row.bad("submit_time", "the cell is blank")
    return [
        TraceRecord(
            label=row.text("job_id") or str(row.number - 1),
            where=row.where,
            row=row.number - 1,
            submit_s=submit_s,
            runtime_s=runtime_s,
            timeout_s=None,
            gpus=row.whole("gpu_num", row.needed("gpu_num", MAX_GPUS)),
            cpu_centi=rounded_up(100 * (row.number_in("cpu_num", MAX_CPUS) or 0.0)),
            user=row.text("user"),
            cells=_CELLS,
        )
    ]


_CELLS = {"gpus": "gpu_num", "cpus": "cpu_num"}


FORMAT = TableFormat(
    "helios",
    "the job list of Helios",
    _REQUIRED,
    _OPTIONAL,
    _records,
    told=("Helios holds no limits, so a timeout is the run time.",),
    ids="job_id",
)
