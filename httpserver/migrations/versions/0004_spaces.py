"""Personal spaces: quotas and what is used."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0004", "0003"


def upgrade() -> None:
    op.add_column("accounts", sa.Column("quota_bytes", sa.BigInteger))
    op.create_table(
        "space_usage",
        sa.Column("account", sa.String(32), primary_key=True),
        sa.Column("used_bytes", sa.BigInteger, nullable=False),
        sa.Column("measured_at", sa.Float, nullable=False),
    )
