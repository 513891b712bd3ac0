"""What ResourceManager keeps, as SQL. Every function works inside a transaction that its caller opened."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from headway.rpc.v1 import resource_manager_pb2
from headway.states import Admission

from . import health
from .inventory import Node, Status
from .tables import node as node_table
from .tables import usage

Point = resource_manager_pb2.UsagePoint


def load_nodes(conn: Connection, monotonic: float) -> list[Node]:
    """All nodes, each SUSPECT until it answers."""
    return [
        Node(
            id=row.id,
            incarnation=row.incarnation,
            address=row.address,
            status=Status.FromString(row.status),
            health_state=health.at_start(monotonic),
            registered_at=row.registered_at,
            seen_at=row.seen_at,
            admission=Admission(row.admission),
            admission_since=monotonic,
            note=row.note,
            version=row.version,
            labels=tuple(sorted(json.loads(row.labels).items())),
        )
        for row in conn.execute(select(node_table).order_by(node_table.c.id))
    ]


def save_node(conn: Connection, node: Node) -> None:
    """Store a node whole, new or known."""
    conn.execute(delete(node_table).where(node_table.c.id == node.id))
    conn.execute(
        insert(node_table),
        {
            "id": node.id,
            "incarnation": node.incarnation,
            "address": node.address,
            "admission": node.admission.value,
            "note": node.note,
            "version": node.version,
            "labels": json.dumps(dict(node.labels)),
            "registered_at": node.registered_at,
            "seen_at": node.seen_at,
            "status": node.status.SerializeToString(),
        },
    )


def save_statuses(conn: Connection, nodes: Iterable[Node]) -> None:
    """Store what was last seen of nodes that are known; what operators said of them is left alone."""
    rows = [
        {
            "key": node.id,
            "incarnation": node.incarnation,
            "seen_at": node.seen_at,
            "status": node.status.SerializeToString(),
        }
        for node in nodes
    ]
    if rows:
        conn.execute(
            update(node_table)
            .where(node_table.c.id == bindparam("key"))
            .values({name: bindparam(name) for name in ("incarnation", "seen_at", "status")}),
            rows,
        )


def delete_node(conn: Connection, node_id: str) -> None:
    """Forget a node and its readings."""
    conn.execute(delete(node_table).where(node_table.c.id == node_id))
    conn.execute(delete(usage).where(usage.c.node_id == node_id))


def add_readings(conn: Connection, readings: Iterable[tuple[str, Point]], span_s: float = 0.0) -> None:
    """Store readings of nodes; one of the same instant that is already there stays."""
    rows: list[dict[str, Any]] = [
        {"node_id": node_id, "at": point.at, "span_s": span_s, "reading": point.SerializeToString()}
        for node_id, point in readings
    ]
    if not rows:
        return
    if conn.dialect.name == "sqlite":
        conn.execute(sqlite.insert(usage).on_conflict_do_nothing(), rows)
    else:
        conn.execute(postgresql.insert(usage).on_conflict_do_nothing(), rows)


def load_readings(conn: Connection, node_id: str, since: float, until: float) -> list[Point]:
    """A node's readings between two instants, oldest first."""
    rows = conn.execute(
        select(usage.c.reading)
        .where(usage.c.node_id == node_id, usage.c.at >= since, usage.c.at <= until)
        .order_by(usage.c.at)
    )
    return [Point.FromString(row.reading) for row in rows]


def raw_readings(conn: Connection, before: float, limit: int) -> dict[str, list[Point]]:
    """The oldest single readings before an instant, by node, each node's oldest first."""
    rows = conn.execute(
        select(usage.c.node_id, usage.c.reading)
        .where(usage.c.at < before, usage.c.span_s == 0.0)
        .order_by(usage.c.at)
        .limit(limit)
    )
    found: dict[str, list[Point]] = {}
    for row in rows:
        found.setdefault(row.node_id, []).append(Point.FromString(row.reading))
    return found


def replace_raw(conn: Connection, node_id: str, old: Sequence[Point], new: Sequence[Point], span_s: float) -> None:
    """Put means in the place of the single readings that they were made of."""
    conn.execute(
        delete(usage).where(
            and_(
                usage.c.node_id == node_id,
                usage.c.span_s == 0.0,
                usage.c.at >= old[0].at,
                usage.c.at <= old[-1].at,
            )
        )
    )
    add_readings(conn, ((node_id, point) for point in new), span_s)


def delete_readings(conn: Connection, before: float) -> None:
    """Forget what is older than an instant."""
    conn.execute(delete(usage).where(usage.c.at < before))
