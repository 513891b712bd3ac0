"""What the removal of jobs reads and writes, as SQL; inside a transaction of the caller."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    bindparam,
    delete,
    func,
    insert,
    select,
    true,
    tuple_,
    update,
)

from headway.model.retention import DAY_S, AgeLimit, EndedJob

from .tables import TASK_MANAGER, action, job, job_graph, outbox, removal, task, task_spec

# When a removed job is looked at again, for what a Worker or a queue brought late.
_LOOKS_AFTER_S = (600.0, DAY_S, 13 * DAY_S)
_MARK = select(removal.c.job_id).where(removal.c.job_id == bindparam("key"))  # made once: each action asks
_ROWS_HERE = len(_LOOKS_AFTER_S) + 1
_TASKS_AT_ONCE = 500

Place = tuple[float, str]  # of a job among those that ended, by its end and its id
FIRST: Place = (-1.0, "")


@dataclass(frozen=True, slots=True)
class Removal:
    """A job that is being removed; or is, where ``rows_here`` is False."""

    job_id: str
    after_seq: int
    rows_here: bool
    tasks: int


# -- marks ----------------------------------------------------------------------------------------


def is_marked(conn: Connection, job_id: str) -> bool:
    """Whether the job is being removed, or was lately."""
    return conn.execute(_MARK, {"key": job_id}).first() is not None


def fate(conn: Connection, job_id: str) -> tuple[float, str] | None:
    """When and why a job was removed; None: it was not, or long ago."""
    row = conn.execute(select(removal.c.marked_at, removal.c.why).where(removal.c.job_id == job_id)).first()
    return None if row is None else (row.marked_at, row.why)


def mark(conn: Connection, job_ids: Iterable[str], now: float, due_at: float, why: str = "") -> None:
    """From now on these jobs do not show, and nothing but their removal happens to them.

    People see the moment ``now``, by the wall clock. When they are looked at is by the clock of timers, as all other
    instants here.
    """
    after_seq = outbox.last_seq(conn)
    rows = [
        {
            "job_id": one,
            "marked_at": now,
            "after_seq": after_seq,
            "looks_left": _ROWS_HERE,
            "due_at": due_at,
            "why": why,
        }
        for one in job_ids
    ]
    if rows:
        conn.execute(insert(removal), rows)
        # Its key may be used again: an answer with the id of a job that nobody sees would help nobody.
        conn.execute(update(job).where(job.c.id.in_([row["job_id"] for row in rows])).values(request_id=None))


def due(conn: Connection, now: float, limit: int, most_tasks: int) -> list[Removal]:
    """Some removals for which something is to be done now: one, or several with no more tasks than that."""
    query = select(removal, job.c.task_count).outerjoin(job, job.c.id == removal.c.job_id)
    query = query.where(removal.c.due_at <= now).order_by(removal.c.due_at, removal.c.job_id).limit(limit)
    found: list[Removal] = []
    for row in conn.execute(query):
        most_tasks -= row.task_count or 1
        if most_tasks < 0 and found:
            break
        found.append(Removal(row.job_id, row.after_seq, row.looks_left == _ROWS_HERE, row.task_count or 0))
    return found


def next_due(conn: Connection) -> float | None:
    """When something is to be done next."""
    found: float | None = conn.execute(select(func.min(removal.c.due_at))).scalar()
    return found


def first_undelivered(conn: Connection) -> int | None:
    """The first command that is still on its way to TaskManager."""
    table = outbox.table
    found: int | None = conn.execute(select(func.min(table.c.seq)).where(table.c.target == TASK_MANAGER)).scalar()
    return found


def put_off(conn: Connection, job_ids: Collection[str], until: float) -> None:
    """Looks at these again then."""
    conn.execute(update(removal).where(removal.c.job_id.in_(job_ids)).values(due_at=until))


def looked(conn: Connection, job_ids: Collection[str], now: float) -> None:
    """Nothing is left of these removed jobs. After the last look they are forgotten."""
    here = removal.c.job_id.in_(job_ids)
    conn.execute(delete(removal).where(here, removal.c.looks_left <= 1))
    for left in range(2, _ROWS_HERE):
        later = now + _LOOKS_AFTER_S[_ROWS_HERE - left]
        conn.execute(
            update(removal).where(here, removal.c.looks_left == left).values(looks_left=left - 1, due_at=later)
        )


def drop_some(conn: Connection, job_ids: Sequence[str], now: float) -> list[str]:
    """Deletes what JobManager has of the first of these jobs, as much as one transaction may. Answers which are gone.

    The row of a job goes last, so a removal that was cut off finds it again.
    """
    counts = task_counts(conn, job_ids)
    whole: list[str] = []
    room = _TASKS_AT_ONCE
    for job_id in job_ids:
        room -= max(1, counts.get(job_id, 0))
        if room < 0 and whole:
            break
        whole.append(job_id)
    if room < 0 and _drop_tasks(conn, whole[0]):
        return []
    for table in (task_spec, task, job_graph, action):
        conn.execute(delete(table).where(table.c.job_id.in_(whole)))
    conn.execute(delete(job).where(job.c.id.in_(whole)))
    gone = {"looks_left": _ROWS_HERE - 1, "due_at": now + _LOOKS_AFTER_S[0]}
    conn.execute(update(removal).where(removal.c.job_id.in_(whole)).values(**gone))
    return whole


def _counts(job_ids: Collection[str]) -> Select[Any]:
    return select(job.c.id, job.c.task_count).where(job.c.id.in_(job_ids))


def _drop_tasks(conn: Connection, job_id: str) -> bool:
    """Deletes some tasks of a large job, or answers that the rest is little."""
    numbers = select(task.c.number).where(task.c.job_id == job_id).order_by(task.c.number)
    last = conn.execute(numbers.offset(_TASKS_AT_ONCE - 1).limit(1)).scalar()
    if last is None:
        return False
    for table in (task_spec, task):
        conn.execute(delete(table).where(table.c.job_id == job_id, table.c.number <= last))
    return True


# -- which jobs -----------------------------------------------------------------------------------


def too_old(conn: Connection, limit: AgeLimit, place: Place, most: int) -> list[EndedJob]:
    """Some of the jobs that a limit rules out, those that ended first behind ``place``."""
    mine: ColumnElement[bool] = job.c.owner == limit.owner if limit.owner else true()
    if limit.others_than:
        mine = job.c.owner.not_in(limit.others_than)
    query = _ended(_behind(place), job.c.ages_from <= limit.before, ~job.c.pinned, mine).limit(most)
    return [_ended_job(row) for row in conn.execute(query)]


def ended_after(
    conn: Connection, place: Place, most: int, *, owner: str = "", before: float | None = None
) -> list[EndedJob]:
    """Jobs that ended behind ``place`` and up to ``before``, those that ended first; ``owner`` empty: everybody's."""
    wanted: list[ColumnElement[bool]] = [_behind(place)]
    if before is not None:
        wanted.append(job.c.ages_from <= before)
    if owner:
        wanted.append(job.c.owner == owner)
    return [_ended_job(row) for row in conn.execute(_ended(*wanted).limit(most))]


def task_counts(conn: Connection, job_ids: Collection[str]) -> dict[str, int]:
    """How many tasks each of these jobs has."""
    return {row.id: row.task_count for row in conn.execute(_counts(job_ids))}


def unmeasured(conn: Connection, place: Place, most: int) -> list[EndedJob]:
    """Some jobs that ended behind ``place``, of which nobody has asked what their logs take."""
    return [_ended_job(row) for row in conn.execute(_ended(_behind(place), job.c.log_bytes.is_(None)).limit(most))]


def measured(conn: Connection, log_bytes: Mapping[str, int]) -> None:
    """Notes what logs take, of jobs that have not begun again meanwhile."""
    for job_id, taken in log_bytes.items():
        conn.execute(update(job).where(job.c.id == job_id, job.c.ages_from.is_not(None)).values(log_bytes=taken))


def log_totals(conn: Connection) -> dict[str, int]:
    """What the logs of ended jobs that are not pinned take, by account."""
    query = select(job.c.owner, func.sum(job.c.log_bytes)).where(
        job.c.log_bytes.is_not(None), ~job.c.pinned, _not_marked()
    )
    return {owner: int(taken or 0) for owner, taken in conn.execute(query.group_by(job.c.owner))}


def _behind(place: Place) -> ColumnElement[bool]:
    return tuple_(job.c.ages_from, job.c.id) > tuple_(*place)


def _ended(*wanted: ColumnElement[bool]) -> Select[Any]:
    columns = job.c.id, job.c.owner, job.c.ages_from, job.c.log_bytes, job.c.pinned
    query = select(*columns).where(job.c.ages_from.is_not(None), _not_marked(), *wanted)
    return query.order_by(job.c.ages_from, job.c.id)


def _not_marked() -> ColumnElement[bool]:
    return ~select(removal.c.job_id).where(removal.c.job_id == job.c.id).exists()


def _ended_job(row: Row[Any]) -> EndedJob:
    return EndedJob(row.id, row.owner, row.ages_from, row.log_bytes, row.pinned)
