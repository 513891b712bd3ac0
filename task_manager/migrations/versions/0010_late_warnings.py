"""What could not be done for an attempt after its end."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0010", "0009"


def upgrade() -> None:
    op.add_column("attempts", sa.Column("late_warnings", sa.Text, nullable=False, server_default="[]"))
