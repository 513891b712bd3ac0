"""Nodes and their readings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0001", None


def upgrade() -> None:
    op.create_table(
        "node",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("incarnation", sa.BigInteger, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("admission", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("labels", sa.Text, nullable=False),
        sa.Column("registered_at", sa.Float, nullable=False),
        sa.Column("seen_at", sa.Float, nullable=False),
        sa.Column("status", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "usage",
        sa.Column("node_id", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("span_s", sa.Float, nullable=False),
        sa.Column("reading", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("node_id", "at"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_usage_at", "usage", ["at"])
