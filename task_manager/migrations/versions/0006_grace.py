"""How long a task may take to stop, which its booking allows for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0006", "0005"


def upgrade() -> None:
    op.add_column("tasks", sa.Column("grace_s", sa.Float(53), nullable=False, server_default="0"))
