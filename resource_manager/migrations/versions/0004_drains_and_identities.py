"""How a node is emptied, whose state folder its Worker has, and what happened to it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0004", "0003"


def upgrade() -> None:
    for name, default in (("worker_uuid", ""), ("boot_id", ""), ("drain", ""), ("events", "[]")):
        op.add_column("node", sa.Column(name, sa.Text, nullable=False, server_default=default))
    op.add_column("node", sa.Column("may_be_replaced", sa.Boolean, nullable=False, server_default=sa.false()))
