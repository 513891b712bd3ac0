"""Which images Headway brought to the engine."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "images",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("image_id", sa.Text, nullable=False),
        sa.Column("names", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("brought_at", sa.Float, nullable=False),
        sa.Column("used_at", sa.Float, nullable=False),
    )
