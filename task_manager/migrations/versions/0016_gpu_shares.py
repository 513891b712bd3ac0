"""Shares of GPUs: what a task asks for, and which part of its card an attempt has."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0016", "0015"


def upgrade() -> None:
    for table in ("tasks", "attempts"):
        op.add_column(table, sa.Column("gpu_share_bytes", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("attempts", sa.Column("gpu_fraction", sa.Float(53), nullable=False, server_default="0"))
