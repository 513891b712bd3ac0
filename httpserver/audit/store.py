"""The audit log as SQL. Every function works inside a transaction that its caller opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from .model import AuditPlace, AuditRow, Broken, first_break, hash_of
from .tables import audit_place as places
from .tables import audit_rows as rows

_FIELDS = tuple(AuditRow.__slots__)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which lines are wanted; empty texts and None: any. ``word``: the whole word, or what stands before its dot."""

    who: str = ""
    word: str = ""
    subject: str = ""
    outcome: str = ""
    since: float | None = None
    until: float | None = None


@dataclass(frozen=True, slots=True)
class AuditLine:
    """A row with the row that tells its outcome, if there is one."""

    row: AuditRow
    end: AuditRow | None


def place(conn: Connection) -> AuditPlace:
    row = conn.execute(select(places)).first()
    return AuditPlace() if row is None else AuditPlace(row.last_number, row.last_hash, row.gone_number, row.gone_hash)


def _set_place(conn: Connection, at: AuditPlace) -> None:
    if conn.execute(update(places).where(places.c.id == 1).values(asdict(at))).rowcount == 0:
        conn.execute(insert(places), {"id": 1, **asdict(at)})


def append(conn: Connection, new: Sequence[AuditRow]) -> int:
    """Stores rows behind the newest one; answers the number of the last. Their own numbers don't count."""
    at = place(conn)
    number, last_hash = at.last_number, at.last_hash
    stored = []
    for row in new:
        number += 1
        row = replace(row, number=number)
        last_hash = hash_of(row, last_hash)
        stored.append({**asdict(row), "hash": last_hash})
    if stored:
        conn.execute(insert(rows), stored)
        _set_place(conn, replace(at, last_number=number, last_hash=last_hash))
    return number


def page(conn: Connection, wanted: AuditFilter, before: int | None, limit: int) -> list[AuditLine]:
    """The newest lines below the number ``before``, the newest first."""
    ends = rows.alias("ends_of")
    joined = rows.outerjoin(ends, and_(ends.c.ends == rows.c.number, ends.c.ends != 0))
    query = select(rows, *(ends.c[name].label(f"end_{name}") for name in _FIELDS)).select_from(joined)
    query = query.where(rows.c.ends == 0)
    if before is not None:
        query = query.where(rows.c.number < before)
    if wanted.who:
        query = query.where(or_(rows.c.who == wanted.who, ends.c.who == wanted.who))
    if wanted.word:
        family = func.substr(rows.c.word, 1, len(wanted.word) + 1) == f"{wanted.word}."
        query = query.where(or_(rows.c.word == wanted.word, family))
    if wanted.subject:
        query = query.where(or_(*(_holds(table.c.subject, wanted.subject) for table in (rows, ends))))
    if wanted.outcome:
        query = query.where(func.coalesce(ends.c.outcome, rows.c.outcome) == wanted.outcome)
    if wanted.since is not None:
        query = query.where(rows.c.at >= wanted.since)
    if wanted.until is not None:
        query = query.where(rows.c.at < wanted.until)
    return [_line(row) for row in conn.execute(query.order_by(rows.c.number.desc()).limit(limit))]


def _holds(column: Any, text: str) -> Any:
    # No pattern: signs of patterns in a name are signs of the name.
    return column.contains(text, autoescape=True)


def _line(row: Any) -> AuditLine:
    mapping = row._mapping
    end = None if mapping["end_number"] is None else AuditRow(**{name: mapping[f"end_{name}"] for name in _FIELDS})
    return AuditLine(AuditRow(**{name: mapping[name] for name in _FIELDS}), end)


def check(conn: Connection, number: int, before: str, most: int) -> tuple[int, str, Broken | None, AuditPlace]:
    """Looks at the chain behind a row that holds, some rows at a time. Answers the last that holds, what is wrong
    behind it, and the place as this look saw it."""
    query = select(rows).where(rows.c.number > number).order_by(rows.c.number).limit(most)
    found = ((AuditRow(**{name: row._mapping[name] for name in _FIELDS}), row.hash) for row in conn.execute(query))
    return *first_break(found, number, before), place(conn)


def remove_older(conn: Connection, stored_before: float, most: int) -> tuple[bool, float | None]:
    """Deletes some rows that were stored before an instant, the oldest first. Answers whether there may be more, and
    when the oldest that is left was stored."""
    query = select(rows.c.number, rows.c.stored_at, rows.c.hash).order_by(rows.c.number).limit(most + 1)
    gone: Any = None
    for count, row in enumerate(conn.execute(query).all()):
        if row.stored_at >= stored_before or count == most:
            _remove_to(conn, gone)
            return row.stored_at < stored_before, row.stored_at
        gone = row
    _remove_to(conn, gone)
    return False, None


def _remove_to(conn: Connection, row: Any) -> None:
    if row is not None:
        conn.execute(delete(rows).where(rows.c.number <= row.number))
        _set_place(conn, replace(place(conn), gone_number=row.number, gone_hash=row.hash))
