"""What the image of a task asks of a node."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"


def upgrade() -> None:
    op.add_column("tasks", sa.Column("image", sa.Text, nullable=False, server_default=""))
