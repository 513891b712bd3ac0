"""What JobManager keeps, as SQL. Every function works inside a transaction that its caller opened."""

from __future__ import annotations

import json
import math
import zlib
from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, delete, exists, func, insert, or_, select, update

from headway.clock import Clock
from headway.ids import JobId
from headway.jobfile.spec import NeedOn, Priority
from headway.model.reasons import EndReason, EndWord
from headway.rpc.v1 import common_pb2, task_manager_pb2
from headway.states import JOB_ENDED, TASK_ENDED, JobState, TaskState
from headway.steady import Anchor, anchored

from . import waiting_limit
from .graph.dag import Dag
from .graph.dag_progress import Needs
from .job import CancelCommand, Command, EnqueueCommand, HoldCommand, JobRecord, LiveJob, ReleaseCommand, TaskRecord
from .tables import TASK_MANAGER, action, job, job_graph, outbox, removal, steady, task, task_spec

_KINDS = (NeedOn.SUCCESS, NeedOn.FAILURE, NeedOn.ANY)
_KIND_NUMBER = {kind: number for number, kind in enumerate(_KINDS)}
# SQLite allows 32,766 variables in a statement; PostgreSQL as many.
_IN_AT_MOST = 500


# -- writing ------------------------------------------------------------------------------------


def steady_anchor(conn: Connection, clock: Clock) -> Anchor:
    """The anchor of the clock by which tasks age. After a boot it goes on behind all tasks that have not ended."""
    row = conn.execute(select(steady)).first()
    kept = Anchor(row.boot_id, row.offset_s) if row is not None else None
    if kept is not None and kept.boot_id == clock.boot_id():
        return kept
    latest = conn.execute(select(func.max(task.c.ages_from)).where(task.c.state.not_in(_TASK_ENDED))).scalar_one()
    anchor = anchored(kept, clock, latest=-math.inf if latest is None else latest)
    conn.execute(delete(steady))
    conn.execute(insert(steady), {"id": 1, "boot_id": anchor.boot_id, "offset_s": anchor.offset_s})
    return anchor


def insert_job(conn: Connection, live: LiveJob, dag: Dag, specs: Sequence[bytes], now: float) -> None:
    """Store a new job whole, with the commands of the tasks that can run at once."""
    job_id = live.record.id
    conn.execute(_NEW_JOB, _job_row(live))
    conn.execute(_NEW_GRAPH, {"job_id": job_id, "graph": pack_graph(dag)})
    conn.execute(_NEW_TASK, [_new_task_row(live, number) for number in range(len(live.names))])
    conn.execute(_NEW_SPEC, [{"job_id": job_id, "number": n, "spec": spec} for n, spec in enumerate(specs)])
    _add_commands(conn, live, now)


def save(conn: Connection, live: LiveJob, now: float) -> None:
    """Store what changed in a job since it was last clean, and the commands that follow."""
    if live.dirty:
        conn.execute(_UPDATE_TASK, [_task_row(live, number) for number in sorted(live.dirty)])
    if live.dirty or live.dirty_job:
        live.record.version += 1
        conn.execute(_UPDATE_JOB, {**_job_row(live), "key": live.record.id})
    _add_commands(conn, live, now)


def _add_commands(conn: Connection, live: LiveJob, now: float) -> None:
    outbox.add_many(conn, TASK_MANAGER, (_command_row(live, command) for command in live.commands), now)


def remember_action(conn: Connection, job_id: str, request_id: str, asked: str, tasks_changed: int, now: float) -> None:
    conn.execute(
        insert(action),
        {"job_id": job_id, "request_id": request_id, "asked": asked, "tasks_changed": tasks_changed, "at": now},
    )


def forget_actions(conn: Connection, before: float) -> int:
    """Drop what was asked before an instant; how many rows that were."""
    return conn.execute(delete(action).where(action.c.at < before)).rowcount


# -- reading ------------------------------------------------------------------------------------


def find_request(conn: Connection, owner: str, request_id: str) -> tuple[JobId, str] | None:
    """The job that an owner's request id made, and its spec's hash."""
    row = conn.execute(_REQUEST, {"owner_is": owner, "request_is": request_id}).first()
    return (JobId(row.id), row.spec_hash) if row else None


def find_action(conn: Connection, job_id: str, request_id: str) -> tuple[str, int] | None:
    """What a request id asked of a job, and how many tasks it changed."""
    row = conn.execute(
        select(action.c.asked, action.c.tasks_changed).where(
            action.c.job_id == job_id, action.c.request_id == request_id
        )
    ).first()
    return (row.asked, row.tasks_changed) if row else None


def load_job(conn: Connection, job_id: str) -> LiveJob | None:
    """A job with all of its tasks and edges, as last committed."""
    record = load_record(conn, job_id)
    if record is None:
        return None
    packed = conn.execute(select(job_graph.c.graph).where(job_graph.c.job_id == job_id)).scalar_one()
    needs, tails_s = unpack_graph(packed)
    rows = conn.execute(select(task).where(task.c.job_id == job_id).order_by(task.c.number)).all()
    return LiveJob(
        record,
        [row.name for row in rows],
        needs,
        tails_s,
        [_task_record(row) for row in rows],
        [TaskState(row.state) for row in rows],
    )


def load_record(conn: Connection, job_id: str) -> JobRecord | None:
    """A job without its tasks."""
    row = conn.execute(_RECORD, {"key": job_id}).first()
    return _job_record(row) if row else None


def load_specs(conn: Connection, job_id: str, numbers: Sequence[int] | None = None) -> dict[int, bytes]:
    """Serialised specs by task number; None: all of the job."""
    if numbers is not None and len(numbers) == 1:
        rows = conn.execute(_SPEC, {"key_job": job_id, "key_number": numbers[0]})
        return {row.number: row.spec for row in rows}
    query = select(task_spec.c.number, task_spec.c.spec).where(task_spec.c.job_id == job_id)
    if numbers is None or len(numbers) > 4 * _IN_AT_MOST:
        return {row.number: row.spec for row in conn.execute(query.order_by(task_spec.c.number))}
    found: dict[int, bytes] = {}
    for start in range(0, len(numbers), _IN_AT_MOST):
        chunk = numbers[start : start + _IN_AT_MOST]
        found.update((row.number, row.spec) for row in conn.execute(query.where(task_spec.c.number.in_(chunk))))
    return found


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task as stored, to be shown."""

    number: int
    name: str
    state: TaskState
    record: TaskRecord


def load_tasks(
    conn: Connection, job_id: str, names: Collection[str] = (), offset: int = 0, limit: int = 0
) -> list[TaskRow]:
    """The tasks of a job, as submitted: all or those of these names, from ``offset`` on; ``limit`` 0: all of them."""
    named = [task.c.name.in_(names)] if names else []
    query = select(task).where(task.c.job_id == job_id, *named).order_by(task.c.number)
    rows = conn.execute(query.limit(limit or None).offset(offset or None))
    return [TaskRow(row.number, row.name, TaskState(row.state), _task_record(row)) for row in rows]


def task_names(conn: Connection, job_id: str, limit: int) -> list[str]:
    """The first names of a job's tasks, as submitted."""
    query = select(task.c.name).where(task.c.job_id == job_id).order_by(task.c.number).limit(limit)
    return list(conn.execute(query).scalars())


def live_job_ids(conn: Connection) -> list[JobId]:
    """Jobs that have not ended, oldest first."""
    return [JobId(row.id) for row in conn.execute(select(job.c.id).where(LIVE).order_by(job.c.id))]


def count_live(conn: Connection) -> dict[str, int]:
    """How many jobs that have not ended are in each state."""
    counted = conn.execute(select(job.c.state, func.count()).where(LIVE).group_by(job.c.state))
    return dict(counted.tuples())


def waiting_job_ids(conn: Connection) -> list[JobId]:
    """Jobs that have not ended and of which a task waits for another, or none is left to end; oldest first."""
    found = []
    for row in conn.execute(select(job.c.id, job.c.counts).where(LIVE).order_by(job.c.id)):
        states = {TaskState(state) for state in json.loads(row.counts)}
        if TaskState.BLOCKED in states or states <= TASK_ENDED:
            found.append(JobId(row.id))
    return found


def count_waiting(conn: Connection, owner: str, without: Collection[str] = ()) -> int:
    """An account's tasks that are accepted and neither run nor have ended, but for those of some jobs."""
    counts = conn.execute(select(job.c.id, job.c.counts).where(job.c.owner == owner, LIVE))
    return sum(waiting_limit.of_counts(json.loads(row.counts)) for row in counts if row.id not in without)


def list_jobs(
    conn: Connection,
    *,
    owner: str,
    states: Iterable[str],
    query: str,
    limit: int,
    before: str,
    oldest_first: bool = False,
) -> list[JobRecord]:
    """Jobs, newest first, that come behind the id ``before`` (empty: from the first on)."""
    found = _matching(select(job), owner, states, query).limit(limit)
    if before:
        found = found.where(job.c.id > before if oldest_first else job.c.id < before)
    found = found.order_by(job.c.id if oldest_first else job.c.id.desc())
    return [_job_record(row) for row in conn.execute(found)]


def count_jobs(conn: Connection, *, owner: str, states: Iterable[str], query: str, at_most: int) -> tuple[int, int]:
    """How many jobs the same list has in all, and how many of them run.

    Counting ends at ``at_most``: a list of a hundred thousand jobs is counted as quickly as it is searched.
    """
    wanted = list(states)

    def count(of: list[str]) -> int:
        some = _matching(select(job.c.id), owner, of, query).limit(at_most).subquery()
        return conn.execute(select(func.count()).select_from(some)).scalar_one()

    runs = JobState.RUNNING.value
    return count(wanted), count([runs]) if not wanted or runs in wanted else 0


def _matching(found: Select[Any], owner: str, states: Iterable[str], query: str) -> Select[Any]:
    found = found.where(_SHOWN)
    if owner:
        found = found.where(job.c.owner == owner)
    if wanted := list(states):
        found = found.where(job.c.state.in_(wanted))
    if query:
        found = found.where(
            or_(
                job.c.name.icontains(query, autoescape=True),
                and_(job.c.id >= query.lower(), job.c.id < _after_prefix(query.lower())),
            )
        )
    return found


def resolve(conn: Connection, prefix: str, owner: str, limit: int) -> list[JobId]:
    """Ids that start with a prefix, newest first; only an owner's when given."""
    found = select(job.c.id).where(_SHOWN, job.c.id >= prefix, job.c.id < _after_prefix(prefix))
    if owner:
        found = found.where(job.c.owner == owner)
    return [JobId(row.id) for row in conn.execute(found.order_by(job.c.id.desc()).limit(limit))]


def resolve_end(conn: Connection, end: str, since: JobId, owner: str, limit: int) -> list[JobId]:
    """Ids from ``since`` on that end with these letters and digits, newest first; only an owner's when given."""
    found = select(job.c.id).where(_SHOWN, job.c.id >= since, job.c.id.endswith(end, autoescape=True))
    if owner:
        found = found.where(job.c.owner == owner)
    return [JobId(row.id) for row in conn.execute(found.order_by(job.c.id.desc()).limit(limit))]


def _after_prefix(prefix: str) -> str:
    # Ids are ASCII; this compares above each of them that starts so, and a range can use the index.
    return prefix + "\U0010ffff"


# -- commands on their way ----------------------------------------------------------------------


def _command_row(live: LiveJob, command: Command) -> tuple[str, bytes]:
    """A command without the task's spec, its owner and the like: those never change and are joined at delivery."""
    target = common_pb2.Task(job_id=live.record.id, name=live.names[command.task])
    message = task_manager_pb2.TaskCommand()
    match command:
        case EnqueueCommand():
            message.enqueue.task.CopyFrom(target)
            message.enqueue.generation = command.generation
            message.enqueue.submitted_at = command.ages_from
            message.enqueue.tail_timeout_s = command.tail_timeout_s
            message.enqueue.held = command.held
            if command.lost is not None:
                message.enqueue.lost = True
                message.enqueue.told_seq = command.lost.seq
                message.enqueue.told_attempt = command.lost.attempt
                message.enqueue.told_node_id = command.lost.node_id
        case CancelCommand():
            message.cancel.task.CopyFrom(target)
            message.cancel.generation = command.generation
            message.cancel.by = command.by
        case HoldCommand():
            message.hold.task.CopyFrom(target)
            message.hold.generation = command.generation
        case ReleaseCommand():
            message.release.task.CopyFrom(target)
            message.release.generation = command.generation
            message.release.submitted_at = command.ages_from
    return str(command.task), message.SerializeToString()


def load_for_delivery(conn: Connection, wanted: dict[str, list[int]]) -> dict[str, tuple[JobRecord, dict[int, bytes]]]:
    """Records and specs of the tasks to be enqueued, by job id and task number."""
    out = {}
    for job_id, numbers in wanted.items():
        record = load_record(conn, job_id)
        if record is not None:
            out[job_id] = (record, load_specs(conn, job_id, numbers))
    return out


# -- rows and values ----------------------------------------------------------------------------


def pack_graph(dag: Dag) -> bytes:
    """Edges and tails: three little-endian arrays (needs of each task, edges as 3 · needed + kind, tails)."""
    lengths = array("I", (len(of_task) for of_task in dag.needs))
    edges = array("I", (3 * need + _KIND_NUMBER[on] for of_task in dag.needs for need, on in of_task))
    tails = array("d", dag.tail_timeout_s)
    head = array("I", (len(lengths), len(edges)))
    return zlib.compress(b"".join(_little(part) for part in (head, lengths, edges, tails)), 1)


def unpack_graph(packed: bytes) -> tuple[Needs, Sequence[float]]:
    """The inverse of :func:`pack_graph`."""
    data = zlib.decompress(packed)
    head = _from_little("I", data[:8])
    tasks, edges = head
    lengths = _from_little("I", data[8 : 8 + 4 * tasks])
    codes = _from_little("I", data[8 + 4 * tasks : 8 + 4 * (tasks + edges)])
    tails = _from_little("d", data[8 + 4 * (tasks + edges) :])
    needs = []
    start = 0
    for length in lengths:
        needs.append(tuple((code // 3, _KINDS[code % 3]) for code in codes[start : start + length]))
        start += length
    return needs, tails


def _little(values: array[Any]) -> bytes:
    if _BIG_ENDIAN:
        values.byteswap()
    return values.tobytes()


def _from_little(kind: str, data: bytes) -> array[Any]:
    values: array[Any] = array(kind)
    values.frombytes(data)
    if _BIG_ENDIAN:
        values.byteswap()
    return values


# Named one by one, so that the index over states serves.
_TASK_ENDED = [state.value for state in TASK_ENDED]
LIVE = job.c.state.in_([state.value for state in JobState if state not in JOB_ENDED])

# A job that is being removed does not show.
_SHOWN = ~exists().where(removal.c.job_id == job.c.id)

_BIG_ENDIAN = array("H", b"\x00\x01")[0] == 1

# Made once: to build a statement costs several times what it costs to run it. These run for every job.
_NEW_JOB, _NEW_GRAPH, _NEW_TASK, _NEW_SPEC = insert(job), insert(job_graph), insert(task), insert(task_spec)
_RECORD = select(job).where(job.c.id == bindparam("key"))
_REQUEST = select(job.c.id, job.c.spec_hash).where(
    job.c.owner == bindparam("owner_is"), job.c.request_id == bindparam("request_is")
)
_SPEC = select(task_spec.c.number, task_spec.c.spec).where(
    task_spec.c.job_id == bindparam("key_job"), task_spec.c.number == bindparam("key_number")
)
_UPDATE_TASK = (
    update(task)
    .where(task.c.job_id == bindparam("key_job"), task.c.number == bindparam("key_number"))
    .values(
        {column.name: bindparam(column.name) for column in task.c if column.name not in ("job_id", "number", "name")}
    )
)
_JOB_CHANGES = (
    "state", "started_at", "ended_at", "ages_from", "held", "counts", "reason_task",
    "reason_word", "exit_code", "signal", "detail", "version", "pinned", "log_bytes",
)  # fmt: skip
_UPDATE_JOB = update(job).where(job.c.id == bindparam("key")).values({name: bindparam(name) for name in _JOB_CHANGES})


def _new_task_row(live: LiveJob, number: int) -> dict[str, Any]:
    row = _task_row(live, number)
    del row["key_job"], row["key_number"]
    row["job_id"] = live.record.id
    row["number"] = number
    row["name"] = live.names[number]
    return row


def _task_row(live: LiveJob, number: int) -> dict[str, Any]:
    record = live.tasks[number]
    return {
        "key_job": live.record.id,
        "key_number": number,
        "state": live.states[number].value,
        "generation": record.generation,
        "seq": record.seq,
        "attempt": record.attempt,
        "node_id": record.node_id,
        "queued_at": record.queued_at,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "held_at": record.held_at,
        "account_hold": record.account_hold,
        "ages_from": record.ages_from,
        **_reason_row(record.reason),
    }


def _task_record(row: Row[Any]) -> TaskRecord:
    return TaskRecord(
        ages_from=row.ages_from,
        generation=row.generation,
        seq=row.seq,
        attempt=row.attempt,
        node_id=row.node_id,
        queued_at=row.queued_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        held_at=row.held_at,
        account_hold=row.account_hold,
        reason=_reason(row),
    )


def _job_row(live: LiveJob) -> dict[str, Any]:
    record = live.record
    return {
        "id": record.id,
        "owner": record.owner,
        "account": record.account,
        "request_id": record.request_id,
        "spec_hash": record.spec_hash,
        "name": record.name,
        "priority": record.priority.value,
        "state": record.state.value,
        "submitted_at": record.submitted_at,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "ages_from": record.ages_from,
        "held": record.held,
        "task_count": record.task_count,
        "counts": json.dumps({state.value: count for state, count in record.counts.items()}),
        "reason_task": record.reason_task,
        "version": record.version,
        "pinned": record.pinned,
        "log_bytes": record.log_bytes,
        **_reason_row(record.reason),
    }


def _job_record(row: Row[Any]) -> JobRecord:
    return JobRecord(
        id=JobId(row.id),
        owner=row.owner,
        account=row.account,
        request_id=row.request_id,
        spec_hash=row.spec_hash,
        name=row.name,
        priority=Priority(row.priority),
        state=JobState(row.state),
        submitted_at=row.submitted_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        ages_from=row.ages_from,
        held=row.held,
        task_count=row.task_count,
        counts={TaskState(state): count for state, count in json.loads(row.counts).items()},
        reason=_reason(row),
        reason_task=row.reason_task,
        version=row.version,
        pinned=row.pinned,
        log_bytes=row.log_bytes,
    )


def _reason_row(reason: EndReason | None) -> dict[str, Any]:
    if reason is None:
        return {"reason_word": None, "exit_code": None, "signal": None, "detail": ""}
    return {
        "reason_word": reason.word.value,
        "exit_code": reason.exit_code,
        "signal": reason.signal,
        "detail": reason.detail,
    }


def _reason(row: Row[Any]) -> EndReason | None:
    if row.reason_word is None:
        return None
    return EndReason(EndWord(row.reason_word), row.exit_code, row.signal, row.detail)
