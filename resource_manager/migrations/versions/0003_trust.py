"""Invitations, and every certificate that was signed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0003", "0002"


def upgrade() -> None:
    op.create_table(
        "invitation",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("made_at", sa.Float, nullable=False),
        sa.Column("until_at", sa.Float, nullable=False),
        sa.Column("used_at", sa.Float),
        sa.Column("serial", sa.Text, nullable=False),
    )
    op.create_table(
        "certificate",
        sa.Column("serial", sa.Text, primary_key=True),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("from_at", sa.Float, nullable=False),
        sa.Column("until_at", sa.Float, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("invitation", sa.Text, nullable=False),
        sa.Column("key_digest", sa.Text, nullable=False),
        sa.Column("pem", sa.Text, nullable=False),
        sa.Column("revoked_at", sa.Float),
        sa.Column("revoked_by", sa.Text, nullable=False),
    )
    op.create_index("ix_certificate_name", "certificate", ["role", "name"])
