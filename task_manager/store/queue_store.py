"""What TaskManager keeps, as SQL. Every function works inside a transaction that its caller opened."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, delete, func, insert, select, tuple_, update

from headway.ids import AttemptId, JobId, NodeId, TaskId
from headway.model.reasons import EndReason, EndWord
from headway.states import ATTEMPT_LIVE, TASK_ENDED, Admission, AttemptState, NodeHealth, TaskState

from ..clocks import Heard, Reading
from ..decisions.recorder import Record
from ..engine.leases import NodeLease
from ..engine.scheduling_choice import Chosen
from ..model import Attempt, Condition, Extension, Gpu, Node, Shape, Task
from ..planning.bookings import MovedPromise, Reservation
from . import booking_store, decision_store, scheduling_store
from .tables import JOB_MANAGER, attempts, node_leases, nodes, outbox, steady, task_specs, tasks

T = TypeVar("T")
_IN_AT_MOST = 400


@dataclass(frozen=True, slots=True)
class Changes:
    """What one turn writes."""

    tasks: Sequence[Task]
    new_tasks: frozenset[TaskId]
    specs: Sequence[tuple[TaskId, bytes]]
    attempts: Sequence[Attempt]
    new_attempts: frozenset[AttemptId]
    nodes: Sequence[tuple[NodeId, Node | None]]
    leases: Sequence[tuple[NodeId, NodeLease]]
    places: Sequence[tuple[TaskId, Reservation | None]]
    events: Sequence[tuple[str, bytes]]  # kind and message for JobManager
    here: Reading
    moved: Sequence[tuple[TaskId, MovedPromise | None]] = ()
    heard: Heard | None = None  # None: nothing new
    record: Record | None = None  # of the decision log
    chosen: Mapping[str, Chosen | None] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a start finds."""

    tasks: list[Task]
    attempts: list[Attempt]
    nodes: list[Node]
    leases: list[tuple[NodeId, NodeLease]]
    places: dict[TaskId, Reservation]
    moved: dict[TaskId, MovedPromise]
    chosen: dict[str, Chosen]
    states: dict[str, str]
    last_decision: int
    heard: Heard | None


# -- writing --------------------------------------------------------------------------------------

# A burst writes thousands of rows a second, and turning each into named parameters would cost more than SQLite's own
# work: rows go to the driver as plain tuples, in the order of these columns.
_TASK_FIXED = (
    "job_id", "name", "generation", "owner", "job_name", "priority", "tail_timeout_s", "cpu_centi", "memory_bytes",
    "gpus", "gpu_models", "gpu_memory_bytes", "timeout_s", "retries", "image", "command_print", "task_print",
    "grace_s",
)  # fmt: skip
_TASK_MOVING = (
    "submitted_at", "held", "state", "queued_at", "not_before", "attempt", "user_failures", "platform_failures",
    "losses", "refusals", "avoid", "disowned", "event_seq", "command_seq", "cancel_by", "ended_at", "reason",
    "spent_s",
)  # fmt: skip
_TASK_KEY = ("job_id", "name")
_ATTEMPT_FIXED = (
    "job_id", "name", "number", "generation", "node_id", "cpu_centi", "memory_bytes", "gpu_uuids",
    "of_runs", "queued_at", "placed_at", "command_print", "task_print", "owner", "gpus",
    "boot_id", "placed_s",
)  # fmt: skip
_ATTEMPT_MOVING = (
    "state", "incarnation", "answered_at", "accepted_at", "container_started_at", "started_at", "ended_at", "run_s",
    "stop_word", "stop_at", "peak_memory_bytes", "stdout_bytes", "stderr_bytes", "dropped_bytes", "image_id",
    "warnings", "reason", "timeout_s", "extensions", "counted_s", "freed_at",
)  # fmt: skip
_ATTEMPT_KEY = ("job_id", "name", "number")
_SPEC = ("job_id", "name", "enqueue")


def write(conn: Connection, changes: Changes) -> None:
    """Writes a turn's changes, all or nothing."""
    sql = _Sql(conn)
    enqueued = {task_id for task_id, _blob in changes.specs}
    again = [(t.job_id, t.name) for t in enqueued if t not in changes.new_tasks]
    # A task that is enqueued anew may differ in everything; its attempts stay.
    sql.delete("tasks", _TASK_KEY, again)
    sql.delete("task_specs", _TASK_KEY, again)
    new = [(*_task_fixed(task), *_task_moving(task)) for task in changes.tasks if task.id in enqueued]
    sql.insert("tasks", (*_TASK_FIXED, *_TASK_MOVING), new)
    sql.insert("task_specs", _SPEC, [(t.job_id, t.name, blob) for t, blob in changes.specs])
    moved = [(*_task_moving(t), t.id.job_id, t.id.name) for t in changes.tasks if t.id not in enqueued]
    sql.update("tasks", _TASK_MOVING, _TASK_KEY, moved)
    placed = [(*_attempt_fixed(a), *_attempt_moving(a)) for a in changes.attempts if a.id in changes.new_attempts]
    sql.insert("attempts", (*_ATTEMPT_FIXED, *_ATTEMPT_MOVING), placed)
    later = [
        (*_attempt_moving(a), a.id.task.job_id, a.id.task.name, a.id.number)
        for a in changes.attempts
        if a.id not in changes.new_attempts
    ]
    sql.update("attempts", _ATTEMPT_MOVING, _ATTEMPT_KEY, later)
    _write_nodes(conn, changes.nodes)
    for node_id, lease in changes.leases:
        conn.execute(delete(node_leases).where(node_leases.c.id == node_id))
        conn.execute(
            insert(node_leases),
            {
                "id": node_id,
                "suspended": lease.suspended,
                "address": lease.address,
                "incarnation": lease.incarnation,
            },
        )
    booking_store.write(conn, changes.places, changes.here)
    booking_store.write_moved(conn, changes.moved, changes.here)
    scheduling_store.write(conn, changes.chosen, changes.states, changes.here.now)
    if changes.heard is not None:
        conn.execute(delete(steady))
        conn.execute(insert(steady), {"id": 1, **asdict(changes.heard)})
    if changes.record is not None:
        decision_store.write(conn, changes.record)
    outbox.add_many(conn, JOB_MANAGER, changes.events, changes.here.now)


class _Sql:
    """Many rows by one statement; table and column names are this module's own, values are bound."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._mark = "?" if conn.dialect.name == "sqlite" else "%s"

    def insert(self, table: str, columns: Sequence[str], rows: list[tuple[Any, ...]]) -> None:
        marks = ", ".join([self._mark] * len(columns))
        self._many(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)

    def update(self, table: str, columns: Sequence[str], key: Sequence[str], rows: list[tuple[Any, ...]]) -> None:
        values = ", ".join(f"{column} = {self._mark}" for column in columns)
        self._many(f"UPDATE {table} SET {values} WHERE {self._where(key)}", rows)

    def delete(self, table: str, key: Sequence[str], rows: list[tuple[Any, ...]]) -> None:
        self._many(f"DELETE FROM {table} WHERE {self._where(key)}", rows)

    def _where(self, key: Sequence[str]) -> str:
        return " AND ".join(f"{column} = {self._mark}" for column in key)

    def _many(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            self._conn.exec_driver_sql(statement, rows)


def _write_nodes(conn: Connection, changed: Sequence[tuple[NodeId, Node | None]]) -> None:
    for node_id, node in changed:
        place = conn.execute(select(nodes.c.place).where(nodes.c.id == node_id)).scalar()
        if node is None:
            conn.execute(delete(nodes).where(nodes.c.id == node_id))
        elif place is not None:
            conn.execute(update(nodes).where(nodes.c.id == node_id).values(node=_node_json(node)))
        else:
            last = conn.execute(select(func.max(nodes.c.place))).scalar() or 0
            conn.execute(insert(nodes), {"id": node_id, "place": last + 1, "node": _node_json(node)})


# -- reading --------------------------------------------------------------------------------------


def load(conn: Connection, here: Reading) -> Stored:
    """All that has not ended, and the nodes as last told."""
    live_tasks = [state.value for state in TaskState if state not in TASK_ENDED]
    live_attempts = [state.value for state in ATTEMPT_LIVE]
    found = [_task(row) for row in conn.execute(select(tasks).where(tasks.c.state.in_(live_tasks)))]
    shapes = {task.id: task.shape for task in found}
    running = [
        _attempt(row, shapes.get(TaskId(JobId(row.job_id), row.name)))
        for row in conn.execute(select(attempts).where(attempts.c.state.in_(live_attempts)))
    ]
    known = [_node(row.node) for row in conn.execute(select(nodes).order_by(nodes.c.place))]
    leases = [
        (
            NodeId(row.id),
            # Its heartbeats of before the start count for nothing but this.
            NodeLease(row.incarnation, row.address, heard_s=float("-inf"), suspended=row.suspended),
        )
        for row in conn.execute(select(node_leases))
    ]
    set_there = scheduling_store.load(conn)
    row = conn.execute(select(steady)).first()
    heard = Heard(row.of_boot_id, row.boot_id, row.offset_s) if row is not None else None
    places, moved = booking_store.load(conn, here), booking_store.load_moved(conn, here)
    return Stored(found, running, known, leases, places, moved, *set_there, decision_store.last_id(conn), heard)


def load_tasks(conn: Connection, ids: Iterable[TaskId]) -> dict[TaskId, Task]:
    """Those of the tasks that are known, in whatever state."""
    found = {}
    for part in _parts(ids):
        query = select(tasks).where(_one_of(tasks, part))
        for row in conn.execute(query):
            task = _task(row)
            found[task.id] = task
    return found


def load_specs(conn: Connection, ids: Iterable[TaskId]) -> dict[TaskId, bytes]:
    """What JobManager sent of these tasks: serialised EnqueueTask messages."""
    found = {}
    for part in _parts(ids):
        for row in conn.execute(select(task_specs).where(_one_of(task_specs, part))):
            found[TaskId(JobId(row.job_id), row.name)] = row.enqueue
    return found


def load_attempts(
    conn: Connection, job_id: JobId, names: Collection[str], after: tuple[str, int], limit: int
) -> list[Attempt]:
    """Attempts of a job (of these tasks, if any are named) by task name and number, from behind ``after`` on."""
    query = (
        select(attempts)
        .where(attempts.c.job_id == job_id, tuple_(attempts.c.name, attempts.c.number) > tuple_(*after))
        .order_by(attempts.c.name, attempts.c.number)
        .limit(limit)
    )
    if names:
        query = query.where(attempts.c.name.in_(names))
    return [_attempt(row) for row in conn.execute(query)]


def load_attempt(conn: Connection, task_id: TaskId, number: int) -> Attempt | None:
    """One attempt; number 0 is the latest."""
    query = select(attempts).where(attempts.c.job_id == task_id.job_id, attempts.c.name == task_id.name)
    if number:
        query = query.where(attempts.c.number == number)
    row = conn.execute(query.order_by(attempts.c.number.desc()).limit(1)).first()
    return None if row is None else _attempt(row)


def _one_of(table: Any, part: Sequence[TaskId]) -> Any:
    job_ids = {task_id.job_id for task_id in part}
    if len(job_ids) == 1:
        return (table.c.job_id == job_ids.pop()) & table.c.name.in_([task_id.name for task_id in part])
    return tuple_(table.c.job_id, table.c.name).in_([(task_id.job_id, task_id.name) for task_id in part])


def _parts(ids: Iterable[T]) -> Iterator[list[T]]:
    left = iter(ids)
    while part := list(islice(left, _IN_AT_MOST)):
        yield part


# -- rows -----------------------------------------------------------------------------------------


def _task_fixed(task: Task) -> tuple[Any, ...]:
    shape = task.shape
    return (
        task.id.job_id, task.id.name, task.generation, task.owner, task.job_name, task.priority, task.tail_timeout_s,
        shape.cpu_centi, shape.memory_bytes, shape.gpus, _list_json(shape.gpu_models), shape.gpu_memory_bytes,
        task.timeout_s, task.retries, _image_json(shape), *task.prints, task.grace_s,
    )  # fmt: skip


def _task_moving(task: Task) -> tuple[Any, ...]:
    return (
        task.submitted_at, task.held, task.state.value, task.queued_at, task.not_before, task.attempt,
        task.user_failures, task.platform_failures, task.losses, task.refusals, _list_json(task.avoid),
        _list_json(task.disowned), task.event_seq, task.command_seq, task.cancel_by, task.ended_at,
        _reason_json(task.reason), task.spent_s,
    )  # fmt: skip


def _task(row: Row[Any]) -> Task:
    # Unpacked in the order of the table: a start with a long queue reads hundreds of thousands of these.
    (
        job_id, name, generation, owner, job_name, priority, submitted_at, tail_timeout_s, cpu_centi, memory_bytes,
        gpus, gpu_models, gpu_memory_bytes, timeout_s, retries, held, state, queued_at, not_before, attempt,
        user_failures, platform_failures, losses, refusals, avoid, disowned, event_seq, command_seq, cancel_by,
        ended_at, reason, image, command_print, task_print, spent_s, grace_s,
    ) = tuple(row)  # fmt: skip
    shape = _shape(cpu_centi, memory_bytes, gpus, gpu_models, gpu_memory_bytes, image)
    return Task(
        TaskId(JobId(job_id), name), generation, owner, job_name, priority, submitted_at, tail_timeout_s, shape,
        timeout_s, retries, held, _TASK_STATES[state], queued_at, not_before, attempt, user_failures,
        platform_failures, losses, refusals, _list(avoid), _list(disowned), event_seq, command_seq, cancel_by,
        ended_at, _reason(reason), spent_s, (command_print, task_print), grace_s,
    )  # fmt: skip


_TASK_STATES = {state.value: state for state in TaskState}


@lru_cache(maxsize=10_000)
def _shape(cpu_centi: int, memory_bytes: int, gpus: int, gpu_models: str, gpu_memory_bytes: int, image: str) -> Shape:
    # Tasks are mostly alike: one object serves all of a shape.
    asks = json.loads(image) if image else ()
    return Shape(cpu_centi, memory_bytes, gpus, _list(gpu_models), gpu_memory_bytes, *asks)


def _image_json(shape: Shape) -> str:
    if shape.is_plain and not shape.image:
        return ""
    return json.dumps([shape.architecture, shape.require_cuda, shape.image, shape.needs_image_there])


def _attempt_fixed(attempt: Attempt) -> tuple[Any, ...]:
    return (
        attempt.id.task.job_id, attempt.id.task.name, attempt.id.number, attempt.generation, attempt.node_id,
        attempt.shape.cpu_centi, attempt.shape.memory_bytes, _list_json(attempt.gpu_uuids),
        attempt.of_runs, attempt.queued_at, attempt.placed_at, *attempt.prints, attempt.owner, len(attempt.gpu_uuids),
        attempt.boot_id, attempt.placed_s,
    )  # fmt: skip


def _attempt_moving(attempt: Attempt) -> tuple[Any, ...]:
    return (
        attempt.state.value, attempt.incarnation, attempt.answered_at, attempt.accepted_at,
        attempt.container_started_at, attempt.started_at, attempt.ended_at, attempt.run_s,
        attempt.stop_word, attempt.stop_at, attempt.peak_memory_bytes, attempt.stdout_bytes,
        attempt.stderr_bytes, attempt.dropped_bytes,
        attempt.image_id, _list_json(attempt.warnings), _reason_json(attempt.reason), attempt.timeout_s,
        _list_json([asdict(one) for one in attempt.extensions]), attempt.counted_s, attempt.freed_at,
    )  # fmt: skip


def _attempt(row: Row[Any], shape: Shape | None = None) -> Attempt:
    gpu_uuids = _list(row.gpu_uuids)
    return Attempt(
        id=AttemptId(TaskId(JobId(row.job_id), row.name), row.number),
        generation=row.generation,
        state=AttemptState(row.state),
        node_id=NodeId(row.node_id),
        incarnation=row.incarnation,
        shape=shape or Shape(row.cpu_centi, row.memory_bytes, len(gpu_uuids)),
        gpu_uuids=gpu_uuids,
        timeout_s=row.timeout_s,
        of_runs=row.of_runs,
        queued_at=row.queued_at,
        placed_at=row.placed_at,
        answered_at=row.answered_at,
        accepted_at=row.accepted_at,
        container_started_at=row.container_started_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        run_s=row.run_s,
        stop_word=row.stop_word,
        stop_at=row.stop_at,
        peak_memory_bytes=row.peak_memory_bytes,
        stdout_bytes=row.stdout_bytes,
        stderr_bytes=row.stderr_bytes,
        dropped_bytes=row.dropped_bytes,
        image_id=row.image_id,
        warnings=_list(row.warnings),
        reason=_reason(row.reason),
        prints=(row.command_print, row.task_print),
        extensions=tuple(Extension(**one) for one in _list(row.extensions)),
        counted_s=row.counted_s,
        owner=row.owner,
        freed_at=row.freed_at,
        boot_id=row.boot_id,
        placed_s=row.placed_s,
    )


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


def _node_json(node: Node) -> str:
    # Without its images: up to a thousand digests, and the first word of ResourceManager brings them again.
    return json.dumps(asdict(replace(node, images=frozenset())) | {"images": []})


def _node(text: str) -> Node:
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
        cuda_version=data.get("cuda_version", ""),
    )
