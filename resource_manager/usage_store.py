"""Readings of nodes as SQL. Every function works inside a transaction that its caller opened.

A row holds the points of a span of time, so that there is no row for each reading. The rows of the table ``usage`` are
those of an earlier version: they are read until they are too old, and none is added.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, delete, func, insert, select

from headway.rpc.v1 import resource_manager_pb2

from . import history
from .history import Level, Point
from .tables import usage, usage_block

_Points = resource_manager_pb2.GetNodeUsageReply
# A row is written once and read seldom; names of cards repeat in all its points.
_QUICKLY = 1


def save_block(conn: Connection, node_id: str, level: Level, at: float, points: Sequence[Point]) -> None:
    """Stores a row whole, new or known."""
    same = (usage_block.c.node_id == node_id, usage_block.c.span_s == level.span_s, usage_block.c.at == at)
    conn.execute(delete(usage_block).where(*same))
    data = zlib.compress(_Points(points=points).SerializeToString(), _QUICKLY)
    values = {"node_id": node_id, "span_s": level.span_s, "at": at, "until_at": points[-1].at, "points": data}
    conn.execute(insert(usage_block), values)


def merge_into_blocks(conn: Connection, node_id: str, level: Level, points: Iterable[Point]) -> None:
    """Adds points to the rows that they belong to."""
    for at, new in history.blocks(points, level.block_s).items():
        row = conn.execute(
            select(usage_block.c.points).where(
                usage_block.c.node_id == node_id, usage_block.c.span_s == level.span_s, usage_block.c.at == at
            )
        ).first()
        save_block(conn, node_id, level, at, history.merged(_read(row.points) if row else (), new))


def load_points(conn: Connection, node_id: str, level: Level, since: float, until: float) -> list[Point]:
    """A node's points of one roll-up between two instants, oldest first."""
    rows = conn.execute(
        select(usage_block.c.points)
        .where(
            usage_block.c.node_id == node_id,
            usage_block.c.span_s == level.span_s,
            usage_block.c.at <= until,
            usage_block.c.until_at >= since,
        )
        .order_by(usage_block.c.at)
    )
    return [point for row in rows for point in _read(row.points) if since <= point.at <= until]


def last_at(conn: Connection, node_id: str, level: Level, before: float) -> float:
    """The instant of the newest point of a roll-up that lies before an instant; 0: there is none."""
    row = conn.execute(
        select(usage_block.c.points)
        .where(usage_block.c.node_id == node_id, usage_block.c.span_s == level.span_s, usage_block.c.at <= before)
        .order_by(usage_block.c.at.desc())
        .limit(1)
    ).first()
    return max((point.at for point in _read(row.points) if point.at <= before), default=0.0) if row else 0.0


def first_at(conn: Connection, node_id: str) -> float | None:
    """Since when there is anything of a node."""
    found = [
        conn.execute(select(func.min(table.c.at)).where(table.c.node_id == node_id)).scalar()
        for table in (usage_block, usage)
    ]
    return min((float(at) for at in found if at is not None), default=None)


def load_old(conn: Connection, node_id: str, since: float, until: float) -> list[Point]:
    """What an earlier version stored of a node between two instants, oldest first."""
    rows = conn.execute(
        select(usage.c.reading, usage.c.span_s)
        .where(usage.c.node_id == node_id, usage.c.at >= since, usage.c.at <= until)
        .order_by(usage.c.at)
    )
    found = []
    for row in rows:
        point = Point.FromString(row.reading)
        point.span_s = row.span_s
        found.append(point)
    return found


def delete_before(conn: Connection, now: float, usage_s: float) -> None:
    """Forgets what each roll-up need not keep any more; hours are kept for ``usage_s``, which nothing outlives."""
    for level in history.LEVELS:
        kept_s = usage_s if level is history.HOURS else min(level.keep_s + history.SLACK_S, usage_s)
        before = now - kept_s
        conn.execute(delete(usage_block).where(usage_block.c.span_s == level.span_s, usage_block.c.until_at < before))
    conn.execute(delete(usage).where(usage.c.at < now - usage_s))


def delete_of(conn: Connection, node_id: str) -> None:
    """Forgets all readings of a node."""
    for table in (usage_block, usage):
        conn.execute(delete(table).where(table.c.node_id == node_id))


def _read(data: bytes) -> list[Point]:
    return list(_Points.FromString(zlib.decompress(data)).points)
