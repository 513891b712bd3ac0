"""Credentials for registries."""

revision, down_revision = "0005", "0004"


def upgrade() -> None:
    pass
