"""Tables and statements of uses: which jobs need what, and how often accounts used it.

Functions take the connection of a write transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Float,
    Index,
    Integer,
    String,
    Table,
    delete,
    insert,
    select,
    update,
)

from ..tables import metadata

# One row says: this job (or, while job_id is null, this request that may become one) needs this thing. An ended row
# stays for a day, so that a client which repeats its request is not counted twice.
holds = Table(
    "use_holds",
    metadata,
    Column("request_key", String(80), primary_key=True),
    Column("kind", String(16), primary_key=True),
    Column("key", String(260), primary_key=True),
    Column("account", String(32), nullable=False),
    Column("held_at", Float, nullable=False),
    Column("job_id", String(32)),
    Column("ended_at", Float),
    Index("use_holds_job", "job_id"),
)

totals = Table(
    "use_totals",
    metadata,
    Column("kind", String(16), primary_key=True),
    Column("key", String(260), primary_key=True),
    Column("account", String(32), primary_key=True),
    Column("jobs", Integer, nullable=False),
    Column("last_used_at", Float, nullable=False),
)

# The last run that ended well, per image.
good_runs = Table(
    "use_good_runs",
    metadata,
    Column("kind", String(16), primary_key=True),
    Column("key", String(260), primary_key=True),
    Column("job_id", String(32), nullable=False),
    Column("at", Float, nullable=False),
)


class UseHold(NamedTuple):
    """A row of ``use_holds``."""

    request_key: str
    kind: str
    key: str
    account: str
    held_at: float
    job_id: str | None
    ended_at: float | None


def load(conn: Connection) -> list[UseHold]:
    """All holds."""
    return [UseHold(*row) for row in conn.execute(select(holds))]


def add(conn: Connection, rows: Iterable[UseHold]) -> None:
    """Adds holds; those that are there already stay as they are."""
    for row in rows:
        same = _is(row.request_key, row.kind, row.key)
        if conn.execute(select(holds.c.kind).where(same)).first() is None:
            conn.execute(insert(holds).values(row._asdict()))


def confirm(conn: Connection, request_key: str, job_id: str) -> None:
    """The request became that job."""
    where = (holds.c.request_key == request_key) & holds.c.job_id.is_(None)
    conn.execute(update(holds).where(where).values(job_id=job_id))


def drop(conn: Connection, request_key: str) -> None:
    """The request became no job."""
    conn.execute(delete(holds).where((holds.c.request_key == request_key) & holds.c.job_id.is_(None)))


def end(conn: Connection, job_id: str, at: float) -> None:
    """The job needs nothing any more."""
    conn.execute(update(holds).where((holds.c.job_id == job_id) & holds.c.ended_at.is_(None)).values(ended_at=at))


def revive(conn: Connection, job_id: str) -> None:
    """The job runs again."""
    conn.execute(update(holds).where(holds.c.job_id == job_id).values(ended_at=None))


def prune(conn: Connection, before: float) -> None:
    """Forgets holds of jobs that ended before."""
    conn.execute(delete(holds).where(holds.c.ended_at < before))


def count(conn: Connection, kind: str, key: str, account: str, at: float, jobs: int) -> None:
    """``jobs`` more jobs of the account used it, the last one at ``at``."""
    where = (totals.c.kind == kind) & (totals.c.key == key) & (totals.c.account == account)
    row = conn.execute(select(totals.c.jobs, totals.c.last_used_at).where(where)).first()
    if row is None:
        values = {"kind": kind, "key": key, "account": account, "jobs": jobs, "last_used_at": at}
        conn.execute(insert(totals).values(values))
    else:
        last = max(row.last_used_at, at)
        conn.execute(update(totals).where(where).values(jobs=row.jobs + jobs, last_used_at=last))


def good_run(conn: Connection, kind: str, key: str, job_id: str, at: float) -> None:
    """A run with it ended well; an earlier one changes nothing."""
    where = (good_runs.c.kind == kind) & (good_runs.c.key == key)
    row = conn.execute(select(good_runs.c.at).where(where)).first()
    if row is None:
        conn.execute(insert(good_runs).values(kind=kind, key=key, job_id=job_id, at=at))
    elif row.at < at:
        conn.execute(update(good_runs).where(where).values(job_id=job_id, at=at))


def good_runs_of(conn: Connection, runs: Mapping[str, tuple[str, float]]) -> None:
    """Of several images: digest to job and time."""
    for digest, (job_id, at) in runs.items():
        good_run(conn, "image", digest, job_id, at)


def forget(conn: Connection, kind: str, key: str) -> None:
    """Forgets all that is known of a thing that is deleted for good."""
    for table in (totals, good_runs):
        conn.execute(delete(table).where((table.c.kind == kind) & (table.c.key == key)))


def _is(request_key: str, kind: str, key: str) -> ColumnElement[bool]:
    return (holds.c.request_key == request_key) & (holds.c.kind == kind) & (holds.c.key == key)
