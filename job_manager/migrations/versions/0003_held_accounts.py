"""Accounts that are disabled, and the tasks that are held because of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0003", "0002"


def upgrade() -> None:
    op.create_table("held_account", sa.Column("name", sa.Text, primary_key=True))
    op.add_column("task", sa.Column("account_hold", sa.Boolean, nullable=False, server_default=sa.false()))
