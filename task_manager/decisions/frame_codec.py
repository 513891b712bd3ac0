"""Frames as bytes: compressed JSON. Some frames are whole; the others hold what changed since the one before."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any, TypeVar

from headway.ids import JobId, NodeId, TaskId
from headway.states import Admission, NodeHealth

from ..limits import AdmissionLimits, ShortTaskReserve
from ..model import Condition, Gpu, Node, Shape, Task
from ..planning.bookings import Booking, Reservation
from ..planning.changes import Change
from ..planning.pass_model import Discipline, PassSettings, Placement, PromiseRule, Wait, WaitCause
from ..planning.placement import CpuTasks
from .frames import Frame, FrameHeader, FrameNodeCapacity, FrameTask

V = TypeVar("V")
_LEVEL = 3
_VERSION = 1
_PARTS = ("tasks", "nodes", "left", "running", "places", "waits")


def encode(now: Frame, before: Frame | None) -> bytes:
    """``now`` as the difference from ``before``; without ``before``, the whole frame."""
    data: dict[str, Any] = {"v": _VERSION, "head": _head(now.head)}
    if before is None or before.head.settings != now.head.settings:
        data["settings"] = _settings(now.head.settings)
    for part in _PARTS:
        old: Mapping[Any, Any] = getattr(before, part) if before is not None else {}
        changed = _changed(getattr(now, part), old, _TO_ROW[part])
        gone = [_key(key) for key in old if key not in getattr(now, part)]
        if changed:
            data[part] = changed
        if gone:
            data[f"{part}_gone"] = gone
    data["placements"] = [[*_key(p.task_id), p.node_id, p.gpu_uuids] for p in now.placements]
    if now.order:
        number = {task_id: i for i, task_id in enumerate(sorted(now.tasks))}
        data["order"] = [number[task_id] for task_id in now.order]
        data["numbers"] = [[number[task_id], value] for task_id, value in now.numbers.items()]
    if now.changes:
        data["changes"] = [_change(change) for change in now.changes]
    if now.outlived:
        data["outlived"] = [_key(task_id) for task_id in now.outlived]
    return zlib.compress(json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode(), _LEVEL)


def decode(blob: bytes, before: Frame | None) -> Frame:
    """The reverse of ``encode``.

    Raises:
        ValueError, KeyError, TypeError, zlib.error: these are not the bytes of a frame that follows ``before``.
    """
    data = json.loads(zlib.decompress(blob))
    if data["v"] != _VERSION:
        raise ValueError(f"a frame of version {data['v']}")
    settings = _settings_of(data["settings"]) if "settings" in data else _of(before).head.settings
    parts: dict[str, dict[Any, Any]] = {}
    for part in _PARTS:
        there: dict[Any, Any] = dict(getattr(before, part)) if before is not None else {}
        read_key = _node_key if part in ("nodes", "left") else _task_key
        for row in data.get(f"{part}_gone", ()):
            there.pop(read_key(row), None)
        for row, *values in data.get(part, ()):
            key = read_key(row)
            there[key] = _FROM_ROW[part](key, values)
        parts[part] = there
    ids = sorted(parts["tasks"]) if "order" in data else []
    return Frame(
        head=_head_of(data["head"], settings),
        **parts,
        placements=tuple(
            Placement(TaskId(JobId(job), name), NodeId(node), tuple(uuids))
            for job, name, node, uuids in data["placements"]
        ),
        order=tuple(ids[i] for i in data.get("order", ())),
        numbers={ids[i]: key for i, key in data.get("numbers", ())},
        outlived=tuple(_task_key(row) for row in data.get("outlived", ())),
        changes=tuple(_change_of(row) for row in data.get("changes", ())),
    )


def _of(before: Frame | None) -> Frame:
    if before is None:
        raise ValueError("a frame that follows another one stands alone")
    return before


def _changed(now: Mapping[Any, V], old: Mapping[Any, V], to_row: Callable[[V], list[Any]]) -> list[list[Any]]:
    return [[_key(key), *to_row(value)] for key, value in now.items() if old.get(key) != value]


def _key(key: TaskId | NodeId) -> Any:
    return [key.job_id, key.name] if isinstance(key, TaskId) else key


def _task_key(row: Iterable[str]) -> TaskId:
    job_id, name = row
    return TaskId(JobId(job_id), name)


def _node_key(row: str) -> NodeId:
    return NodeId(row)


# -- rows -----------------------------------------------------------------------------------------


def _head(head: FrameHeader) -> list[Any]:
    return [
        head.now_s, head.wall_s, head.policy, head.gpus, head.waiting, head.waiting_gpu_s, head.failure, head.whole,
        head.ahead_s,
    ]  # fmt: skip


def _head_of(row: list[Any], settings: PassSettings) -> FrameHeader:
    now_s, wall_s, policy, gpus, waiting, waiting_gpu_s, failure, whole, *ahead_s = row  # old frames have none
    return FrameHeader(now_s, wall_s, policy, settings, gpus, waiting, waiting_gpu_s, failure, whole, *ahead_s)


def _settings(settings: PassSettings) -> dict[str, Any]:
    # Machines that could be grown decide what is taken at submit, and nothing in a pass.
    return asdict(replace(settings, grown=()))


def _settings_of(data: Mapping[str, Any]) -> PassSettings:
    limits = dict(data["limits"])
    reserve = limits["short_reserve"]
    limits["short_reserve"] = None if reserve is None else ShortTaskReserve(**reserve)
    limits["max_timeouts"] = tuple((least, limit) for least, limit in limits["max_timeouts"])
    known = {field.name for field in fields(PassSettings)}
    given = {name: value for name, value in data.items() if name in known and name != "grown"}
    given["limits"] = AdmissionLimits(
        **{field.name: limits[field.name] for field in fields(AdmissionLimits) if field.name in limits}
    )
    given["discipline"] = Discipline(data["discipline"])
    given["promises"] = PromiseRule(data.get("promises", "settled"))  # versions before knew no other
    given["cpu_tasks"] = CpuTasks(data["cpu_tasks"])
    return PassSettings(**given)


def _shape(shape: Shape) -> list[Any]:
    row = [
        shape.cpu_centi, shape.memory_bytes, shape.gpus, shape.gpu_models, shape.gpu_memory_bytes, shape.architecture,
        shape.require_cuda, shape.image, shape.needs_image_there,
        shape.ulimits, shape.node_id, shape.gpu_uuids, shape.gpu_share_bytes,
    ]  # fmt: skip
    while len(row) > 3 and not row[-1]:
        row.pop()
    return row


def _shape_of(row: list[Any]) -> Shape:
    ulimits = [tuple((name, hard) for name, hard in row[9])] if len(row) > 9 else []
    uuids = [tuple(row[11])] if len(row) > 11 else []
    return Shape(
        *row[:3], *([tuple(row[3])] if len(row) > 3 else ()), *row[4:9], *ulimits, *row[10:11], *uuids, *row[12:13]
    )


def _task(seen: FrameTask) -> list[Any]:
    task = seen.task
    return [
        task.owner, task.priority, task.submitted_at, task.tail_timeout_s, _shape(task.shape), task.timeout_s,
        task.retries, task.user_failures, task.spent_s, task.avoid, task.held, task.attempt, seen.number, seen.queued,
        seen.runnable, seen.closes_at, task.grace_s,
    ]  # fmt: skip


def _task_of(task_id: TaskId, row: list[Any]) -> FrameTask:
    (
        owner, priority, submitted_at, tail_timeout_s, shape, timeout_s, retries, user_failures, spent_s, avoid, held,
        attempt, number, queued, runnable, closes_at, *later,
    ) = row  # fmt: skip
    task = Task(
        id=task_id, generation=1, owner=owner, job_name="", priority=priority, submitted_at=submitted_at,
        tail_timeout_s=tail_timeout_s, shape=_shape_of(shape), timeout_s=timeout_s, retries=retries, held=held,
        attempt=attempt, user_failures=user_failures, avoid=tuple(NodeId(node) for node in avoid), spent_s=spent_s,
        grace_s=later[0] if later else 0.0,  # versions before kept none
    )  # fmt: skip
    return FrameTask(task, number, queued, runnable, closes_at)


def _words_of(gpu: Gpu) -> list[str | bool]:
    """Most cards have none, and frames are many."""
    words: list[str | bool] = [gpu.fault, gpu.note, gpu.shared]
    while words and not words[-1]:
        words.pop()
    return words


def _node(node: Node) -> list[Any]:
    return [
        node.health.value, node.admission.value, node.cpu_centi, node.memory_bytes,
        [
            [g.uuid, g.model, g.memory_bytes, g.index, g.sick, g.busy_outside, *_words_of(g)]
            for g in node.gpus
        ],
        [[c.word, c.sentence, c.blocks_work] for c in node.conditions],
        node.architecture, node.driver_version, node.cuda_version, sorted(node.images), node.incarnation, node.address,
        *([node.most_ulimits] if node.most_ulimits else []),
    ]  # fmt: skip


def _node_of(node_id: NodeId, row: list[Any]) -> Node:
    (
        health, admission, cpu, memory, gpus, conditions, architecture, driver, cuda, images, incarnation, address,
        *later,
    ) = row  # fmt: skip
    return Node(
        id=node_id, incarnation=incarnation, address=address, health=NodeHealth(health),
        admission=Admission(admission), cpu_centi=cpu, memory_bytes=memory, gpus=tuple(Gpu(*gpu) for gpu in gpus),
        conditions=tuple(Condition(*condition) for condition in conditions), architecture=architecture,
        driver_version=driver, cuda_version=cuda, images=frozenset(images),
        most_ulimits=tuple((name, hard) for name, hard in (later[0] if later else ())),  # versions before kept none
    )  # fmt: skip


def _change(change: Change) -> list[Any]:
    task_id, until_s = change.task_id, change.until_s
    return [
        change.cause, change.node_id, None if task_id is None else _key(task_id),
        until_s if math.isfinite(until_s) else None, None if change.node is None else _node(change.node),
        change.is_guess,
    ]  # fmt: skip


def _change_of(row: list[Any]) -> Change:
    cause, node, task_id, until_s, was, is_guess = row
    node_id = NodeId(node)
    return Change(
        cause, node_id, None if task_id is None else _task_key(task_id), -math.inf if until_s is None else until_s,
        None if was is None else _node_of(node_id, was), is_guess,
    )  # fmt: skip


def _left(left: FrameNodeCapacity) -> list[Any]:
    row = [left.order, left.cpu_centi, left.memory_bytes, left.free, left.used, left.closed]
    return [*row, left.shares] if left.shares else row


def _left_of(_: NodeId, row: list[Any]) -> FrameNodeCapacity:
    order, cpu, memory, free, used, closed, *shares = row
    units = tuple((i, left) for i, left in (shares[0] if shares else ()))  # versions before knew none
    return FrameNodeCapacity(order, cpu, memory, tuple(free), tuple(used), closed, units)


def _booking(booking: Booking) -> list[Any]:
    return [
        booking.owner, booking.node_id, _shape(booking.shape), booking.gpu_uuids, booking.timeout_s, booking.until_s,
        *([True] if booking.end_unconfirmed else []),
    ]  # fmt: skip


def _booking_of(task_id: TaskId, row: list[Any]) -> Booking:
    owner, node_id, shape, uuids, timeout_s, until_s, *awaited = row
    return Booking(task_id, owner, NodeId(node_id), _shape_of(shape), tuple(uuids), timeout_s, until_s, bool(awaited))


def _place(place: Reservation) -> list[Any]:
    row = [place.node_id, place.gpus, place.start_s, place.duration_s, place.promised_s, place.first_promised_at]
    return row if place.first_promised_s is None else [*row, place.first_promised_s, place.first_wait_s]


def _place_of(_: TaskId, row: list[Any]) -> Reservation:
    node_id, gpus, start_s, duration_s, promised_s, *first = row  # old frames have none
    kinds = tuple((kind, count) for kind, count in gpus)
    return Reservation(NodeId(node_id), kinds, start_s, duration_s, promised_s, *first)


def _wait(wait: Wait) -> list[Any]:
    return [wait.why.value, wait.node_id, None if wait.blocker is None else _key(wait.blocker)]


def _wait_of(_: TaskId, row: list[Any]) -> Wait:
    why, node_id, blocker = row
    return Wait(
        WaitCause(why), None if node_id is None else NodeId(node_id), None if blocker is None else _task_key(blocker)
    )


_TO_ROW: dict[str, Callable[[Any], list[Any]]] = {
    "tasks": _task, "nodes": _node, "left": _left, "running": _booking, "places": _place, "waits": _wait,
}  # fmt: skip
_FROM_ROW: dict[str, Callable[[Any, list[Any]], Any]] = {
    "tasks": _task_of, "nodes": _node_of, "left": _left_of, "running": _booking_of, "places": _place_of,
    "waits": _wait_of,
}  # fmt: skip
