"""Ages of jobs, removals and requests by the clock that nobody sets, and which job events HttpServer has.

What there is goes over to that clock as of now.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from headway.clock import SystemClock

revision, down_revision = "0007", "0006"


def upgrade() -> None:
    clock = SystemClock()
    row = op.get_bind().execute(sa.text("SELECT boot_id, offset_s FROM timer_clock")).first()
    here = row is not None and row.boot_id == clock.boot_id()
    more_s = clock.monotonic() + row.offset_s - clock.now() if row is not None and here else 0.0
    op.add_column("timer_clock", sa.Column("seen_at", sa.Float))
    op.add_column("timer_clock", sa.Column("ahead_s", sa.Float))
    op.add_column("job", sa.Column("ages_from", sa.Float))
    # A clock that somebody set forward makes no job older.
    ages = sa.text("UPDATE job SET ages_from = ended_at + :more_s WHERE ended_at IS NOT NULL")
    op.execute(ages.bindparams(more_s=max(0.0, more_s)))
    op.execute(sa.text("UPDATE removal SET due_at = due_at + :more_s").bindparams(more_s=more_s))
    op.execute(sa.text("UPDATE action SET at = at + :more_s").bindparams(more_s=more_s))
    op.drop_index("ix_job_ended", "job")
    op.create_index("ix_job_ages", "job", ["ages_from", "id"])
    op.create_table(
        "event_told",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("incarnation", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
    )
