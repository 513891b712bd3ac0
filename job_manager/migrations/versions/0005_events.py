"""Job events on their way to HttpServer, and durable timers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0005", "0004"


def upgrade() -> None:
    op.create_table(
        "event_outbox",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_event_outbox_target_seq", "event_outbox", ["target", "seq"])
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
