"""Jobs, tasks, their specs and edges, what people asked for, and the commands on their way."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0001", None


def upgrade() -> None:
    op.create_table(
        "job",
        sa.Column("id", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("account", sa.LargeBinary, nullable=False),
        sa.Column("request_id", sa.Text),
        sa.Column("spec_hash", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("priority", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("submitted_at", sa.Float, nullable=False),
        sa.Column("started_at", sa.Float),
        sa.Column("ended_at", sa.Float),
        sa.Column("held", sa.Boolean, nullable=False),
        sa.Column("task_count", sa.Integer, nullable=False),
        sa.Column("counts", sa.Text, nullable=False),
        sa.Column("reason_task", sa.Text, nullable=False),
        sa.Column("reason_word", sa.Text),
        sa.Column("exit_code", sa.Integer),
        sa.Column("signal", sa.Integer),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_job_owner_id", "job", ["owner", "id"])
    op.create_index("ix_job_state_id", "job", ["state", "id"])
    op.create_index("ux_job_owner_request", "job", ["owner", "request_id"], unique=True)
    op.create_table(
        "job_graph",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("graph", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "task",
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("node_id", sa.Text, nullable=False),
        sa.Column("queued_at", sa.Float),
        sa.Column("started_at", sa.Float),
        sa.Column("ended_at", sa.Float),
        sa.Column("held_at", sa.Float),
        sa.Column("ages_from", sa.Float, nullable=False),
        sa.Column("reason_word", sa.Text),
        sa.Column("exit_code", sa.Integer),
        sa.Column("signal", sa.Integer),
        sa.Column("detail", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "number"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "task_spec",
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("spec", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "number"),
    )
    op.create_table(
        "action",
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("asked", sa.Text, nullable=False),
        sa.Column("tasks_changed", sa.Integer, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "request_id"),
    )
    op.create_index("ix_action_at", "action", ["at"])
    op.create_table(
        "outbox",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_outbox_target_seq", "outbox", ["target", "seq"])
