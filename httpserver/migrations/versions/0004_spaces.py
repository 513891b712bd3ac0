"""Personal spaces: trash, quotas, usage."""

revision, down_revision = "0004", "0003"


def upgrade() -> None:
    pass
