"""Protobuf messages to domain objects and back, here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable

from .. import errors, fingerprint
from ..ids import AttemptId, JobId, TaskId
from ..jobfile.spec import (
    Entrypoint,
    LogLimitAction,
    Need,
    NeedOn,
    Network,
    Priority,
    ResourceSpec,
    RunAs,
    Shell,
    TaskSpec,
)
from ..model.reasons import EndReason, EndWord, WaitReason, WaitWord
from .v1 import common_pb2 as pb

_NEED_TO_PB = {
    NeedOn.SUCCESS: pb.NEED_KIND_SUCCESS,
    NeedOn.FAILURE: pb.NEED_KIND_FAILURE,
    NeedOn.ANY: pb.NEED_KIND_ANY,
}
_NEED_FROM_PB = {v: k for k, v in _NEED_TO_PB.items()}
_PRIORITY_TO_PB = {
    Priority.LOW: pb.PRIORITY_LOW,
    Priority.NORMAL: pb.PRIORITY_NORMAL,
    Priority.HIGH: pb.PRIORITY_HIGH,
}
_PRIORITY_FROM_PB = {v: k for k, v in _PRIORITY_TO_PB.items()}
PRIORITY_RANK = {Priority.LOW: -1, Priority.NORMAL: 0, Priority.HIGH: 1}
"""The ``p`` of docs/scheduling.md."""


def task_id(message: pb.Task) -> TaskId:
    return TaskId(JobId(message.job_id), message.name)


def task_to_pb(task: TaskId) -> pb.Task:
    return pb.Task(job_id=task.job_id, name=task.name)


def attempt_id(message: pb.Attempt) -> AttemptId:
    return AttemptId(task_id(message.task), message.number)


def attempt_to_pb(attempt: AttemptId) -> pb.Attempt:
    return pb.Attempt(task=task_to_pb(attempt.task), number=attempt.number)


def priority(value: pb.Priority) -> Priority:
    return _PRIORITY_FROM_PB[value]


def priority_to_pb(value: Priority) -> pb.Priority:
    return _PRIORITY_TO_PB[value]


def needs(messages: Iterable[pb.Need]) -> tuple[Need, ...]:
    return tuple(Need(m.task, _NEED_FROM_PB[m.on]) for m in messages)


def needs_to_pb(values: Iterable[Need]) -> list[pb.Need]:
    return [pb.Need(task=n.task, on=_NEED_TO_PB[n.on]) for n in values]


def resources(message: pb.Resources) -> ResourceSpec:
    return ResourceSpec(
        cpus_centi=message.cpu_centi,
        memory_bytes=message.memory_bytes,
        shm_bytes=message.shm_bytes,
        gpus=message.gpus,
        gpu_models=tuple(message.gpu_models),
        gpu_memory_bytes=message.gpu_memory_bytes or None,
    )


def resources_to_pb(value: ResourceSpec) -> pb.Resources:
    return pb.Resources(
        cpu_centi=value.cpus_centi,
        memory_bytes=value.memory_bytes,
        shm_bytes=value.shm_bytes,
        gpus=value.gpus,
        gpu_models=value.gpu_models,
        gpu_memory_bytes=value.gpu_memory_bytes or 0,
    )


def task_spec(message: pb.TaskSpec) -> TaskSpec:
    """The spec of one task; the pinned image digest, which is no part of a job file, stays in the message."""
    script = message.WhichOneof("command") == "script"
    shell = Shell.BASH if message.shell == pb.SHELL_BASH else Shell.SH
    return TaskSpec(
        name=message.name,
        image=message.image,
        command=message.script if script else tuple(message.argv.words),
        timeout_s=message.timeout_s,
        needs=needs(message.needs),
        shell=shell if script else None,
        entrypoint=Entrypoint.IMAGE if message.entrypoint == pb.ENTRYPOINT_IMAGE else Entrypoint.REPLACE,
        env=tuple((e.name, e.value) for e in message.env),
        working_dir=message.working_dir or None,
        code=message.code or None,
        datasets=tuple(message.datasets),
        resources=resources(message.resources),
        grace_s=message.grace_s,
        retries=message.retries,
        user=RunAs.IMAGE if message.user == pb.RUN_AS_IMAGE else RunAs.ACCOUNT,
        network=Network.OUTGOING if message.network else Network.NONE,
        output_path=message.output_path or None,
        log_limit_bytes=message.log_limit_bytes,
        log_limit_action=LogLimitAction.KILL if message.kill_at_log_limit else LogLimitAction.DROP,
    )


def task_spec_to_pb(spec: TaskSpec, image_digest: str = "") -> pb.TaskSpec:
    message = pb.TaskSpec(
        name=spec.name,
        needs=needs_to_pb(spec.needs),
        image=spec.image,
        shell=pb.SHELL_BASH if spec.shell is Shell.BASH else pb.SHELL_SH,
        entrypoint=pb.ENTRYPOINT_IMAGE if spec.entrypoint is Entrypoint.IMAGE else pb.ENTRYPOINT_REPLACE,
        env=[pb.EnvVar(name=k, value=v) for k, v in spec.env],
        working_dir=spec.working_dir or "",
        code=spec.code or "",
        datasets=spec.datasets,
        resources=resources_to_pb(spec.resources),
        timeout_s=spec.timeout_s,
        grace_s=spec.grace_s,
        retries=spec.retries,
        user=pb.RUN_AS_IMAGE if spec.user is RunAs.IMAGE else pb.RUN_AS_ACCOUNT,
        output_path=spec.output_path or "",
        network=spec.network is Network.OUTGOING,
        log_limit_bytes=spec.log_limit_bytes,
        kill_at_log_limit=spec.log_limit_action is LogLimitAction.KILL,
        image_digest=image_digest,
    )
    if isinstance(spec.command, str):
        message.script = spec.command
    else:
        message.argv.words.extend(spec.command)
    return message


def kind_of(message: pb.TaskSpec) -> bytes:
    """What the task runs, as runs are compared (``fingerprint``)."""
    command = message.script if message.WhichOneof("command") == "script" else tuple(message.argv.words)
    return fingerprint.kind_of(message.image, command, entrypoint=str(message.entrypoint))


def end_reason(message: pb.EndReason) -> EndReason:
    """Raises ValueError for a word that this version does not know."""
    return EndReason(
        word=EndWord(message.word),
        exit_code=message.exit_code if message.HasField("exit_code") else None,
        signal=message.signal if message.HasField("signal") else None,
        detail=message.detail,
    )


def end_reason_to_pb(reason: EndReason) -> pb.EndReason:
    return pb.EndReason(word=reason.word.value, exit_code=reason.exit_code, signal=reason.signal, detail=reason.detail)


def wait_reason(message: pb.WaitReason) -> WaitReason:
    return WaitReason(WaitWord(message.word), message.sentence)


def wait_reason_to_pb(reason: WaitReason) -> pb.WaitReason:
    return pb.WaitReason(word=reason.word.value, sentence=reason.sentence)


def problem(message: pb.Problem) -> errors.Problem:
    return errors.Problem(
        pointer=message.pointer,
        message=message.message,
        line=message.line if message.HasField("line") else None,
        column=message.column if message.HasField("column") else None,
        word=message.word,
        allowed=tuple(message.allowed),
        suggestion=message.suggestion,
    )


def problem_to_pb(value: errors.Problem) -> pb.Problem:
    return pb.Problem(
        pointer=value.pointer,
        message=value.message,
        line=value.line,
        column=value.column,
        word=value.word,
        allowed=value.allowed,
        suggestion=value.suggestion,
    )
