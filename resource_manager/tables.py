"""The tables of ResourceManager."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)

metadata = MetaData()

node = Table(
    "node",
    metadata,
    Column("id", Text, primary_key=True),
    Column("incarnation", BigInteger, nullable=False),
    Column("address", Text, nullable=False),
    Column("admission", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("labels", Text, nullable=False),  # JSON
    Column("registered_at", Float, nullable=False),
    Column("seen_at", Float, nullable=False),
    Column("status", LargeBinary, nullable=False),  # headway.rpc.v1.NodeStatus, the last that was written
    Column("worker_uuid", Text, nullable=False, server_default=""),  # of its Worker's folder; empty: not known
    Column("boot_id", Text, nullable=False, server_default=""),  # of its machine when its Worker registered last
    Column("drain", Text, nullable=False, server_default=""),  # JSON: drain.Drain; empty: none
    Column("events", Text, nullable=False, server_default="[]"),  # JSON list of node_events.KeptNodeEvent
    Column("may_be_replaced", Boolean, nullable=False, server_default="0"),  # by a Worker with another folder
)

# Of an earlier version: read until its rows are too old, never written.
usage = Table(
    "usage",
    metadata,
    Column("node_id", Text, nullable=False),
    Column("at", Float, nullable=False),
    Column("span_s", Float, nullable=False),  # 0: one reading; else the mean of so many seconds
    Column("reading", LargeBinary, nullable=False),  # headway.rpc.v1.UsagePoint
    PrimaryKeyConstraint("node_id", "at"),
    Index("ix_usage_at", "at"),
    sqlite_with_rowid=False,
)

usage_block = Table(
    "usage_block",
    metadata,
    Column("node_id", Text, nullable=False),
    Column("span_s", Float, nullable=False),  # what a point sums up; 0: points are single readings
    Column("at", Float, nullable=False),  # when the block begins
    Column("until_at", Float, nullable=False),  # its last point
    Column("points", LargeBinary, nullable=False),  # headway.rpc.v1.GetNodeUsageReply, deflated
    PrimaryKeyConstraint("node_id", "span_s", "at"),
    Index("ix_usage_block_until_at", "span_s", "until_at"),
)

invitation = Table(
    "invitation",
    metadata,
    Column("id", Text, primary_key=True),
    Column("key", LargeBinary, nullable=False),  # both sides prove that they have it; the token can't be told from it
    Column("role", Text, nullable=False),
    Column("name", Text, nullable=False),  # empty: the machine says it
    Column("by", Text, nullable=False),
    Column("made_at", Float, nullable=False),
    Column("until_at", Float, nullable=False),
    Column("used_at", Float),
    Column("serial", Text, nullable=False),  # of the certificate that it gave; empty: none yet
)

certificate = Table(
    "certificate",
    metadata,
    Column("serial", Text, primary_key=True),  # hex
    Column("role", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("from_at", Float, nullable=False),
    Column("until_at", Float, nullable=False),
    Column("origin", Text, nullable=False),  # init, join, renew
    Column("invitation", Text, nullable=False),
    Column("key_digest", Text, nullable=False),  # of its public key
    Column("pem", Text, nullable=False),
    Column("revoked_at", Float),
    Column("revoked_by", Text, nullable=False),
    Index("ix_certificate_name", "role", "name"),
)
