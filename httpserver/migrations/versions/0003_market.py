"""Image market, groups, shares, and what jobs use."""

revision, down_revision = "0003", "0002"


def upgrade() -> None:
    pass
