"""Tasks, attempts and nodes as SQL. Every function works inside a transaction of its caller."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, delete, func, insert, select, tuple_, update

from headway.ids import AttemptId, JobId, NodeId, TaskId
from headway.model.attempt_facts import FACTS
from headway.states import ATTEMPT_LIVE, TASK_ENDED, TaskState

from ..clocks import ClockReading, SteadyOffset
from ..decisions.recorder import FrameRecord
from ..engine.leases import NodeLease
from ..engine.scheduling_choice import AdminChoice
from ..model import Attempt, Node, Task
from ..order import recent_timeouts
from ..planning.bookings import MovedPromise, Reservation
from . import decision_store, reservation_store, scheduling_store
from .rows import (
    attempt_fixed,
    attempt_moving,
    attempt_of,
    node_json,
    node_of,
    task_fixed,
    task_moving,
    task_of,
)
from .tables import JOB_MANAGER, attempts, node_leases, nodes, outbox, steady, task_specs, tasks

T = TypeVar("T")
_IN_AT_MOST = 400


@dataclass(frozen=True, slots=True)
class TurnChanges:
    """What one turn writes."""

    tasks: Sequence[Task]
    new_tasks: frozenset[TaskId]
    specs: Sequence[tuple[TaskId, bytes]]
    attempts: Sequence[Attempt]
    new_attempts: frozenset[AttemptId]
    nodes: Sequence[tuple[NodeId, Node | None]]
    leases: Sequence[tuple[NodeId, NodeLease]]
    reservations: Sequence[tuple[TaskId, Reservation | None]]
    events: Sequence[tuple[str, bytes]]  # kind and message for JobManager
    reading: ClockReading
    moved_promises: Sequence[tuple[TaskId, MovedPromise | None]] = ()
    steady_offset: SteadyOffset | None = None  # None: nothing new
    record: FrameRecord | None = None  # of the decision log
    admin_choices: Mapping[str, AdminChoice | None] = field(default_factory=dict)
    policy_states: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredState:
    """What a start reads."""

    tasks: list[Task]
    attempts: list[Attempt]
    nodes: list[Node]
    leases: list[tuple[NodeId, NodeLease]]
    reservations: dict[TaskId, Reservation]
    moved_promises: dict[TaskId, MovedPromise]
    admin_choices: dict[str, AdminChoice]
    policy_states: dict[str, str]
    last_decision: int
    steady_offset: SteadyOffset | None
    recent_timeouts: list[float]


# -- writing --------------------------------------------------------------------------------------

# A burst writes thousands of rows a second, and turning each into named parameters would cost more than SQLite's own
# work: rows go to the driver as plain tuples, in the order of these columns.
_TASK_FIXED = (
    "job_id", "name", "generation", "owner", "job_name", "priority", "tail_timeout_s", "cpu_centi", "memory_bytes",
    "gpus", "gpu_models", "gpu_memory_bytes", "timeout_s", "retries", "image", "command_print", "task_print",
    "grace_s", "mean_timeout_s", "gpu_share_bytes",
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
    "boot_id", "placed_s", "gpu_share_bytes", "gpu_fraction",
)  # fmt: skip
_ATTEMPT_MOVING = (
    "state", "incarnation", "answered_at", "stop_word", "stop_at", "reason", "timeout_s", "extensions", "freed_at",
    "late_warnings", "use", "gpu_measured_share", "gpu_busy_share", "gpu_idle_share", *(row.name for row in FACTS),
)  # fmt: skip
_ATTEMPT_KEY = ("job_id", "name", "number")
_SPEC = ("job_id", "name", "enqueue")


def write(conn: Connection, changes: TurnChanges) -> None:
    """Writes a turn's changes, all or nothing."""
    sql = _Sql(conn)
    enqueued = {task_id for task_id, _blob in changes.specs}
    again = [(t.job_id, t.name) for t in enqueued if t not in changes.new_tasks]
    # A task that is enqueued again may differ in everything; its attempts stay.
    sql.delete("tasks", _TASK_KEY, again)
    sql.delete("task_specs", _TASK_KEY, again)
    new = [(*task_fixed(task), *task_moving(task)) for task in changes.tasks if task.id in enqueued]
    sql.insert("tasks", (*_TASK_FIXED, *_TASK_MOVING), new)
    sql.insert("task_specs", _SPEC, [(t.job_id, t.name, blob) for t, blob in changes.specs])
    moved = [(*task_moving(t), t.id.job_id, t.id.name) for t in changes.tasks if t.id not in enqueued]
    sql.update("tasks", _TASK_MOVING, _TASK_KEY, moved)
    placed = [(*attempt_fixed(a), *attempt_moving(a)) for a in changes.attempts if a.id in changes.new_attempts]
    sql.insert("attempts", (*_ATTEMPT_FIXED, *_ATTEMPT_MOVING), placed)
    later = [
        (*attempt_moving(a), a.id.task.job_id, a.id.task.name, a.id.number)
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
    reservation_store.write(conn, changes.reservations, changes.reading)
    reservation_store.write_moved(conn, changes.moved_promises, changes.reading)
    scheduling_store.write(conn, changes.admin_choices, changes.policy_states, changes.reading.now)
    if changes.steady_offset is not None:
        conn.execute(delete(steady))
        conn.execute(insert(steady), {"id": 1, **asdict(changes.steady_offset)})
    if changes.record is not None:
        decision_store.write(conn, changes.record)
    outbox.add_many(conn, JOB_MANAGER, changes.events, changes.reading.now)


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
            conn.execute(update(nodes).where(nodes.c.id == node_id).values(node=node_json(node)))
        else:
            last = conn.execute(select(func.max(nodes.c.place))).scalar() or 0
            conn.execute(insert(nodes), {"id": node_id, "place": last + 1, "node": node_json(node)})


# -- reading --------------------------------------------------------------------------------------


def load(conn: Connection, reading: ClockReading) -> StoredState:
    """All tasks and attempts that have not ended, and the nodes as they were last reported."""
    live_tasks = [state.value for state in TaskState if state not in TASK_ENDED]
    live_attempts = [state.value for state in ATTEMPT_LIVE]
    found = [task_of(row) for row in conn.execute(select(tasks).where(tasks.c.state.in_(live_tasks)))]
    shapes = {task.id: task.shape for task in found}
    running = [
        attempt_of(row, shapes.get(TaskId(JobId(row.job_id), row.name)))
        for row in conn.execute(select(attempts).where(attempts.c.state.in_(live_attempts)))
    ]
    known = [node_of(row.node) for row in conn.execute(select(nodes).order_by(nodes.c.place))]
    leases = [
        (
            NodeId(row.id),
            # Nothing else counts from heartbeats before the start.
            NodeLease(row.incarnation, row.address, last_heartbeat_s=float("-inf"), suspended=row.suspended),
        )
        for row in conn.execute(select(node_leases))
    ]
    choices_and_states = scheduling_store.load(conn)
    row = conn.execute(select(steady)).first()
    steady_offset = SteadyOffset(row.of_boot_id, row.boot_id, row.offset_s) if row is not None else None
    reservations, moved = reservation_store.load(conn, reading), reservation_store.load_moved(conn, reading)
    return StoredState(
        found,
        running,
        known,
        leases,
        reservations,
        moved,
        *choices_and_states,
        decision_store.last_id(conn),
        steady_offset,
        _recent_timeouts(conn),
    )


def _recent_timeouts(conn: Connection) -> list[float]:
    """The timeouts of the tasks that came last and are still kept, the oldest first."""
    latest = (tasks.c.submitted_at.desc(), tasks.c.job_id.desc(), tasks.c.name.desc())
    query = select(tasks.c.timeout_s).order_by(*latest).limit(recent_timeouts.WINDOW)
    return [row.timeout_s for row in conn.execute(query)][::-1]


def load_tasks(conn: Connection, ids: Iterable[TaskId]) -> dict[TaskId, Task]:
    """Those of the tasks that the database has, in any state."""
    found = {}
    for part in _parts(ids):
        query = select(tasks).where(_one_of(tasks, part))
        for row in conn.execute(query):
            task = task_of(row)
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
    return [attempt_of(row) for row in conn.execute(query)]


def load_named_attempts(conn: Connection, ids: Iterable[AttemptId]) -> dict[AttemptId, Attempt]:
    """Those of the attempts that the database has, in any state."""
    wanted = set(ids)
    found = {}
    for part in _parts({attempt_id.task for attempt_id in wanted}):
        for row in conn.execute(select(attempts).where(_one_of(attempts, part))):
            attempt_id = AttemptId(TaskId(JobId(row.job_id), row.name), row.number)
            if attempt_id in wanted:
                found[attempt_id] = attempt_of(row)
    return found


def load_attempt(conn: Connection, task_id: TaskId, number: int) -> Attempt | None:
    """One attempt; number 0 is the latest."""
    query = select(attempts).where(attempts.c.job_id == task_id.job_id, attempts.c.name == task_id.name)
    if number:
        query = query.where(attempts.c.number == number)
    row = conn.execute(query.order_by(attempts.c.number.desc()).limit(1)).first()
    return None if row is None else attempt_of(row)


def _one_of(table: Any, part: Sequence[TaskId]) -> Any:
    job_ids = {task_id.job_id for task_id in part}
    if len(job_ids) == 1:
        return (table.c.job_id == job_ids.pop()) & table.c.name.in_([task_id.name for task_id in part])
    return tuple_(table.c.job_id, table.c.name).in_([(task_id.job_id, task_id.name) for task_id in part])


def _parts(ids: Iterable[T]) -> Iterator[list[T]]:
    left = iter(ids)
    while part := list(islice(left, _IN_AT_MOST)):
        yield part
