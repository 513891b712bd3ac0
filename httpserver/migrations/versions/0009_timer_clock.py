"""How far the clock of timers is, for the next boot."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0009", "0008"


def upgrade() -> None:
    op.add_column("timer_clock", sa.Column("seen_at", sa.Float))
    op.add_column("timer_clock", sa.Column("ahead_s", sa.Float))
