"""What an attempt used over its whole run, as its Worker summed it up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0013", "0012"


def upgrade() -> None:
    op.add_column("attempts", sa.Column("use", sa.LargeBinary))
