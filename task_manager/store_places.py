"""Stored places of waiting tasks, as SQL. Every function works inside a transaction that its caller opened."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select

from headway.ids import JobId, NodeId, TaskId

from .places import Place
from .tables import places


def write(conn: Connection, changed: Sequence[tuple[TaskId, Place | None]]) -> None:
    """Stores places (times by the wall clock), or takes them out."""
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
                    "start_at": place.start_s,
                    "duration_s": place.duration_s,
                    "promised_at": place.promised_s,
                },
            )


def load(conn: Connection) -> dict[TaskId, Place]:
    """All of them, with times by the wall clock."""
    return {
        TaskId(JobId(row.job_id), row.name): Place(
            NodeId(row.node_id),
            tuple((kind, count) for kind, count in json.loads(row.gpus)),
            row.start_at,
            row.duration_s,
            row.promised_at,
        )
        for row in conn.execute(select(places))
    }
