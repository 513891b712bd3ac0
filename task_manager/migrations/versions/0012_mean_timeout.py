"""The mean timeout of the last tasks when a task came, from which `log_aging` takes its constant."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0012", "0011"


def upgrade() -> None:
    op.add_column("tasks", sa.Column("mean_timeout_s", sa.Float(53), nullable=False, server_default="0"))
    op.execute(sa.text("UPDATE tasks SET mean_timeout_s = (SELECT AVG(timeout_s) FROM tasks)"))
