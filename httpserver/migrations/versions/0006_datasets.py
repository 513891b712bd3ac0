"""Datasets and snapshots of code."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0006", "0005"


def upgrade() -> None:
    op.create_table(
        "datasets",
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("public", sa.Boolean, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("last_number", sa.Integer, nullable=False),
    )
    op.create_table(
        "dataset_versions",
        sa.Column("dataset", sa.String(63), sa.ForeignKey("datasets.name", ondelete="CASCADE"), primary_key=True),
        sa.Column("version", sa.String(32), primary_key=True),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("account", sa.String(32), nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("copy", sa.Boolean, nullable=False),
        sa.Column("starts", sa.Integer, nullable=False),
        sa.Column("method", sa.String(10), nullable=False),
        sa.Column("files", sa.BigInteger, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("checksum", sa.String(64), nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("asked_at", sa.Float, nullable=False),
        sa.Column("published_at", sa.Float),
    )
    op.create_table(
        "dataset_shares",
        sa.Column("dataset", sa.String(63), sa.ForeignKey("datasets.name", ondelete="CASCADE"), primary_key=True),
        sa.Column("kind", sa.String(8), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
    )
    op.create_index("dataset_shares_name", "dataset_shares", ["kind", "name"])
    op.create_table(
        "code_snapshots",
        sa.Column("account", sa.String(32), primary_key=True),
        sa.Column("digest", sa.String(71), primary_key=True),
        sa.Column("files", sa.Integer, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("used_at", sa.Float, nullable=False),
    )
