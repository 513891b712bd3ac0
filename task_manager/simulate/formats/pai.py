"""Reads the traces of Alibaba's PAI cluster: the task table and the simulator's job list of 2020, the pods of 2023.

Shares of a GPU count as a whole one, since GPUs are never shared here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..trace_records import MAX_CPUS, MAX_GPUS, MAX_MEM_MIB, MIB, TraceRecord, quoted, rounded_up
from .cells import TableRow
from .table import LeftOut, TableFormat

_MOST_INSTANCES = 10_000
_NO_LIMITS = "the trace holds no limits, so a timeout is the run time."
_ANY = frozenset({"", "MISC", "CPU"})  # no type that a machine could name

TASK_HEADER = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu",
    "gpu_type",
)  # fmt: skip
STATUS = frozenset({"Terminated", "Failed", "Running", "Waiting", "Interrupted"})


def _of_task_table(row: TableRow) -> Sequence[TraceRecord]:
    start_s, end_s = row.instant("start_time"), row.instant("end_time")
    if start_s is None:
        raise LeftOut("never started")
    if end_s is None:
        raise LeftOut("still running")
    one = TraceRecord(
        label=f"{row.text('job_name')}/{row.text('task_name')}",
        where=row.where,
        row=row.number - 1,
        submit_s=start_s,
        runtime_s=_between(row, "start_time", start_s, "end_time", end_s),
        timeout_s=None,
        gpus=math.ceil((row.number_in("plan_gpu", 100.0 * MAX_GPUS) or 0.0) / 100),
        gpu_types=_types(row.text("gpu_type")),
        cpu_centi=rounded_up(row.number_in("plan_cpu", 100.0 * MAX_CPUS) or 0.0),
        memory_bytes=rounded_up(1024 * MIB * (row.number_in("plan_mem", MAX_MEM_MIB) or 0.0)),
        user=row.text("user"),
        cells={"gpus": "plan_gpu", "cpus": "plan_cpu", "mem_mib": "plan_mem"},
    )
    return [one] * _instances(row, "inst_num")


def _of_job_list(row: TableRow) -> Sequence[TraceRecord]:
    submit_s, runtime_s = row.instant("submit_time"), row.span("duration")
    for column, value in (("submit_time", submit_s), ("duration", runtime_s)):
        if value is None:
            raise row.bad(column, "the cell is blank")
    assert submit_s is not None
    assert runtime_s is not None
    one = TraceRecord(
        label=row.text("job_id") or str(row.number - 1),
        where=row.where,
        row=row.number - 1,
        submit_s=submit_s,
        runtime_s=runtime_s,
        timeout_s=None,
        gpus=math.ceil(row.number_in("num_gpu", MAX_GPUS) or 0.0),
        gpu_types=_types(row.text("gpu_type")),
        cpu_centi=rounded_up(100 * (row.number_in("num_cpu", MAX_CPUS) or 0.0)),
        user=row.text("user"),
        cells={"gpus": "num_gpu", "cpus": "num_cpu"},
    )
    return [one] * _instances(row, "num_inst")


def _of_pods(row: TableRow) -> Sequence[TraceRecord]:
    made_s, start_s = row.instant("creation_time"), row.instant("scheduled_time")
    end_s = row.instant("deletion_time")
    if made_s is None:
        raise row.bad("creation_time", "the cell is blank")
    if start_s is None:
        raise LeftOut("never started")
    if end_s is None:
        raise LeftOut("still running")
    return [
        TraceRecord(
            label=row.text("name") or str(row.number - 1),
            where=row.where,
            row=row.number - 1,
            submit_s=made_s,
            runtime_s=_between(row, "scheduled_time", start_s, "deletion_time", end_s),
            timeout_s=None,
            gpus=row.whole("num_gpu", row.needed("num_gpu", MAX_GPUS)),
            gpu_types=_types(row.text("gpu_spec")),
            cpu_centi=rounded_up((row.number_in("cpu_milli", 1000.0 * MAX_CPUS) or 0.0) / 10),
            memory_bytes=rounded_up(MIB * (row.number_in("memory_mib", MAX_MEM_MIB) or 0.0)),
            cells={"gpus": "num_gpu", "gpu_type": "gpu_spec", "cpus": "cpu_milli", "mem_mib": "memory_mib"},
        )
    ]


def _between(row: TableRow, first: str, first_s: float, last: str, last_s: float) -> float:
    if last_s < first_s:
        raise row.bad(last, f"{quoted(row.text(last))} is before {first}, {row.text(first)}")
    return last_s - first_s


def _instances(row: TableRow, column: str) -> int:
    """How many instances a row stands for; each becomes a task."""
    value = row.number_in(column, _MOST_INSTANCES)
    return 1 if value is None else row.whole(column, value)


def _types(text: str) -> tuple[str, ...]:
    return tuple(sorted({word.strip() for word in text.split("|")} - _ANY))


TASK_TABLE = TableFormat(
    "pai",
    "the task table of Alibaba PAI",
    ("start_time", "end_time", "plan_gpu"),
    ("job_name", "task_name", "inst_num", "status", "plan_cpu", "plan_mem", "gpu_type", "user"),
    _of_task_table,
    header=TASK_HEADER,
    told=(f"it holds no submissions, so a task is submitted when it was launched; {_NO_LIMITS}",),
    ids="job_name",
)
JOB_LIST = TableFormat(
    "pai",
    "the job list of Alibaba PAI",
    ("submit_time", "duration", "num_gpu"),
    ("job_id", "num_inst", "num_cpu", "gpu_type", "user"),
    _of_job_list,
    told=(_NO_LIMITS,),
    ids="job_id",
)
PODS = TableFormat(
    "pai",
    "the pod list of Alibaba (openb)",
    ("creation_time", "scheduled_time", "deletion_time", "num_gpu"),
    ("name", "cpu_milli", "memory_mib", "gpu_milli", "gpu_spec", "qos", "pod_phase"),
    _of_pods,
    told=(_NO_LIMITS,),
    ids="name",
)
