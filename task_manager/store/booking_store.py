"""Stored places of waiting tasks and promises that no longer hold, as SQL. Every function works inside a transaction
that its caller opened.

Times are by the boot clock; those of another life of the machine are read as the wall clock tells.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Table, delete, insert, select

from headway.ids import JobId, NodeId, TaskId

from ..clocks import Reading
from ..planning.bookings import MovedPromise, Reservation
from .tables import moved_promises, places


def write(conn: Connection, changed: Sequence[tuple[TaskId, Reservation | None]], here: Reading) -> None:
    """Stores places, or takes them out."""
    by_s = here.now - here.mono
    for task_id, place in changed:
        row = None
        if place is not None:
            row = {
                "node_id": place.node_id,
                "gpus": json.dumps(place.gpus),
                "start_at": place.start_s + by_s,
                "duration_s": place.duration_s,
                "promised_at": None if place.promised_s is None else place.promised_s + by_s,
                "boot_id": here.boot_id,
                "start_s": place.start_s,
                "given_at": place.first_promised_at,
            }
        _put(conn, places, task_id, row)


def load(conn: Connection, here: Reading) -> dict[TaskId, Reservation]:
    """All places."""
    found = {}
    for row in conn.execute(select(places)):
        by_s = _shift_s(row, row.start_s - row.start_at, here)
        found[TaskId(JobId(row.job_id), row.name)] = Reservation(
            NodeId(row.node_id),
            tuple((kind, count) for kind, count in json.loads(row.gpus)),
            row.start_at + by_s,
            row.duration_s,
            None if row.promised_at is None else row.promised_at + by_s,
            row.given_at,
        )
    return found


def write_moved(conn: Connection, changed: Sequence[tuple[TaskId, MovedPromise | None]], here: Reading) -> None:
    """Stores promises that no longer hold, or forgets them."""
    for task_id, moved in changed:
        row = None
        if moved is not None:
            row = {
                "promised_at": moved.promised_s + here.now - here.mono,
                "boot_id": here.boot_id,
                "promised_s": moved.promised_s,
                "cause": moved.cause,
            }
        _put(conn, moved_promises, task_id, row)


def load_moved(conn: Connection, here: Reading) -> dict[TaskId, MovedPromise]:
    """All promises that no longer hold."""
    return {
        TaskId(JobId(row.job_id), row.name): MovedPromise(
            row.promised_at + _shift_s(row, row.promised_s - row.promised_at, here), row.cause
        )
        for row in conn.execute(select(moved_promises))
    }


def _put(conn: Connection, table: Table, task_id: TaskId, row: dict[str, Any] | None) -> None:
    conn.execute(delete(table).where(table.c.job_id == task_id.job_id, table.c.name == task_id.name))
    if row is not None:
        conn.execute(insert(table), {"job_id": task_id.job_id, "name": task_id.name, **row})


def _shift_s(row: Row[Any], in_its_life_s: float, here: Reading) -> float:
    """From the wall clock of a row to the boot clock."""
    return in_its_life_s if row.boot_id == here.boot_id else here.mono - here.now
