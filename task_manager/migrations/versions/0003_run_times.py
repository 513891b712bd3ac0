"""More time for attempts, and by what past runs are found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0003", "0002"


def upgrade() -> None:
    for table in ("tasks", "attempts"):
        # Runs of before have none: they are not looked up by it.
        op.add_column(table, sa.Column("command_print", sa.BigInteger, nullable=False, server_default="0"))
        op.add_column(table, sa.Column("task_print", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("attempts", sa.Column("extensions", sa.Text, nullable=False, server_default="[]"))
    op.add_column("attempts", sa.Column("counted_s", sa.Float(53)))
    op.create_index("ix_attempts_command", "attempts", ["command_print", "placed_at"])
    op.create_index("ix_attempts_task", "attempts", ["task_print", "placed_at"])
