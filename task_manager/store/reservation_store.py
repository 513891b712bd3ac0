"""Stored reservations of waiting tasks, and promises that no longer hold, as SQL. Every function works inside a
transaction of its caller.

Times are by the boot clock. After a reboot they are derived from the wall clock.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Table, bindparam, delete, insert, select

from headway.ids import JobId, NodeId, TaskId

from ..clocks import ClockReading
from ..planning.bookings import MovedPromise, Reservation
from .tables import moved_promises, places


def write(conn: Connection, changed: Sequence[tuple[TaskId, Reservation | None]], reading: ClockReading) -> None:
    """Stores reservations, or deletes them."""
    by_s = reading.now - reading.mono
    rows: list[tuple[TaskId, dict[str, Any] | None]] = []
    for task_id, place in changed:
        row = None
        if place is not None:
            row = {
                "node_id": place.node_id,
                "gpus": json.dumps(place.gpus),
                "start_at": place.start_s + by_s,
                "duration_s": place.duration_s,
                "promised_at": None if place.promised_s is None else place.promised_s + by_s,
                "boot_id": reading.boot_id,
                "start_s": place.start_s,
                "given_at": place.first_promised_at,
                "first_at": None if place.first_promised_s is None else place.first_promised_s + by_s,
                "first_wait_s": place.first_wait_s,
            }
        rows.append((task_id, row))
    _put(conn, places, rows)


def load(conn: Connection, reading: ClockReading) -> dict[TaskId, Reservation]:
    """All reservations."""
    found = {}
    for row in conn.execute(select(places)):
        by_s = _shift_s(row, row.start_s - row.start_at, reading)
        found[TaskId(JobId(row.job_id), row.name)] = Reservation(
            NodeId(row.node_id),
            tuple((kind, count) for kind, count in json.loads(row.gpus)),
            row.start_at + by_s,
            row.duration_s,
            None if row.promised_at is None else row.promised_at + by_s,
            row.given_at,
            None if row.first_at is None else row.first_at + by_s,
            row.first_wait_s,
        )
    return found


def write_moved(conn: Connection, changed: Sequence[tuple[TaskId, MovedPromise | None]], reading: ClockReading) -> None:
    """Stores promises that no longer hold, or deletes them."""
    rows: list[tuple[TaskId, dict[str, Any] | None]] = []
    for task_id, moved in changed:
        row = None
        if moved is not None:
            row = {
                "promised_at": moved.promised_s + reading.now - reading.mono,
                "boot_id": reading.boot_id,
                "promised_s": moved.promised_s,
                "cause": moved.cause,
            }
        rows.append((task_id, row))
    _put(conn, moved_promises, rows)


def load_moved(conn: Connection, reading: ClockReading) -> dict[TaskId, MovedPromise]:
    """All promises that no longer hold."""
    return {
        TaskId(JobId(row.job_id), row.name): MovedPromise(
            row.promised_at + _shift_s(row, row.promised_s - row.promised_at, reading), row.cause
        )
        for row in conn.execute(select(moved_promises))
    }


def _put(conn: Connection, table: Table, rows: Sequence[tuple[TaskId, dict[str, Any] | None]]) -> None:
    if not rows:
        return
    # One statement for all of them: a pass may push two hundred late places.
    gone = delete(table).where(table.c.job_id == bindparam("of_job"), table.c.name == bindparam("of_name"))
    conn.execute(gone, [{"of_job": task_id.job_id, "of_name": task_id.name} for task_id, _ in rows])
    there = [{"job_id": task_id.job_id, "name": task_id.name, **row} for task_id, row in rows if row is not None]
    if there:
        conn.execute(insert(table), there)


def _shift_s(row: Row[Any], in_its_life_s: float, reading: ClockReading) -> float:
    """What turns a row's wall-clock time into one by the boot clock."""
    return in_its_life_s if row.boot_id == reading.boot_id else reading.mono - reading.now
