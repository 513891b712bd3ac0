"""Secrets of accounts for their tasks."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0012", "0011"


def upgrade() -> None:
    op.create_table(
        "secrets",
        sa.Column("account", sa.String(32), sa.ForeignKey("accounts.name", ondelete="CASCADE"), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("sealed", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.Integer, nullable=False),
        sa.Column("has_nul", sa.Boolean, nullable=False),
        sa.Column("changed_at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("account", "name"),
    )
