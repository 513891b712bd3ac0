"""The clock by which tasks age."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"


def upgrade() -> None:
    op.create_table(
        "steady",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("boot_id", sa.Text, nullable=False),
        sa.Column("offset_s", sa.Float, nullable=False),
    )
