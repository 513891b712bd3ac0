"""Job events, their consumers, and durable timers."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0008", "0007"


def upgrade() -> None:
    op.create_table(
        "job_events",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("word", sa.Text, nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("stored_at", sa.Float, nullable=False),
        sa.Column("event", sa.LargeBinary, nullable=False),
    )
    op.create_index("job_events_owner", "job_events", ["owner", "number"])
    op.create_index("job_events_job", "job_events", ["job_id", "number"])
    op.create_table(
        "event_sources",
        sa.Column("incarnation", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("heard_at", sa.Float, nullable=False),
    )
    op.create_table(
        "event_log",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("last_number", sa.BigInteger, nullable=False),
        sa.Column("gone_to", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "event_consumers",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "timer",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("due_at", sa.Float, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("set_at", sa.Float, nullable=False),
        sa.Column("try_at", sa.Float, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
    )
    op.create_index("ix_timer_try", "timer", ["try_at"])
    op.create_table(
        "timer_clock",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("boot_id", sa.Text, nullable=False),
        sa.Column("offset_s", sa.Float, nullable=False),
    )
