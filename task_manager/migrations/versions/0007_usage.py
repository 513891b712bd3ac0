"""Whose an attempt was, how many GPUs it had, and until when it held what it booked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0007", "0006"

_LIVE = "('PLACED', 'PULLING', 'STARTING', 'RUNNING', 'STOPPING')"


def upgrade() -> None:
    op.add_column("attempts", sa.Column("owner", sa.Text, nullable=False, server_default=""))
    op.add_column("attempts", sa.Column("gpus", sa.Integer, nullable=False, server_default="0"))
    op.add_column("attempts", sa.Column("freed_at", sa.Float(53)))
    # An attempt has the GPUs that its task asks for; a task's owner never changes, nor do its resources.
    of_task = "SELECT t.{} FROM tasks t WHERE t.job_id = attempts.job_id AND t.name = attempts.name"
    op.execute(
        f"UPDATE attempts SET owner = COALESCE(({of_task.format('owner')}), ''),"
        f" gpus = CASE WHEN gpu_uuids = '[]' THEN 0 ELSE COALESCE(({of_task.format('gpus')}), 0) END,"
        # By the Worker's clock, which may be anywhere.
        f" freed_at = CASE WHEN state IN {_LIVE} THEN NULL WHEN ended_at > placed_at THEN ended_at ELSE placed_at END"
    )
    op.create_index("ix_attempts_freed", "attempts", ["freed_at"])
    op.create_index("ix_attempts_owner_freed", "attempts", ["owner", "freed_at"])
    op.create_index("ix_attempts_queued", "attempts", ["queued_at"])
    op.create_index("ix_attempts_owner_queued", "attempts", ["owner", "queued_at"])
