"""Places and attempts by the boot clock, and JobManager's steady clock: a wall clock that is set moves nothing. And
promises that no longer hold."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0008", "0007"


def upgrade() -> None:
    op.add_column("places", sa.Column("boot_id", sa.Text, nullable=False, server_default=""))
    op.add_column("places", sa.Column("start_s", sa.Float(53), nullable=False, server_default="0"))
    op.add_column("places", sa.Column("given_at", sa.Float(53)))
    op.create_table(
        "moved_promises",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("promised_at", sa.Float(53), nullable=False),
        sa.Column("boot_id", sa.Text, nullable=False),
        sa.Column("promised_s", sa.Float(53), nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
    )
    op.add_column("attempts", sa.Column("boot_id", sa.Text, nullable=False, server_default=""))
    op.add_column("attempts", sa.Column("placed_s", sa.Float(53), nullable=False, server_default="0"))
    op.create_table(
        "steady",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("of_boot_id", sa.Text, nullable=False),
        sa.Column("boot_id", sa.Text, nullable=False),
        sa.Column("offset_s", sa.Float(53), nullable=False),
    )
