"""Readings by the block, in three roll-ups. Those of before are read until they are too old."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"


def upgrade() -> None:
    op.create_table(
        "usage_block",
        sa.Column("node_id", sa.Text, nullable=False),
        sa.Column("span_s", sa.Float, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("until_at", sa.Float, nullable=False),
        sa.Column("points", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("node_id", "span_s", "at"),
    )
    op.create_index("ix_usage_block_until_at", "usage_block", ["span_s", "until_at"])
