"""Whom the provider of sign-ins means by an account."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0011", "0010"


def upgrade() -> None:
    op.create_table(
        "provider_links",
        sa.Column("issuer", sa.String(500), primary_key=True),
        sa.Column("subject", sa.String(255), primary_key=True),
        sa.Column("account", sa.String(32), sa.ForeignKey("accounts.name"), nullable=False),
        sa.Column("linked_at", sa.Float, nullable=False),
        sa.Column("linked_by", sa.String(32), nullable=False),
    )
    op.create_index("provider_links_account", "provider_links", ["account"])
