"""Protobuf messages to domain objects and back, here and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .. import errors, fingerprint
from ..errors import InvalidInput
from ..ids import AttemptId, JobId, TaskId
from ..jobfile.spec import RESOURCES, TASK, Need, NeedOn, Network, Priority, ResourceSpec, SecretUse, TaskSpec, Ulimit
from ..model.reasons import EndReason, EndWord, WaitReason, WaitWord
from ..safe_text import valid_text
from .columns import columns
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

# More than the timeouts of a job of 100,000 tasks in a row.
_LONGEST_S = 1e13


def task_id(message: pb.Task) -> TaskId:
    return TaskId(JobId(message.job_id), message.name)


def task_to_pb(task: TaskId) -> pb.Task:
    return pb.Task(job_id=task.job_id, name=task.name)


def attempt_id(message: pb.Attempt) -> AttemptId:
    return AttemptId(task_id(message.task), message.number)


def attempt_to_pb(attempt: AttemptId) -> pb.Attempt:
    return pb.Attempt(task=task_to_pb(attempt.task), number=attempt.number)


def priority(value: pb.Priority) -> Priority:
    found = _PRIORITY_FROM_PB.get(value)
    if found is None:
        raise InvalidInput(f"There is no priority number {value}.")
    return found


def finite(value: float, what: str) -> float:
    """
    Raises:
        InvalidInput: it is no number, or endless: comparing and counting with it would go wrong far from here.
    """
    if not math.isfinite(value):
        raise InvalidInput(f"{what} is {value}; it must be a finite number.")
    return value


def priority_to_pb(value: Priority) -> pb.Priority:
    return _PRIORITY_TO_PB[value]


def duration_s(value: float, what: str) -> float:
    """
    Raises:
        InvalidInput: it is no duration that anything could take.
    """
    if not 0 <= value <= _LONGEST_S:
        raise InvalidInput(f"{what} is {value}; it must be from 0 to {_LONGEST_S:.0f} seconds.")
    return value


def needs(messages: Iterable[pb.Need]) -> tuple[Need, ...]:
    found = tuple(messages)
    for m in found:
        if m.on not in _NEED_FROM_PB:
            raise InvalidInput(f"There is no kind of need number {m.on}.")
    return tuple(Need(m.task, _NEED_FROM_PB[m.on]) for m in found)


def needs_to_pb(values: Iterable[Need]) -> list[pb.Need]:
    return [pb.Need(task=n.task, on=_NEED_TO_PB[n.on]) for n in values]


_RESOURCES = columns(RESOURCES, pb.Resources)
_TASK = columns(TASK, pb.TaskSpec)


def resources(message: pb.Resources) -> ResourceSpec:
    return ResourceSpec(**_RESOURCES.from_wire(message))


def resources_to_pb(value: ResourceSpec) -> pb.Resources:
    return pb.Resources(**_RESOURCES.to_wire(value))


def ulimits(messages: Iterable[pb.Ulimit]) -> tuple[Ulimit, ...]:
    return tuple(Ulimit(m.name, m.soft, m.hard) for m in messages)


def ulimits_to_pb(values: Iterable[Ulimit]) -> list[pb.Ulimit]:
    return [pb.Ulimit(name=one.name, soft=one.soft, hard=one.hard) for one in values]


def secrets(messages: Iterable[pb.SecretUse]) -> tuple[SecretUse, ...]:
    return tuple(SecretUse(m.name, m.env, m.file) for m in messages)


def secrets_to_pb(values: Iterable[SecretUse]) -> list[pb.SecretUse]:
    return [pb.SecretUse(name=one.name, env=one.env, file=one.file) for one in values]


def task_spec(message: pb.TaskSpec) -> TaskSpec:
    """The spec of one task; the pinned image digest, which is no part of a job file, stays in the message."""
    values = _TASK.from_wire(message)
    if message.WhichOneof("command") == "script":
        command: str | tuple[str, ...] = message.script
    else:
        command = tuple(message.argv.words)
        values["shell"] = None
    return TaskSpec(
        command=command,
        needs=needs(message.needs),
        env=tuple((e.name, e.value) for e in message.env),
        resources=resources(message.resources),
        network=_network(message),
        ulimits=ulimits(message.ulimits),
        secrets=secrets(message.secrets),
        **values,
    )


def task_spec_to_pb(spec: TaskSpec, image_digest: str = "") -> pb.TaskSpec:
    message = pb.TaskSpec(
        needs=needs_to_pb(spec.needs),
        env=[pb.EnvVar(name=k, value=v) for k, v in spec.env],
        resources=resources_to_pb(spec.resources),
        image_digest=image_digest,
        network=spec.network is not Network.NONE,
        job_network=spec.network is Network.JOB,
        ulimits=ulimits_to_pb(spec.ulimits),
        secrets=secrets_to_pb(spec.secrets),
        **_TASK.to_wire(spec),
    )
    if isinstance(spec.command, str):
        message.script = spec.command
    else:
        message.argv.words.extend(spec.command)
    return message


def _network(message: pb.TaskSpec) -> Network:
    if message.job_network:
        return Network.JOB
    return Network.OUTGOING if message.network else Network.NONE


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
    detail = valid_text(reason.detail)
    return pb.EndReason(word=reason.word.value, exit_code=reason.exit_code, signal=reason.signal, detail=detail)


def wait_reason(message: pb.WaitReason) -> WaitReason:
    return WaitReason(WaitWord(message.word), message.sentence)


def wait_reason_to_pb(reason: WaitReason) -> pb.WaitReason:
    return pb.WaitReason(word=reason.word.value, sentence=valid_text(reason.sentence))


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
        message=valid_text(value.message),
        line=value.line,
        column=value.column,
        word=valid_text(value.word),
        allowed=value.allowed,
        suggestion=value.suggestion,
    )
