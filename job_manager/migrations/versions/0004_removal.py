"""Pinned jobs, what logs take, and jobs that are being removed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0004", "0003"


def upgrade() -> None:
    op.add_column("job", sa.Column("pinned", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("job", sa.Column("log_bytes", sa.BigInteger))
    op.create_index("ix_job_ended", "job", ["ended_at", "id"])
    op.create_table(
        "removal",
        sa.Column("job_id", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), primary_key=True),
        sa.Column("marked_at", sa.Float, nullable=False),
        sa.Column("after_seq", sa.BigInteger, nullable=False),
        sa.Column("looks_left", sa.Integer, nullable=False),
        sa.Column("due_at", sa.Float, nullable=False),
    )
    op.create_index("ix_removal_due", "removal", ["due_at"])
