"""What passes decided, what an admin set on the running queue, and what policies have learnt."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0005", "0004"


def upgrade() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("base", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("frame", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_decisions_at", "decisions", ["at"])
    op.create_table(
        "scheduling",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("set_by", sa.Text, nullable=False),
        sa.Column("set_at", sa.Float(53), nullable=False),
    )
    op.create_table(
        "policy_states",
        sa.Column("policy", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
    )
