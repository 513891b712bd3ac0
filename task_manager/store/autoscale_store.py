"""When the hook was told last, so that a restart does not tell it again within the cool-down."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from .tables import autoscale


def load(conn: Connection) -> float | None:
    """In epoch seconds; None: never."""
    found = conn.execute(select(autoscale.c.asked_at)).scalar()
    return None if found is None else float(found)


def save(conn: Connection, asked_at: float) -> None:
    """Note a call."""
    conn.execute(delete(autoscale))
    conn.execute(insert(autoscale), {"id": 1, "asked_at": asked_at})
