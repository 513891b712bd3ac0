"""Converts messages of the other services to what the HTTP API shows. Pure."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf.message import Message

from headway.jobfile.spec import TASK
from headway.model.attempt_facts import from_view
from headway.model.gpu_readings import reported
from headway.model.reasons import EndReason, EndWord, WaitWord
from headway.model.simulated_gpus import is_simulated
from headway.rpc import convert
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.states import Admission, AttemptState, JobState, NodeHealth, TaskState

from . import schemas as s

_PRIORITY = {
    common.PRIORITY_LOW: s.Priority.LOW,
    common.PRIORITY_NORMAL: s.Priority.NORMAL,
    common.PRIORITY_HIGH: s.Priority.HIGH,
}
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# A task that has an attempt on a node.
_UNDER_WAY = frozenset({TaskState.RUNNING, TaskState.STOPPING})
_SOURCE = {
    common.IMAGE_SOURCE_MARKET: s.ImageSource.MARKET,
    common.IMAGE_SOURCE_ENGINE: s.ImageSource.ENGINE,
    common.IMAGE_SOURCE_REGISTRY: s.ImageSource.REGISTRY,
}

_NEED = {
    common.NEED_KIND_SUCCESS: s.NeedOn.SUCCESS,
    common.NEED_KIND_FAILURE: s.NeedOn.FAILURE,
    common.NEED_KIND_ANY: s.NeedOn.ANY,
}


def if_set(message: Message, field: str) -> float | None:
    """A field that may be unset; None where it is."""
    return getattr(message, field) if message.HasField(field) else None


def _int_if_set(message: Message, field: str) -> int | None:
    return getattr(message, field) if message.HasField(field) else None


def reason(message: common.EndReason, sentence: str = "") -> s.Reason:
    """Why something ended. The owning service's sentence wins over the one that is derived here from the word."""
    try:
        end = convert.end_reason(message)
    except ValueError:
        # A newer service's word; the sentence still says what happened.
        end = EndReason(EndWord.PLATFORM_ERROR, detail=f"It ended with {message.word!r}. {message.detail}".strip())
    return s.Reason(
        word=end.word,
        fault=end.fault,
        sentence=sentence or end.sentence,
        exit_code=end.exit_code,
        signal=end.signal,
    )


def _reason_of(message: jm.TaskView | tm.AttemptView | jm.Job, sentence: str = "") -> s.Reason | None:
    return reason(message.reason, sentence) if message.HasField("reason") and message.reason.word else None


def waits(messages: Iterable[common.WaitReason]) -> list[s.Wait]:
    out = []
    for message in messages:
        with contextlib.suppress(ValueError):  # a word of a newer TaskManager
            wait = convert.wait_reason(message)
            out.append(s.Wait(word=wait.word, sentence=wait.sentence))
    return out


def resources(message: common.Resources) -> s.Resources:
    return s.Resources(
        cpus=message.cpu_centi / 100,
        memory_bytes=message.memory_bytes,
        shm_bytes=message.shm_bytes,
        gpus=message.gpus,
        gpu_models=list(message.gpu_models),
        gpu_memory_bytes=message.gpu_memory_bytes or None,
        gpu_share_bytes=message.gpu_share_bytes or None,
    )


def job(message: jm.Job) -> s.Job:
    return s.Job(**_job_fields(message))


def _job_fields(message: jm.Job) -> dict[str, Any]:
    return {
        "id": message.id,
        "name": message.name,
        "owner": message.owner,
        "priority": _PRIORITY[message.priority],
        "state": JobState(message.state),
        "held": message.held,
        "submitted_at": message.submitted_at,
        "started_at": if_set(message, "started_at"),
        "ended_at": if_set(message, "ended_at"),
        "task_count": message.task_count,
        "tasks_by_state": {TaskState(k): v for k, v in message.tasks_by_state.items() if v},
        "reason": _reason_of(message),
        "reason_task": message.reason_task or None,
        "version": message.version,
        "pinned": message.pinned,
        "kept_until": if_set(message, "kept_until"),
    }


def task(
    message: jm.TaskView,
    attempts: Sequence[tm.AttemptView] = (),
    entry: tm.QueueEntry | None = None,
    *,
    job_held: bool = False,
) -> s.Task:
    """JobManager's view of a task, with TaskManager's attempts and queue entry where they are known."""
    started_at = if_set(message, "started_at")
    if started_at is None and message.state in _UNDER_WAY and attempts:
        # JobManager hears of the start of the user's process with its end; the attempt knows it at once.
        started_at = if_set(attempts[-1], "started_at")
    return s.Task(
        name=message.name,
        state=TaskState(message.state),
        needs={need.task: _NEED[need.on] for need in message.needs},
        attempt=message.attempt,
        generation=message.generation,
        reason=_reason_of(message, message.sentence),
        waits=_waits_of(message, entry, job_held),
        waits_for=list(message.waits_for),
        place=place(entry) if entry is not None and entry.position else None,
        held=message.held,
        queued_at=if_set(message, "queued_at"),
        started_at=started_at,
        ended_at=if_set(message, "ended_at"),
        image=message.image,
        image_digest=message.image_digest or None,
        image_source=_SOURCE.get(message.image_source),
        datasets=[f"{pin.name}@{pin.version}" if pin.version else pin.name for pin in message.datasets],
        code=message.code or None,
        resources=resources(message.resources),
        timeout_s=message.timeout_s,
        retries=message.retries,
        node_id=message.node_id or None,
        attempts=[attempt(view) for view in attempts],
    )


def task_spec(message: common.TaskSpec) -> s.SubmittedTask:
    """What was submitted, with defaults. For owner and admins: it has command and environment."""
    return s.SubmittedTask(**TASK.whole(convert.task_spec(message)))


def task_for_others(shown: s.Task) -> s.Task:
    """The task without what it was pinned to.

    Contents of images, datasets and code may be private. So may be their names in the job file, but for the image's.
    """
    return shown.model_copy(
        update={
            "image_digest": None,
            "datasets": [],
            "code": None,
            "reason": _reason_for_others(shown.reason),
            "waits": waits_for_others(shown.waits),
            "attempts": [attempt_for_others(one) for one in shown.attempts],
        }
    )


def attempt_for_others(shown: s.Attempt) -> s.Attempt:
    """See :func:`task_for_others`. Warnings name the owner's folders and processes."""
    less: s.Attempt = shown.model_copy(
        update={"image_id": "", "warnings": [], "reason": _reason_for_others(shown.reason), "use": None}
    )
    return less


def _reason_for_others(reason: s.Reason | None) -> s.Reason | None:
    if reason is None:
        return None
    sentence = reason.sentence
    if reason.word.facts.of_spec:
        sentence = EndReason(reason.word, reason.exit_code, reason.signal).sentence_for_others
    return reason.model_copy(update={"sentence": _DIGEST.sub("sha256:…", sentence)})


def waits_for_others(shown: list[s.Wait]) -> list[s.Wait]:
    """A pause tells why the last try failed; that part is the owner's."""
    return [
        wait.model_copy(update={"sentence": f"{wait.sentence.partition('. ')[0].rstrip('.')}."})
        if wait.word is WaitWord.RETRY_PAUSE
        else wait
        for wait in shown
    ]


def job_for_others(shown: s.Job) -> s.Job:
    """See :func:`task_for_others`."""
    less: s.Job = shown.model_copy(update={"reason": _reason_for_others(shown.reason)})
    return less


def _waits_of(message: jm.TaskView, entry: tm.QueueEntry | None, job_held: bool) -> list[s.Wait]:
    if message.state == TaskState.BLOCKED:
        out = []
        if message.held or job_held:
            out.append(s.Wait(word=WaitWord.HELD, sentence="It is on hold; release it to let it start."))
        if message.waits_for:
            out.append(s.Wait(word=WaitWord.DEPENDENCY, sentence=f"It waits for {_listed(message.waits_for)}."))
        return out
    if message.state != TaskState.QUEUED:
        return []
    if entry is not None and entry.reasons:
        return waits(entry.reasons)
    if message.held or job_held:
        return [s.Wait(word=WaitWord.HELD, sentence="It is on hold; release it to let it start.")]
    return []


def _listed(names: Sequence[str], most: int = 5) -> str:
    shown = [f"`{name}`" for name in names[:most]]
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def edges(tasks: Iterable[jm.TaskView]) -> list[s.Edge]:
    return [
        s.Edge(source=need.task, target=message.name, on=_NEED[need.on]) for message in tasks for need in message.needs
    ]


def place(entry: tm.QueueEntry) -> s.Place:
    return s.Place(
        position=entry.position,
        terms=dict(entry.terms),
        estimated_start_at=if_set(entry, "estimated_start"),
        promised_start_at=if_set(entry, "promised_start"),
        first_promised_start_at=if_set(entry, "first_promised_start"),
        estimate_rough=entry.estimate_rough,
    )


def attempt(message: tm.AttemptView) -> s.Attempt:
    phases = message.phases
    return s.Attempt(
        number=message.attempt.number,
        state=AttemptState(message.state),
        generation=message.generation,
        of_runs=message.of_runs,
        node_id=message.node_id,
        gpu_uuids=list(message.gpu_uuids),
        gpus_simulated=any(is_simulated(uuid) for uuid in message.gpu_uuids),
        reason=_reason_of(message, message.sentence),
        placed_at=message.placed_at,
        deadline_at=if_set(message, "deadline"),
        phases=s.Phases(
            scheduling_s=if_set(phases, "scheduling_s"),
            dispatch_s=if_set(phases, "dispatch_s"),
            startup_s=if_set(phases, "startup_s"),
            preparing_s=if_set(phases, "preparing_s"),
            running_s=if_set(phases, "running_s"),
        ),
        timeout_s=message.timeout_s or None,
        extensions=[
            s.Extension(at=one.at, by=one.by, seconds=one.seconds, forced=one.forced) for one in message.extensions
        ],
        extension_pending=message.extension_pending,
        sharing=gpu_share(message.share) if message.HasField("share") else None,
        use=attempt_use(message.use) if message.HasField("use") else None,
        **from_view(message),
    )


def gpu_share(message: tm.GpuShare) -> s.GpuShare:
    return s.GpuShare(
        share_bytes=message.bytes,
        gpu_index=_int_if_set(message, "gpu_index"),
        others=[
            s.Sharer(
                job_id=one.task.job_id,
                job_name=one.job_name,
                task=one.task.name,
                owner=one.owner,
                share_bytes=one.bytes,
            )
            for one in message.others
        ],
    )


def attempt_use(message: tm.AttemptUse) -> s.AttemptUse:
    return s.AttemptUse(
        measured_s=message.measured_s,
        cpu_s=if_set(message, "cpu_s"),
        disk_read_bytes=_int_if_set(message, "disk_read_bytes"),
        disk_written_bytes=_int_if_set(message, "disk_written_bytes"),
        network_received_bytes=_int_if_set(message, "network_received_bytes"),
        network_sent_bytes=_int_if_set(message, "network_sent_bytes"),
        gpus=[
            s.GpuUse(
                uuid=gpu.uuid,
                model=gpu.model,
                memory_bytes=gpu.memory_bytes,
                measured_s=gpu.measured_s,
                mean_utilisation=if_set(gpu, "mean_utilisation"),
                peak_memory_used_bytes=_int_if_set(gpu, "peak_memory_used_bytes"),
                energy_j=if_set(gpu, "energy_j"),
                idle_s=gpu.idle_s,
            )
            for gpu in message.gpus
        ],
    )


def queue_entry(entry: tm.QueueEntry) -> s.QueueEntry:
    return s.QueueEntry(
        job_id=entry.task.job_id,
        job_name=entry.job_name,
        task=entry.task.name,
        owner=entry.owner,
        state=TaskState(entry.state) if entry.state else TaskState.QUEUED,
        position=entry.position,
        attempt=entry.attempt,
        priority=_PRIORITY[entry.priority],
        held=entry.held,
        resources=resources(entry.resources),
        timeout_s=entry.timeout_s,
        submitted_at=entry.submitted_at,
        terms=dict(entry.terms),
        estimated_start_at=if_set(entry, "estimated_start"),
        promised_start_at=if_set(entry, "promised_start"),
        first_promised_start_at=if_set(entry, "first_promised_start"),
        waits=waits(entry.reasons),
        estimate_rough=entry.estimate_rough,
    )


def queue(reply: tm.GetQueueReply) -> s.Queue:
    return s.Queue(
        entries=[queue_entry(entry) for entry in reply.entries],
        total_waiting=reply.total_waiting,
        total_matching=reply.total_matching,
        total_running=reply.total_running,
        policy=reply.policy,
        discipline=reply.discipline,
        scheduling=scheduling(reply.scheduling),
        running=[booking(one) for one in reply.running],
        running_matching=reply.running_matching,
    )


def booking(message: tm.Booking) -> s.TaskBooking:
    return s.TaskBooking(
        job_id=message.attempt.task.job_id,
        job_name=message.job_name,
        task=message.attempt.task.name,
        attempt=message.attempt.number,
        owner=message.owner,
        state=AttemptState(message.state),
        priority=_PRIORITY[message.priority],
        node_id=message.node_id,
        gpu_uuids=list(message.gpu_uuids),
        resources=resources(message.resources),
        timeout_s=message.timeout_s,
        since_at=message.since,
        started_at=if_set(message, "started"),
        deadline_at=if_set(message, "deadline"),
        ends_by_at=message.ends_by,
        overdue=message.overdue,
    )


def scheduling(message: tm.Scheduling) -> s.Scheduling:
    return s.Scheduling(
        policy=message.policy,
        discipline=message.discipline,
        configured_policy=message.configured_policy,
        configured_discipline=message.configured_discipline,
        policy_set_by=message.policy_set_by or None,
        policy_set_at=if_set(message, "policy_set_at"),
        discipline_set_by=message.discipline_set_by or None,
        discipline_set_at=if_set(message, "discipline_set_at"),
        failure=message.failure,
        contradictions=list(message.contradictions),
        promises=message.promises or "settled",
        promised=message.promised,
        slack_s=message.slack_s,
        growth_failure=message.growth_failure,
    )


def gpu(message: rm.Gpu) -> s.Gpu:
    return s.Gpu(**_gpu_fields(message))


def _gpu_fields(message: rm.Gpu) -> dict[str, Any]:
    return {
        "uuid": message.uuid,
        "model": message.model,
        "memory_bytes": message.memory_bytes,
        "index": message.index,
        "simulated": message.simulated,
        **reported(message),
        "sick": message.sick,
        "busy_outside": message.busy_outside,
        "note": message.note,
        "processes": [
            s.OutsideProcess(
                pid=one.pid,
                owner=one.owner,
                command=one.command,
                memory_used_bytes=one.memory_used_bytes if one.HasField("memory_used_bytes") else None,
            )
            for one in message.processes
        ],
        "fault": message.fault,
        "quarantined_since": message.quarantined_since or None,
        "parent_uuid": message.parent_uuid,
        "linked_uuids": list(message.linked_uuids),
        "shared": message.shared,
    }


def node(message: rm.Node) -> s.Node:
    status, capacity = message.status, message.status.capacity
    return s.Node(
        id=message.id,
        health=NodeHealth(message.health),
        health_sentence=message.health_sentence,
        admission=Admission(message.admission),
        note=message.note,
        registered_at=message.registered_at,
        seen_at=message.seen_at,
        incarnation=message.incarnation,
        version=message.version,
        runtime=capacity.runtime,
        architecture=capacity.architecture,
        engine_version=capacity.engine_version,
        driver_version=capacity.driver_version,
        cuda_version=capacity.cuda_version,
        gpu_passing=capacity.gpu_passing,
        most_ulimits={one.name: one.hard for one in capacity.most_ulimits},
        labels=dict(message.labels),
        cpus=capacity.cpu_centi / 100,
        cpus_used=if_set(status, "cpu_used"),
        memory_bytes=capacity.memory_bytes,
        memory_used_bytes=_int_if_set(status, "memory_used_bytes"),
        memory_total_bytes=_int_if_set(status, "memory_total_bytes"),
        disk_free_bytes=_int_if_set(status, "disk_free_bytes"),
        disk_total_bytes=_int_if_set(status, "disk_total_bytes"),
        load1=if_set(status, "load1"),
        live_attempts=status.live_attempts,
        gpus=[s.NodeGpu(**_gpu_fields(g)) for g in capacity.gpus],
        images=list(status.images),
        conditions=[
            s.Condition(word=c.word, sentence=c.sentence, since_at=c.since, blocks_work=c.blocks_work)
            for c in status.conditions
        ],
        drain=_drain(message) if message.HasField("drain") else None,
        events=[s.NodeEvent(at=e.at, word=e.word, sentence=e.sentence) for e in message.events],
    )


def _drain(message: rm.Node) -> s.NodeDrain:
    drain = message.drain
    return s.NodeDrain(
        since_at=drain.since_at,
        by=drain.by,
        until_at=drain.until_at or None,
        attempts_at_start=drain.attempts_at_start,
        attempts_left=message.status.live_attempts,
        last_ends_by_at=None,
        return_when_back=drain.return_when_back,
        return_at=drain.return_at or None,
    )


def drain_preview(reply: tm.PreviewDrainReply) -> s.DrainPreview:
    return s.DrainPreview(
        running=[booking(one) for one in reply.running],
        total_running=reply.total_running,
        stranded=[
            s.StrandedTask(job_id=one.task.job_id, task=one.task.name, owner=one.owner, job_name=one.job_name)
            for one in reply.stranded
        ],
        total_stranded=reply.total_stranded,
    )


def usage_point(message: rm.UsagePoint) -> s.UsagePoint:
    return s.UsagePoint(
        at=message.at,
        span_s=message.span_s,
        live_attempts=message.live_attempts,
        peak=s.UsagePeak(**_readings(message.peak)) if message.HasField("peak") else None,
        **_readings(message),
    )


def _readings(message: rm.UsagePoint) -> dict[str, Any]:
    return {
        "cpus_used": if_set(message, "cpu_used"),
        "memory_used_bytes": _int_if_set(message, "memory_used_bytes"),
        "disk_free_bytes": _int_if_set(message, "disk_free_bytes"),
        "gpus": [s.UsageGpu(uuid=g.uuid, model=g.model, index=g.index, **reported(g)) for g in message.gpus],
    }
