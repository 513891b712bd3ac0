"""The audit log; from where and how sessions were opened."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0010", "0009"


def upgrade() -> None:
    texts = ("request_id", "who", "way", "address", "word", "subject", "outcome", "problem", "detail")
    op.create_table(
        "audit_rows",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("stored_at", sa.Float, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in texts),
        sa.Column("ends", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
    )
    op.create_index("audit_rows_who", "audit_rows", ["who", "number"])
    op.create_index("audit_rows_word", "audit_rows", ["word", "number"])
    op.create_index("audit_rows_ends", "audit_rows", ["ends"])
    op.create_table(
        "audit_place",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("last_number", sa.BigInteger, nullable=False),
        sa.Column("last_hash", sa.String(64), nullable=False),
        sa.Column("gone_number", sa.BigInteger, nullable=False),
        sa.Column("gone_hash", sa.String(64), nullable=False),
    )
    for name in ("address", "agent", "way"):
        op.add_column("tokens", sa.Column(name, sa.Text, nullable=False, server_default=""))
