"""When the hook for growth was told last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0015", "0014"


def upgrade() -> None:
    op.create_table(
        "autoscale",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("asked_at", sa.Float(53), nullable=False),
    )
