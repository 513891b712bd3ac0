"""Uploads that are under way."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"


def upgrade() -> None:
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("account", sa.String(32), nullable=False),
        sa.Column("length", sa.BigInteger),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("uid", sa.Integer),
        sa.Column("gid", sa.Integer),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("choice", sa.Text, nullable=False),
        sa.Column("choices", sa.Text, nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("touched_at", sa.Float, nullable=False),
        sa.Column("unchecked_from", sa.BigInteger),
    )
