"""Turns the records of files into tasks of the queue, for a given cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.ids import JobId, TaskId
from headway.units import counted

from ..model import Node, Shape, Task
from ..planning.placement import could_ever_fit
from .cluster_spec import ANY_MODEL, ClusterSpec
from .errors import TraceInvalid
from .trace_records import MAX_SPAN_S, MIN_TIMEOUT_S, TraceRecord

MIN_BLANK_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class WorkloadTask:
    """A task, and what the queue can't know: for how many seconds it really runs."""

    label: str
    task: Task
    run_s: float  # until it ends by itself or is killed at its timeout
    timed_out: bool = False
    needs: tuple[int, ...] = ()  # indexes of other tasks in the workload
    where: str = ""  # for messages: file and row


def those_that_fit(records: Sequence[TraceRecord], cluster: ClusterSpec) -> list[bool]:
    """For each record whether some node could run it when empty, and all that it needs could run, too."""
    known: dict[Shape, bool] = {}
    verdicts = []
    for record in records:
        shape = _shape(record, cluster)
        verdict = known.get(shape)
        if verdict is None:
            verdict = known[shape] = could_ever_fit(shape, cluster.kinds)
        verdicts.append(verdict)
    children: dict[int, list[int]] = {}
    for i, record in enumerate(records):
        for need in record.needs:
            children.setdefault(need, []).append(i)
    lost = [i for i, fits in enumerate(verdicts) if not fits]
    while lost:
        for child in children.get(lost.pop(), ()):
            if verdicts[child]:
                verdicts[child] = False
                lost.append(child)
    return verdicts


def build(
    records: Sequence[TraceRecord], cluster: ClusterSpec, *, timeout_factor: float = 1.0
) -> tuple[WorkloadTask, ...]:
    """The tasks of ``records`` for a cluster, in their order.

    GPU models, CPUs and memory count if the cluster states them. If a record has no number of GPUs, the task takes one
    if the cluster has any. Processors count as GPUs, or as CPUs where the cluster has no GPUs. A blank timeout means
    the run time, at least 1 s. ``timeout_factor`` multiplies all timeouts. A task that would run longer than its
    timeout is killed at it.

    Raises:
        TraceInvalid: no node could ever run a task, or the factor makes its timeout too short or too long.
    """
    timeouts = [_timeout_s(record, timeout_factor) for record in records]
    tails = _tails(records, timeouts)
    shapes: dict[Shape, Shape] = {}  # equal shapes become one object: there are few of them and many tasks
    first = _first_of_jobs(records)
    items = []
    for i, record in enumerate(records):
        shape = _shape(record, cluster)
        if shape not in shapes:
            if not could_ever_fit(shape, cluster.kinds):
                raise _too_large(record, shape, cluster)
            shapes[shape] = shape
        task = Task(
            # Equal tasks go by id, so ids must sort in the order of the file.
            id=TaskId(JobId(f"{first[i]:010d}"), record.label),
            generation=1,
            owner=record.user,
            job_name=record.label,
            priority=record.priority,
            submitted_at=record.submit_s,
            tail_timeout_s=tails[i],
            shape=shapes[shape],
            timeout_s=timeouts[i],
            retries=0,
            queued_at=record.submit_s,
        )
        late = record.runtime_s > timeouts[i]
        items.append(
            WorkloadTask(record.label, task, min(record.runtime_s, timeouts[i]), late, record.needs, record.where)
        )
    return tuple(items)


def _timeout_s(record: TraceRecord, factor: float) -> float:
    told_s = max(record.runtime_s, MIN_BLANK_TIMEOUT_S) if record.timeout_s is None else record.timeout_s
    timeout_s = told_s * factor
    if not MIN_TIMEOUT_S <= timeout_s <= MAX_SPAN_S:
        raise TraceInvalid(
            f"{record.where}, {_kind(record, 'timeout_s')}: {told_s:g} s times {factor:g} is not between "
            f"{MIN_TIMEOUT_S:g} and {MAX_SPAN_S:g} s."
        )
    return timeout_s


def _first_of_jobs(records: Sequence[TraceRecord]) -> list[int]:
    first: dict[int, int] = {}
    return [i if record.job is None else first.setdefault(record.job, i) for i, record in enumerate(records)]


def _tails(records: Sequence[TraceRecord], timeouts: Sequence[float]) -> list[float]:
    """For each task the longest path of timeouts below it, in seconds."""
    children: dict[int, list[int]] = {}
    for i, record in enumerate(records):
        for need in record.needs:
            children.setdefault(need, []).append(i)
    tails = [0.0] * len(records)
    open_children = [len(children.get(i, ())) for i in range(len(records))]
    ready = [i for i, count in enumerate(open_children) if count == 0]
    while ready:
        i = ready.pop()
        for need in records[i].needs:
            tails[need] = max(tails[need], tails[i] + timeouts[i])
            open_children[need] -= 1
            if open_children[need] == 0:
                ready.append(need)
    return tails


def _shape(record: TraceRecord, cluster: ClusterSpec) -> Shape:
    cpu_centi = record.cpu_centi
    if record.gpus is not None:
        gpus = record.gpus
    elif record.processors:
        gpus, cpu_centi = (record.processors, 0) if cluster.gpus else (0, 100 * record.processors)
    else:
        gpus = int(cluster.gpus > 0)
    models: tuple[str, ...] = ()
    if gpus and record.gpu_types and cluster.models_stated:
        models = (*record.gpu_types, ANY_MODEL)
    return Shape(
        cpu_centi=cpu_centi if cluster.cpus_stated else 0,
        memory_bytes=record.memory_bytes if cluster.memory_stated else 0,
        gpus=gpus,
        gpu_models=models,
    )


def _too_large(record: TraceRecord, shape: Shape, cluster: ClusterSpec) -> TraceInvalid:
    cell, what = _misfit(shape, cluster.kinds)
    return TraceInvalid(
        f"{record.where}, {_kind(record, cell)}: {what} in {cluster.text} (--skip-too-large leaves such tasks out); "
        "no node could ever run the task."
    )


def _kind(record: TraceRecord, cell: str) -> str:
    return f"{'column' if record.job is None else 'field'} {(record.cells or {}).get(cell, cell)}"


def _misfit(shape: Shape, nodes: Sequence[Node]) -> tuple[str, str]:
    most = max(len(node.gpus) for node in nodes)
    if shape.gpus > most:
        return "gpus", f"{counted(shape.gpus, 'GPU')} wanted on one node, the largest has {most}"
    if not could_ever_fit(Shape(0, 0, shape.gpus, shape.gpu_models), nodes):
        types = " or ".join(model for model in shape.gpu_models if model != ANY_MODEL)
        return "gpu_type", f"no node has {counted(shape.gpus, 'GPU')} of type {types}"
    if not could_ever_fit(Shape(shape.cpu_centi, 0), nodes):
        cpus = max(node.cpu_centi for node in nodes) / 100
        return "cpus", f"{shape.cpu_centi / 100:g} CPUs are wanted, the largest node has {cpus:g}"
    if not could_ever_fit(Shape(0, shape.memory_bytes), nodes):
        mib = max(node.memory_bytes for node in nodes) >> 20
        return "mem_mib", f"{shape.memory_bytes / 2**20:g} MiB are wanted, the largest node has {mib}"
    return "gpus", "GPUs, CPUs and memory are there, but not all of them on one node"
