"""Tasks and their specs, attempts, nodes as last told, leases, and the events on their way."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0001", None


def upgrade() -> None:
    op.create_table(
        "tasks",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("job_name", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("submitted_at", sa.Float(53), nullable=False),
        sa.Column("tail_timeout_s", sa.Float(53), nullable=False),
        sa.Column("cpu_centi", sa.BigInteger, nullable=False),
        sa.Column("memory_bytes", sa.BigInteger, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("gpu_models", sa.Text, nullable=False),
        sa.Column("gpu_memory_bytes", sa.BigInteger, nullable=False),
        sa.Column("timeout_s", sa.Float(53), nullable=False),
        sa.Column("retries", sa.Integer, nullable=False),
        sa.Column("held", sa.Boolean, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("queued_at", sa.Float(53), nullable=False),
        sa.Column("not_before", sa.Float(53), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("user_failures", sa.Integer, nullable=False),
        sa.Column("platform_failures", sa.Integer, nullable=False),
        sa.Column("losses", sa.Integer, nullable=False),
        sa.Column("refusals", sa.Integer, nullable=False),
        sa.Column("avoid", sa.Text, nullable=False),
        sa.Column("disowned", sa.Text, nullable=False),
        sa.Column("event_seq", sa.BigInteger, nullable=False),
        sa.Column("command_seq", sa.BigInteger, nullable=False),
        sa.Column("cancel_by", sa.Text),
        sa.Column("ended_at", sa.Float(53)),
        sa.Column("reason", sa.Text),
    )
    op.create_index("ix_tasks_state", "tasks", ["state"])
    op.create_table(
        "task_specs",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("enqueue", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "attempts",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("node_id", sa.Text, nullable=False),
        sa.Column("incarnation", sa.BigInteger, nullable=False),
        sa.Column("cpu_centi", sa.BigInteger, nullable=False),
        sa.Column("memory_bytes", sa.BigInteger, nullable=False),
        sa.Column("gpu_uuids", sa.Text, nullable=False),
        sa.Column("timeout_s", sa.Float(53), nullable=False),
        sa.Column("of_runs", sa.Integer, nullable=False),
        sa.Column("queued_at", sa.Float(53), nullable=False),
        sa.Column("placed_at", sa.Float(53), nullable=False),
        sa.Column("answered_at", sa.Float(53)),
        sa.Column("accepted_at", sa.Float(53)),
        sa.Column("container_started_at", sa.Float(53)),
        sa.Column("started_at", sa.Float(53)),
        sa.Column("ended_at", sa.Float(53)),
        sa.Column("run_s", sa.Float(53)),
        sa.Column("stop_word", sa.Text, nullable=False),
        sa.Column("stop_at", sa.Float(53)),
        sa.Column("peak_memory_bytes", sa.BigInteger),
        sa.Column("stdout_bytes", sa.BigInteger, nullable=False),
        sa.Column("stderr_bytes", sa.BigInteger, nullable=False),
        sa.Column("dropped_bytes", sa.BigInteger, nullable=False),
        sa.Column("image_id", sa.Text, nullable=False),
        sa.Column("warnings", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
    )
    op.create_index("ix_attempts_state", "attempts", ["state"])
    op.create_table(
        "nodes",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
    )
    op.create_table(
        "node_leases",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("suspended", sa.Boolean, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("incarnation", sa.BigInteger, nullable=False),
    )
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
