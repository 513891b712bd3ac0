"""The removal of jobs as SQL. Every function works inside a transaction of its caller."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, delete, func, select, tuple_

from headway.model.reasons import EndWord
from headway.states import TASK_ENDED, AttemptState, TaskState

from . import usage_days_store, usage_store
from .tables import attempts, task_specs, tasks

_TASKS_AT_ONCE = 100
_LIVE = [state.value for state in TaskState if state not in TASK_ENDED]

# Made once: a sweep runs them thousands of times.
_JOBS: BindParameter[Any] = bindparam("jobs", expanding=True)
_PLACE = tasks.c.job_id, tasks.c.name
_CHOSEN = select(*_PLACE).where(tasks.c.job_id.in_(_JOBS)).order_by(*_PLACE).limit(_TASKS_AT_ONCE)
_LAST = tuple_(bindparam("last_job"), bindparam("last_name"))
_DELETED = [
    delete(table).where(table.c.job_id.in_(_JOBS), tuple_(table.c.job_id, table.c.name) <= _LAST)
    for table in (attempts, task_specs, tasks)
]


def live_tasks(conn: Connection, job_ids: Collection[str]) -> dict[str, str]:
    """A task that has not ended, of each of these jobs that has one."""
    query = select(tasks.c.job_id, func.min(tasks.c.name)).where(tasks.c.job_id.in_(job_ids), tasks.c.state.in_(_LIVE))
    return dict(conn.execute(query.group_by(tasks.c.job_id)).all())


def lost_on(conn: Connection, job_ids: Collection[str], nodes: Collection[str]) -> dict[str, str]:
    """One of these nodes for each of the jobs that has an attempt that was declared lost there."""
    if not nodes:
        return {}
    a = attempts.c
    word = a.reason.contains(f'"{EndWord.NODE_LOST.value}"', autoescape=True)
    query = select(a.job_id, func.min(a.node_id)).where(
        a.job_id.in_(job_ids), a.node_id.in_(nodes), a.state == AttemptState.LOST.value, word
    )
    return dict(conn.execute(query.group_by(a.job_id)).all())


def remove_some(conn: Connection, job_ids: Sequence[str]) -> bool:
    """Deletes some tasks of these jobs with all that belongs to them, and keeps their usage by day. False: none is
    left."""
    found = [(row.job_id, row.name) for row in conn.execute(_CHOSEN, {"jobs": list(job_ids)})]
    if not found:
        return False
    last, here = found[-1], sorted({job_id for job_id, _ in found})
    usage_days_store.add(conn, usage_store.load_days_of(conn, here, last))
    for statement in _DELETED:
        conn.execute(statement, {"jobs": here, "last_job": last[0], "last_name": last[1]})
    return True


def left(conn: Connection, job_ids: Collection[str]) -> set[str]:
    """Those of the jobs that have tasks here."""
    return set(conn.execute(select(tasks.c.job_id).where(tasks.c.job_id.in_(job_ids)).distinct()).scalars())


def log_bytes(conn: Connection, job_ids: Sequence[str]) -> Mapping[str, int]:
    """What the logs of these jobs take, as Workers reported it."""
    a = attempts.c
    taken = func.sum(func.coalesce(a.stdout_bytes, 0) + func.coalesce(a.stderr_bytes, 0))
    query = select(a.job_id, taken).where(a.job_id.in_(job_ids)).group_by(a.job_id)
    return {job_id: int(found or 0) for job_id, found in conn.execute(query)}
