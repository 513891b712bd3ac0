"""Which nodes are unconfirmed at a start, as SQL. Every function works inside a transaction of its caller."""

from __future__ import annotations

from sqlalchemy import Connection, func, or_, select

from headway.ids import NodeId
from headway.model.reasons import EndWord
from headway.states import AttemptState

from .tables import attempts


def load(conn: Connection) -> list[NodeId]:
    """The nodes on which an attempt was declared lost, and on which nothing was placed since."""
    lost = attempts.c.state == AttemptState.LOST.value
    word = attempts.c.reason.contains(f'"{EndWord.NODE_LOST.value}"', autoescape=True)
    last_at = func.max(attempts.c.freed_at).label("last_at")
    rows = conn.execute(select(attempts.c.node_id, last_at).where(lost, word).group_by(attempts.c.node_id)).all()
    return [NodeId(row.node_id) for row in rows if not _placed_since(conn, row.node_id, row.last_at)]


def _placed_since(conn: Connection, node_id: str, at: float | None) -> bool:
    if at is None:
        return False
    there = (attempts.c.node_id == node_id, attempts.c.placed_at >= at)
    still_or_later = or_(attempts.c.freed_at.is_(None), attempts.c.freed_at >= at)  # these have an index
    return conn.execute(select(attempts.c.number).where(*there, still_or_later).limit(1)).first() is not None
