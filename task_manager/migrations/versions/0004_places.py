"""Places of waiting tasks, and how long their earlier attempts took."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0004", "0003"


def upgrade() -> None:
    op.add_column("tasks", sa.Column("spent_s", sa.Float(53), nullable=False, server_default="0"))
    op.create_table(
        "places",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("node_id", sa.Text, nullable=False),
        sa.Column("gpus", sa.Text, nullable=False),
        sa.Column("start_at", sa.Float(53), nullable=False),
        sa.Column("duration_s", sa.Float(53), nullable=False),
        sa.Column("promised_at", sa.Float(53)),
    )
