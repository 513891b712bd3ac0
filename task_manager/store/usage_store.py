"""Usage and past runs as SQL. Every function works inside a transaction of its caller.

The database makes the sums, so that Python never reads a million attempts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    FromClause,
    Label,
    RowMapping,
    Select,
    and_,
    bindparam,
    case,
    cast,
    distinct,
    func,
    literal,
    select,
    tuple_,
    union_all,
)

from headway.ids import AttemptId, JobId, TaskId
from headway.states import AttemptState

from ..engine.usage import DAY_S, PastRunRow, TimeSpan, UsageGrouping, UsageRow, UsageSummary, UsageSums, added
from . import usage_days_store
from .tables import attempts, tasks

_A = attempts.c
_KEYS = {
    UsageGrouping.USER: "owner",
    UsageGrouping.JOB: "job_id",
    UsageGrouping.NODE: "node_id",
    UsageGrouping.DAY: "day",
}
_OF_THEMSELVES = (
    AttemptState.SUCCEEDED.value,
    AttemptState.FAILED.value,
    AttemptState.TIMED_OUT.value,
    AttemptState.OUT_OF_MEMORY.value,
)
_FAILED = (
    AttemptState.FAILED.value,
    AttemptState.TIMED_OUT.value,
    AttemptState.OUT_OF_MEMORY.value,
    AttemptState.LOST.value,
)
_RAN = (*_OF_THEMSELVES, AttemptState.CANCELLED.value)
# Both of the Worker's clock; null: its process never started, or its end was not seen.
_RUN_S = func.coalesce(_A.run_s, _A.ended_at - _A.started_at)

# Where a page of runs begins: behind this queued_at, job, task and attempt.
After = tuple[float, str, str, int]
GONE_JOBS = "jobs that are no longer kept"
_JUST_NOW_S = 60.0
_EVER = 1e15  # seconds: later than any instant
FROM_THE_FIRST: After = (-1.0, "", "", 0)


# -- usage ------------------------------------------------------------------------------------------


def load_usage(
    conn: Connection, by: UsageGrouping, span: TimeSpan, *, owner: str, now: float, limit: int, offset: int
) -> UsageSummary:
    """One page of rows, and the sums of all; ``owner`` empty: everybody's. Days come in their order. Other rows come by
    GPU time and then CPU time, the greatest first."""
    if usage_days_store.any_kept(conn, _whole_days(span, now), owner):
        return _with_days(conn, by, span, owner=owner, now=now, limit=limit, offset=offset)
    held = _held(span, owner, now)
    if by is UsageGrouping.DAY:
        days = _by_day(conn.dialect.name, held)
        rows = select(days.c.day.label("key"), *_sums(days).values()).group_by(days.c.day).order_by(days.c.day)
        found: Sequence[RowMapping] = conn.execute(rows).mappings().all()
        total = conn.execute(select(*_sums(held).values())).mappings().one()
        return UsageSummary(tuple(_day(row) for row in found[offset : offset + limit]), len(found), _read(total))
    key, sums = held.c[_KEYS[by]], _sums(held)
    total = conn.execute(select(func.count(distinct(key)).label("rows"), *sums.values())).mappings().one()
    order = (sums["gpu_s"].desc(), sums["cpu_s"].desc(), key)
    rows = select(key.label("key"), *sums.values()).group_by(key).order_by(*order).limit(limit).offset(offset)
    found = conn.execute(rows).mappings().all()
    names = _jobs(conn, [row["key"] for row in found]) if by is UsageGrouping.JOB else {}
    return UsageSummary(
        tuple(UsageRow(row["key"], _read(row), *names.get(row["key"], ())) for row in found),
        total["rows"],
        _read(total),
    )


def _with_days(
    conn: Connection, by: UsageGrouping, span: TimeSpan, *, owner: str, now: float, limit: int, offset: int
) -> UsageSummary:
    """The same where attempts of the span are kept as sums of days only. Of jobs these sums are one row, the last."""
    held = _held(span, owner, now)
    kept_total = conn.execute(select(*_sums(held).values())).mappings().one()
    of_days = _whole_days(span, now)
    total = usage_days_store.load_total(conn, of_days, owner)
    whole = added(_read(kept_total), total)
    if by is UsageGrouping.JOB:
        key, sums = held.c.job_id, _sums(held)
        in_all = int(conn.execute(select(func.count(distinct(key)))).scalar() or 0)
        order = (sums["gpu_s"].desc(), sums["cpu_s"].desc(), key)
        rows = select(key.label("key"), *sums.values()).group_by(key).order_by(*order).limit(limit).offset(offset)
        found = conn.execute(rows).mappings().all()
        names = _jobs(conn, [row["key"] for row in found])
        page = [UsageRow(row["key"], _read(row), *names.get(row["key"], ())) for row in found]
        if len(page) < limit and offset + len(page) == in_all:
            page.append(UsageRow("", total, GONE_JOBS))
        return UsageSummary(tuple(page), in_all + 1, whole)
    if by is UsageGrouping.DAY:
        days = _by_day(conn.dialect.name, held)
        found = (
            conn.execute(select(days.c.day.label("key"), *_sums(days).values()).group_by(days.c.day)).mappings().all()
        )
    else:
        key = held.c[_KEYS[by]]
        found = conn.execute(select(key.label("key"), *_sums(held).values()).group_by(key)).mappings().all()
    merged = {row["key"]: _read(row) for row in found}
    for gone_key, gone in usage_days_store.load_rows(conn, by, of_days, owner).items():
        merged[gone_key] = added(merged.get(gone_key, UsageSums()), gone)
    if by is UsageGrouping.DAY:
        ordered = [UsageRow(_date(day), sums) for day, sums in sorted(merged.items())]
    else:
        by_gpus = sorted(merged.items(), key=lambda item: (-item[1].gpu_s, -item[1].cpu_s, item[0]))
        ordered = [UsageRow(name, sums) for name, sums in by_gpus]
    return UsageSummary(tuple(ordered[offset : offset + limit]), len(ordered), whole)


def _whole_days(span: TimeSpan, now: float) -> TimeSpan:
    """The span for sums of days: one that reaches up to now has all of today, whose noon may be still to come."""
    if span.to_at < now - _JUST_NOW_S:
        return span
    return TimeSpan(span.from_at, max(span.to_at, (now // DAY_S + 1) * DAY_S))


def load_days_of(conn: Connection, job_ids: Collection[str], last: tuple[str, str]) -> Sequence[RowMapping]:
    """What the ended attempts of these jobs' tasks up to ``last`` used, as rows of the table ``usage_days``."""
    wanted = {"jobs": list(job_ids), "last_job": last[0], "last_name": last[1]}
    return conn.execute(_days_of(conn.dialect.name), wanted).mappings().all()


@cache
def _days_of(dialect: str) -> Select[Any]:
    # Made once: a sweep asks it thousands of times, and SQLAlchemy takes far longer to make it than SQLite to answer.
    jobs: BindParameter[Any] = bindparam("jobs", expanding=True)
    last = tuple_(bindparam("last_job"), bindparam("last_name"))
    mine = _part(TimeSpan(0.0, _EVER), "", _A.freed_at).where(
        _A.freed_at.is_not(None), _A.job_id.in_(jobs), tuple_(_A.job_id, _A.name) <= last
    )
    days = _by_day(dialect, mine.cte("held"))
    new = _sum_if(and_(days.c.placed_at >= days.c.start_at, days.c.number == 1), 1).label("new_tasks")
    keys = days.c.day, days.c.owner, days.c.node_id
    return select(*keys, *_sums(days).values(), new).group_by(*keys)


def _held(span: TimeSpan, owner: str, now: float) -> FromClause:
    """The attempts that held resources within the span, each with its part of the span: ``start_at`` to ``end_at``."""
    # Ended and live ones are two queries: with one condition for both, SQLite reads the whole table.
    now = max(now, span.from_at)
    ended = _part(span, owner, _A.freed_at).where(_A.freed_at > span.from_at)
    live = _part(span, owner, literal(now)).where(_A.freed_at.is_(None))
    return union_all(ended, live).cte("held")


def _part(span: TimeSpan, owner: str, end: ColumnElement[Any]) -> Any:
    query = select(
        _A.job_id, _A.name, _A.owner, _A.node_id, _A.state, (_A.gpus + _A.gpu_fraction).label("gpus"), _A.cpu_centi,
        _A.memory_bytes, _A.queued_at,
        _A.placed_at, _A.freed_at, _A.timeout_s, _A.number, _RUN_S.label("run_s"),
        _A.gpu_measured_share, _A.gpu_busy_share, _A.gpu_idle_share,
        case((_A.placed_at < span.from_at, span.from_at), else_=_A.placed_at).label("start_at"),
        # The clock may have been set back: nothing ends before it began.
        case((end > span.to_at, span.to_at), (end < _A.placed_at, _A.placed_at), else_=end).label("end_at"),
    ).where(_A.placed_at < span.to_at)  # fmt: skip
    return query.where(_A.owner == owner) if owner else query


def _by_day(dialect: str, held: FromClause) -> FromClause:
    """The same, cut at each midnight of UTC; ``day`` counts from 1970."""
    # SQLite may have no floor function. Its cast cuts off; PostgreSQL's cast rounds.
    number = held.c.start_at / float(DAY_S)
    first = cast(number if dialect == "sqlite" else func.floor(number), BigInteger)
    cut = select(*held.c, first.label("day")).cte("cut", recursive=True)
    next_day = cut.c.day + 1
    rest = [column for column in cut.c if column.name != "day"]
    cut = cut.union_all(select(*rest, next_day).where(next_day * DAY_S < cut.c.end_at))
    midnight, next_midnight = cut.c.day * float(DAY_S), (cut.c.day + 1) * float(DAY_S)
    bounds = ("start_at", "end_at")
    return select(
        *(column for column in cut.c if column.name not in bounds),
        case((cut.c.start_at < midnight, midnight), else_=cut.c.start_at).label("start_at"),
        case((cut.c.end_at > next_midnight, next_midnight), else_=cut.c.end_at).label("end_at"),
    ).cte("days")


def _sums(held: FromClause) -> dict[str, Label[Any]]:
    """What is summed, by the fields of ``UsageSums``."""
    c = held.c
    seconds = c.end_at - c.start_at
    started = c.placed_at >= c.start_at
    ended = c.freed_at <= c.end_at  # null where it lives
    waited = case((c.placed_at > c.queued_at, c.placed_at - c.queued_at), else_=0.0)
    known = and_(ended, c.state.in_(_OF_THEMSELVES), c.run_s >= 0)
    # The seconds that it took to kill it are not booked.
    used_s = case((c.run_s > c.timeout_s, c.timeout_s), else_=c.run_s)
    gpu_s = c.gpus * seconds
    failed = c.state.in_(_FAILED)
    sums = {
        "gpu_s": func.sum(gpu_s),
        "cpu_s": func.sum(c.cpu_centi * seconds) / 100.0,
        "memory_byte_s": func.sum(c.memory_bytes * seconds),
        "attempts": func.count(),
        "tasks": func.count(distinct(c.job_id + "/" + c.name)),
        "started": _sum_if(started, 1),
        "wait_s": _sum_if(started, waited),
        "ended": _sum_if(ended, 1),
        "timed_out": _sum_if(and_(ended, c.state == AttemptState.TIMED_OUT.value), 1),
        "booked_gpu_s": _sum_if(known, c.gpus * c.timeout_s),
        "used_gpu_s": _sum_if(known, c.gpus * used_s),
        "measured_gpu_s": func.sum(gpu_s * c.gpu_measured_share),
        "busy_gpu_s": func.sum(gpu_s * c.gpu_busy_share),
        "idle_gpu_s": func.sum(gpu_s * c.gpu_idle_share),
        "failed_gpu_s": _sum_if(failed, gpu_s),
        "wasted_gpu_s": func.sum(case((failed, gpu_s), else_=gpu_s * c.gpu_idle_share)),
    }
    return {field.name: sums[field.name].label(field.name) for field in fields(UsageSums)}


def _sum_if(condition: ColumnElement[bool], value: Any) -> ColumnElement[Any]:
    return func.sum(case((condition, value), else_=0))


def _read(row: RowMapping) -> UsageSums:
    return UsageSums(**{field.name: row[field.name] or 0 for field in fields(UsageSums)})


def _day(row: RowMapping) -> UsageRow:
    return UsageRow(_date(row["key"]), _read(row))


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * DAY_S, UTC).date().isoformat()


def _jobs(conn: Connection, job_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Name and owner by id."""
    one = func.min(tasks.c.job_name).label("job_name"), func.min(tasks.c.owner).label("owner")
    query = select(tasks.c.job_id, *one).where(tasks.c.job_id.in_(job_ids)).group_by(tasks.c.job_id)
    return {row.job_id: (row.job_name, row.owner) for row in conn.execute(query)}


# -- past runs --------------------------------------------------------------------------------------


def load_runs(conn: Connection, span: TimeSpan, *, owner: str, after: After, limit: int) -> list[PastRunRow]:
    """Ended runs that were queued within the span, in the order of queueing, after ``after``; ``owner`` empty:
    everybody's. Lost runs are left out: the platform was at fault, and the same work ran again."""
    place = (_A.queued_at, _A.job_id, _A.name, _A.number)
    query = (
        select(*place, _A.owner, _RUN_S.label("run_s"), _A.timeout_s, _A.gpus, _A.cpu_centi, _A.memory_bytes)
        .add_columns(_A.state, tasks.c.gpu_models, tasks.c.priority)
        .join(tasks, and_(tasks.c.job_id == _A.job_id, tasks.c.name == _A.name))
        .where(_A.queued_at >= max(span.from_at, after[0]), _A.queued_at < span.to_at, tuple_(*place) > tuple_(*after))
        # The call hides the column: else SQLite would use the index of states, and sort all runs again for each page.
        .where(func.coalesce(_A.state, "").in_(_RAN), _RUN_S >= 0)
        .order_by(*place)
        .limit(limit)
    )
    if owner:
        query = query.where(_A.owner == owner)
    return [
        PastRunRow(
            attempt=AttemptId(TaskId(JobId(row.job_id), row.name), row.number),
            owner=row.owner,
            queued_at=row.queued_at,
            run_s=row.run_s,
            timeout_s=row.timeout_s,
            gpus=row.gpus,
            gpu_models=tuple(json.loads(row.gpu_models)),
            cpu_centi=row.cpu_centi,
            memory_bytes=row.memory_bytes,
            priority=row.priority,
            timed_out=row.state == AttemptState.TIMED_OUT.value,
        )
        for row in conn.execute(query)
    ]
