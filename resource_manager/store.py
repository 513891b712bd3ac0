"""What ResourceManager keeps, as SQL. Every function works inside a transaction that its caller opened."""

from __future__ import annotations

import json
from collections.abc import Iterable

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from headway.states import Admission

from . import drain, health, node_events, usage_store
from .inventory import Node, Status
from .tables import node as node_table


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
            worker_uuid=row.worker_uuid,
            boot_id=row.boot_id,
            drain=drain.from_text(row.drain),
            events=node_events.from_text(row.events),
            may_be_replaced=row.may_be_replaced,
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
            "worker_uuid": node.worker_uuid,
            "boot_id": node.boot_id,
            "drain": drain.to_text(node.drain),
            "events": node_events.to_text(node.events),
            "may_be_replaced": node.may_be_replaced,
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
    usage_store.delete_of(conn, node_id)
