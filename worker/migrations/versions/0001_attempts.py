"""What the Worker remembers of its attempts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table("meta", sa.Column("key", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False))
    op.create_table(
        "attempts",
        sa.Column("folder", sa.Text, primary_key=True),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("launch", sa.LargeBinary),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("notes", sa.LargeBinary, nullable=False),
        sa.Column("end_report", sa.LargeBinary),
        sa.Column("changed_at", sa.Float, nullable=False),
    )
