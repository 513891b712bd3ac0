"""Accounts that were removed, and addresses that accounts have signed in from."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0007", "0006"


def upgrade() -> None:
    op.add_column("accounts", sa.Column("removed_at", sa.Float))
    op.create_table(
        "known_addresses",
        sa.Column("account", sa.String(32), sa.ForeignKey("accounts.name"), primary_key=True),
        sa.Column("address", sa.String(64), primary_key=True),
        sa.Column("seen_at", sa.Float, nullable=False),
    )
