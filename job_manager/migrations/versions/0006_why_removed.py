"""Why a job was removed: for whoever follows a link to it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0006", "0005"


def upgrade() -> None:
    op.add_column("removal", sa.Column("why", sa.Text, nullable=False, server_default=""))
