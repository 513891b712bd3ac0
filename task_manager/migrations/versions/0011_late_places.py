"""What was promised first, and how far ahead that was: the slack of a promise shrinks with that wait."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0011", "0010"


def upgrade() -> None:
    op.add_column("places", sa.Column("first_at", sa.Float(53)))
    op.add_column("places", sa.Column("first_wait_s", sa.Float(53), nullable=False, server_default="0"))
