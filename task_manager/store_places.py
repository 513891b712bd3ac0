"""Stored places of waiting tasks, as SQL. Every function works inside a transaction that its caller opened."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select

from headway.ids import JobId, NodeId, TaskId

from .clocks import Reading
from .places import Place
from .tables import places


def write(conn: Connection, changed: Sequence[tuple[TaskId, Place | None]], here: Reading) -> None:
    """Stores places (times by the boot clock), or takes them out."""
    by_s = here.now - here.mono
    for task_id, place in changed:
        conn.execute(delete(places).where(places.c.job_id == task_id.job_id, places.c.name == task_id.name))
        if place is not None:
            conn.execute(
                insert(places),
                {
                    "job_id": task_id.job_id,
                    "name": task_id.name,
                    "node_id": place.node_id,
                    "gpus": json.dumps(place.gpus),
                    "start_at": place.start_s + by_s,
                    "duration_s": place.duration_s,
                    "promised_at": None if place.promised_s is None else place.promised_s + by_s,
                    "boot_id": here.boot_id,
                    "start_s": place.start_s,
                },
            )


def load(conn: Connection, here: Reading) -> dict[TaskId, Place]:
    """All of them, with times by the boot clock; those of another life of the machine as the wall clock tells."""
    found = {}
    for row in conn.execute(select(places)):
        by_s = row.start_s - row.start_at if row.boot_id == here.boot_id else here.mono - here.now
        found[TaskId(JobId(row.job_id), row.name)] = Place(
            NodeId(row.node_id),
            tuple((kind, count) for kind, count in json.loads(row.gpus)),
            row.start_at + by_s,
            row.duration_s,
            None if row.promised_at is None else row.promised_at + by_s,
        )
    return found
