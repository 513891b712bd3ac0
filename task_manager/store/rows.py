"""Tasks, attempts and nodes as rows of the database, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import Row

from headway.ids import AttemptId, JobId, NodeId, TaskId
from headway.model.attempt_facts import FACTS, AttemptFacts, Fact
from headway.model.reasons import EndReason, EndWord
from headway.states import Admission, AttemptState, NodeHealth, TaskState

from ..engine.usage import gpu_shares
from ..model import Attempt, Condition, Extension, Gpu, Node, Shape, Task


def task_fixed(task: Task) -> tuple[Any, ...]:
    """The columns that never change."""
    shape = task.shape
    return (
        task.id.job_id, task.id.name, task.generation, task.owner, task.job_name, task.priority, task.tail_timeout_s,
        shape.cpu_centi, shape.memory_bytes, shape.gpus, _list_json(shape.gpu_models), shape.gpu_memory_bytes,
        task.timeout_s, task.retries, _image_json(shape), *task.prints, task.grace_s,
        task.mean_timeout_s, shape.gpu_share_bytes,
    )  # fmt: skip


def task_moving(task: Task) -> tuple[Any, ...]:
    """The columns that may change."""
    return (
        task.submitted_at, task.held, task.state.value, task.queued_at, task.not_before, task.attempt,
        task.user_failures, task.platform_failures, task.losses, task.refusals, _list_json(task.avoid),
        _list_json(task.disowned), task.event_seq, task.command_seq, task.cancel_by, task.ended_at,
        _reason_json(task.reason), task.spent_s,
    )  # fmt: skip


def task_of(row: Row[Any]) -> Task:
    # Unpacked in the order of the table: a start with a long queue reads hundreds of thousands of these.
    (
        job_id, name, generation, owner, job_name, priority, submitted_at, tail_timeout_s, cpu_centi, memory_bytes,
        gpus, gpu_models, gpu_memory_bytes, timeout_s, retries, held, state, queued_at, not_before, attempt,
        user_failures, platform_failures, losses, refusals, avoid, disowned, event_seq, command_seq, cancel_by,
        ended_at, reason, image, command_print, task_print, spent_s, grace_s, mean_timeout_s,
        gpu_share_bytes,
    ) = tuple(row)  # fmt: skip
    shape = _shape(cpu_centi, memory_bytes, gpus, gpu_models, gpu_memory_bytes, image, gpu_share_bytes)
    return Task(
        TaskId(JobId(job_id), name), generation, owner, job_name, priority, submitted_at, tail_timeout_s, shape,
        timeout_s, retries, held, _TASK_STATES[state], queued_at, not_before, attempt, user_failures,
        platform_failures, losses, refusals, _list(avoid), _list(disowned), event_seq, command_seq, cancel_by,
        ended_at, _reason(reason), spent_s, (command_print, task_print), grace_s, mean_timeout_s,
    )  # fmt: skip


_TASK_STATES = {state.value: state for state in TaskState}


@lru_cache(maxsize=10_000)
def _shape(
    cpu_centi: int,
    memory_bytes: int,
    gpus: int,
    gpu_models: str,
    gpu_memory_bytes: int,
    image: str,
    gpu_share_bytes: int = 0,
) -> Shape:
    # Tasks are mostly alike: all tasks of a shape share one object.
    architecture, require_cuda, digest, there, *later = json.loads(image) if image else ("", "", "", False)
    ulimits = tuple((name, hard) for name, hard in later[0]) if later else ()  # versions before kept none
    node_id, uuids = later[1] if len(later) > 1 else ("", ())
    return Shape(
        cpu_centi, memory_bytes, gpus, _list(gpu_models), gpu_memory_bytes, architecture, require_cuda, digest, there,
        ulimits, node_id, tuple(uuids), gpu_share_bytes,
    )  # fmt: skip


def _image_json(shape: Shape) -> str:
    if shape.is_plain and not shape.image:
        return ""
    asks = [shape.architecture, shape.require_cuda, shape.image, shape.needs_image_there]
    if shape.node_id:
        return json.dumps([*asks, shape.ulimits, [shape.node_id, shape.gpu_uuids]])
    return json.dumps([*asks, shape.ulimits] if shape.ulimits else asks)


def attempt_fixed(attempt: Attempt) -> tuple[Any, ...]:
    """The columns that never change."""
    return (
        attempt.id.task.job_id, attempt.id.task.name, attempt.id.number, attempt.generation, attempt.node_id,
        attempt.shape.cpu_centi, attempt.shape.memory_bytes, _list_json(attempt.gpu_uuids),
        attempt.of_runs, attempt.queued_at, attempt.placed_at, *attempt.prints, attempt.owner, attempt.shape.gpus,
        attempt.boot_id, attempt.placed_s, attempt.shape.gpu_share_bytes, attempt.gpu_fraction,
    )  # fmt: skip


def attempt_moving(attempt: Attempt) -> tuple[Any, ...]:
    """The columns that may change."""
    return (
        attempt.state.value, attempt.incarnation, attempt.answered_at, attempt.stop_word, attempt.stop_at,
        _reason_json(attempt.reason), attempt.timeout_s, _list_json([asdict(one) for one in attempt.extensions]),
        attempt.freed_at, _list_json(attempt.late_warnings), attempt.use or None, *astuple(gpu_shares(attempt)),
        *stored_facts(attempt),
    )  # fmt: skip


def attempt_of(row: Row[Any], shape: Shape | None = None) -> Attempt:
    gpu_uuids = _list(row.gpu_uuids)
    return Attempt(
        id=AttemptId(TaskId(JobId(row.job_id), row.name), row.number),
        generation=row.generation,
        state=AttemptState(row.state),
        node_id=NodeId(row.node_id),
        incarnation=row.incarnation,
        shape=shape or Shape(row.cpu_centi, row.memory_bytes, row.gpus, gpu_share_bytes=row.gpu_share_bytes),
        gpu_uuids=gpu_uuids,
        timeout_s=row.timeout_s,
        of_runs=row.of_runs,
        queued_at=row.queued_at,
        placed_at=row.placed_at,
        answered_at=row.answered_at,
        stop_word=row.stop_word,
        stop_at=row.stop_at,
        reason=_reason(row.reason),
        prints=(row.command_print, row.task_print),
        extensions=tuple(Extension(**one) for one in _list(row.extensions)),
        owner=row.owner,
        freed_at=row.freed_at,
        boot_id=row.boot_id,
        placed_s=row.placed_s,
        gpu_fraction=row.gpu_fraction,
        late_warnings=_list(row.late_warnings),
        use=row.use or b"",
        **facts_of(row),
    )


def stored_facts(attempt: AttemptFacts, rows: Iterable[Fact] = FACTS) -> list[Any]:
    """The values of the columns of facts."""
    values = [(row.kind, getattr(attempt, row.name)) for row in rows]
    return [_list_json(value) if kind is tuple else value for kind, value in values]


def facts_of(stored: Row[Any], rows: Iterable[Fact] = FACTS) -> dict[str, Any]:
    """The facts of a stored attempt by name."""
    values = [(row.name, row.kind, getattr(stored, row.name)) for row in rows]
    return {name: _list(value) if kind is tuple else value for name, kind, value in values}


def _list_json(values: Sequence[Any]) -> str:
    return json.dumps(list(values)) if values else "[]"


def _list(text: str) -> tuple[Any, ...]:
    return () if text == "[]" else tuple(json.loads(text))


def _reason_json(reason: EndReason | None) -> str | None:
    if reason is None:
        return None
    return json.dumps(
        {"word": reason.word.value, "exit_code": reason.exit_code, "signal": reason.signal, "detail": reason.detail}
    )


def _reason(text: str | None) -> EndReason | None:
    if text is None:
        return None
    data = json.loads(text)
    return EndReason(EndWord(data["word"]), data["exit_code"], data["signal"], data["detail"])


def node_json(node: Node) -> str:
    # Images are left out: there are up to a thousand digests, and ResourceManager's first message has them again.
    return json.dumps(asdict(replace(node, images=frozenset())) | {"images": []})


def node_of(text: str) -> Node:
    data = json.loads(text)
    return Node(
        id=NodeId(data["id"]),
        incarnation=data["incarnation"],
        address=data["address"],
        health=NodeHealth(data["health"]),
        admission=Admission(data["admission"]),
        cpu_centi=data["cpu_centi"],
        memory_bytes=data["memory_bytes"],
        gpus=tuple(Gpu(**gpu) for gpu in data["gpus"]),
        conditions=tuple(Condition(**condition) for condition in data["conditions"]),
        architecture=data.get("architecture", ""),
        driver_version=data.get("driver_version", ""),
        most_ulimits=tuple((name, hard) for name, hard in data.get("most_ulimits", ())),
        cuda_version=data.get("cuda_version", ""),
        drain_until_at=data.get("drain_until_at", 0.0),
        drain_note=data.get("drain_note", ""),
    )
