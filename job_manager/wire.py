"""Converts jobs and tasks to messages, and reports of TaskManager from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headway.ids import JobId
from headway.model.reasons import EndReason, EndWord
from headway.rpc import convert
from headway.rpc.v1 import common_pb2, job_manager_pb2
from headway.states import TaskEventKind, TaskState

from .job import JobRecord, TaskRecord, TaskReport


def job_to_pb(record: JobRecord, kept_until: float | None) -> job_manager_pb2.Job:
    account = common_pb2.Account.FromString(record.account)
    return job_manager_pb2.Job(
        id=record.id,
        name=record.name,
        owner=record.owner,
        owner_uid=account.uid,
        priority=convert.priority_to_pb(record.priority),
        state=record.state.value,
        submitted_at=record.submitted_at,
        started_at=record.started_at,
        ended_at=record.ended_at,
        held=record.held,
        task_count=record.task_count,
        tasks_by_state={state.value: count for state, count in record.counts.items()},
        spec_hash=record.spec_hash,
        reason=None if record.reason is None else convert.end_reason_to_pb(record.reason),
        reason_task=record.reason_task,
        version=record.version,
        pinned=record.pinned,
        kept_until=kept_until,
    )


def task_to_pb(
    spec: common_pb2.TaskSpec, state: TaskState, record: TaskRecord, waits_for: Iterable[str] = ()
) -> job_manager_pb2.TaskView:
    reason = record.reason
    return job_manager_pb2.TaskView(
        name=spec.name,
        state=state.value,
        needs=spec.needs,
        attempt=record.attempt,
        generation=record.generation,
        reason=None if reason is None else convert.end_reason_to_pb(reason),
        sentence="" if reason is None else reason.sentence,
        queued_at=record.queued_at,
        started_at=record.started_at,
        ended_at=record.ended_at,
        held=record.held_at is not None,
        image=spec.image,
        resources=spec.resources,
        timeout_s=spec.timeout_s,
        retries=spec.retries,
        waits_for=waits_for,
        node_id=record.node_id,
        image_digest=spec.image_digest,
        image_source=spec.image_source,
        # A job that was taken before versions were pinned only has names.
        datasets=spec.dataset_pins or [common_pb2.DatasetPin(name=name) for name in spec.datasets],
        code=spec.code,
    )


def event_from_pb(message: job_manager_pb2.TaskEvent) -> tuple[JobId, TaskReport] | None:
    """A report of TaskManager; None for a kind that this version doesn't know."""
    try:
        kind = TaskEventKind(message.kind)
    except ValueError:
        return None
    return JobId(message.task.job_id), TaskReport(
        task=message.task.name,
        generation=message.generation,
        seq=message.seq,
        kind=kind,
        attempt=message.attempt,
        at=message.at,
        reason=_reason(message.reason) if message.HasField("reason") else None,
        node_id=message.node_id,
        process_started_at=message.process_started_at if message.HasField("process_started_at") else None,
        notice=message.notice,
    )


def _reason(message: common_pb2.EndReason) -> EndReason:
    try:
        return convert.end_reason(message)
    except ValueError:
        # A newer TaskManager's word: the task must end all the same.
        return EndReason(EndWord.PLATFORM_ERROR, detail=f"It ended with {message.word!r}. {message.detail}".strip())


def waiting_names(names: Sequence[str], numbers: Iterable[int]) -> list[str]:
    return [names[number] for number in numbers]
