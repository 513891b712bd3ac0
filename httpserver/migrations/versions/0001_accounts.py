"""Accounts, sessions and tokens."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0001", None


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("password_hash", sa.String(300), nullable=False),
        sa.Column("uid", sa.Integer, nullable=False, unique=True),
        sa.Column("gid", sa.Integer, nullable=False),
        sa.Column("admin", sa.Boolean, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("may_use_image_user", sa.Boolean, nullable=False),
        sa.Column("may_use_high_priority", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("signed_in_at", sa.Float),
    )
    op.create_table(
        "tokens",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("id", sa.String(32), nullable=False, unique=True),
        sa.Column("account", sa.String(32), sa.ForeignKey("accounts.name"), nullable=False),
        sa.Column("session", sa.Boolean, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("expires_at", sa.Float),
        sa.Column("used_at", sa.Float),
    )
    op.create_index("tokens_account", "tokens", ["account"])
