"""Credentials for registries."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0005", "0004"


def upgrade() -> None:
    op.create_table(
        "registry_logins",
        sa.Column("account", sa.String(32), sa.ForeignKey("accounts.name", ondelete="CASCADE"), nullable=False),
        sa.Column("registry", sa.String(255), nullable=False),
        sa.Column("username", sa.String(255), nullable=False),
        sa.Column("password", sa.Text, nullable=False),
        sa.Column("changed_at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("account", "registry"),
    )
