"""Datasets and snapshots of code."""

revision, down_revision = "0006", "0005"


def upgrade() -> None:
    pass
