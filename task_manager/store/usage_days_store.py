"""Usage by day of attempts that are no longer kept, as SQL. Every function works inside a transaction of its caller."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Label, RowMapping, bindparam, case, func, insert, select, update

from ..engine.usage import DAY_S, TimeSpan, UsageGrouping, UsageSums
from .tables import usage_days

_D = usage_days.c
_SUMS = [field.name for field in fields(UsageSums)]
_KEYS = {UsageGrouping.USER: _D.owner, UsageGrouping.NODE: _D.node_id, UsageGrouping.DAY: _D.day}
_ADDED = (*_SUMS, "new_tasks")
# Made once: a sweep runs it thousands of times.
_MORE = (
    update(usage_days)
    .where(*(_D[name] == bindparam(f"more_{name}") for name in ("day", "owner", "node_id")))
    .values({name: _D[name] + bindparam(f"more_{name}") for name in _ADDED})
)


def add(conn: Connection, rows: Iterable[RowMapping]) -> None:
    """Adds sums to those that are kept. A row has a day, an account, a node and the sums."""
    for row in rows:
        values = {name: row[name] or 0 for name in _ADDED}
        keys = {name: row[name] for name in ("day", "owner", "node_id")}
        if not conn.execute(_MORE, {f"more_{name}": value for name, value in {**keys, **values}.items()}).rowcount:
            conn.execute(insert(usage_days), {**keys, **values})


def any_gone(conn: Connection) -> bool:
    """Whether there ever were attempts that are no longer kept."""
    return conn.execute(select(_D.day).limit(1)).first() is not None


def any_kept(conn: Connection, span: TimeSpan, owner: str) -> bool:
    """Whether some sums belong to the span."""
    return conn.execute(select(_D.day).where(*_within(span, owner)).limit(1)).first() is not None


def load_total(conn: Connection, span: TimeSpan, owner: str) -> UsageSums:
    """The sums of a span; ``owner`` empty: everybody's."""
    row = conn.execute(select(*_summed(span)).where(*_within(span, owner))).mappings().one()
    return _read(row)


def load_rows(conn: Connection, by: UsageGrouping, span: TimeSpan, owner: str) -> dict[Any, UsageSums]:
    """The same by account, node or day (from 1970). A task counts for the node of its first attempt."""
    key = _KEYS[by]
    sums = [func.sum(usage_days.c[name]).label(name) for name in _SUMS] if by is UsageGrouping.DAY else _summed(span)
    query = select(key.label("key"), *sums).where(*_within(span, owner)).group_by(key)
    return {row["key"]: _read(row) for row in conn.execute(query).mappings()}


def _within(span: TimeSpan, owner: str) -> list[ColumnElement[bool]]:
    first, behind = _days(span)
    wanted = [_D.day >= first, _D.day < behind]
    return [*wanted, _D.owner == owner] if owner else wanted


def _days(span: TimeSpan) -> tuple[int, int]:
    """The days whose noon lies in the span: the first, and the one behind the last."""
    return math.ceil(span.from_at / DAY_S - 0.5), math.ceil(span.to_at / DAY_S - 0.5)


def _summed(span: TimeSpan) -> list[Label[Any]]:
    # An attempt that reached over midnight is in both days. Behind the first day of the span, those count that began.
    first, _ = _days(span)
    once = {"attempts": _D.started, "tasks": _D.new_tasks}
    return [
        func.sum(case((_D.day == first, usage_days.c[name]), else_=once.get(name, usage_days.c[name]))).label(name)
        for name in _SUMS
    ]


def _read(row: RowMapping) -> UsageSums:
    whole = {"attempts", "tasks", "started", "ended", "timed_out"}
    values: dict[str, Any] = {name: int(row[name] or 0) if name in whole else float(row[name] or 0.0) for name in _SUMS}
    return UsageSums(**values)
