"""Usage by day of attempts that are no longer kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0009", "0008"


def upgrade() -> None:
    op.create_table(
        "usage_days",
        sa.Column("day", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("node_id", sa.Text, primary_key=True),
        sa.Column("gpu_s", sa.Float(53), nullable=False),
        sa.Column("cpu_s", sa.Float(53), nullable=False),
        sa.Column("memory_byte_s", sa.Float(53), nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        sa.Column("tasks", sa.BigInteger, nullable=False),
        sa.Column("started", sa.BigInteger, nullable=False),
        sa.Column("wait_s", sa.Float(53), nullable=False),
        sa.Column("ended", sa.BigInteger, nullable=False),
        sa.Column("timed_out", sa.BigInteger, nullable=False),
        sa.Column("booked_gpu_s", sa.Float(53), nullable=False),
        sa.Column("used_gpu_s", sa.Float(53), nullable=False),
        sa.Column("new_tasks", sa.BigInteger, nullable=False),
    )
