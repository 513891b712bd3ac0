"""Image market, groups, shares, and what jobs use."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0003", "0002"


def _image_id(**options: Any) -> sa.Column[str]:
    return sa.Column("image_id", sa.String(32), sa.ForeignKey("images.id", ondelete="CASCADE"), **options)


def upgrade() -> None:
    op.create_table(
        "images",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("public", sa.Boolean, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("search", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("updated_at", sa.Float, nullable=False),
    )
    op.create_index("images_name", "images", ["owner", "name"], unique=True)
    op.create_table(
        "image_tags",
        _image_id(primary_key=True),
        sa.Column("tag", sa.String(128), primary_key=True),
        sa.Column("digest", sa.String(140), nullable=False),
        sa.Column("pushed_at", sa.Float, nullable=False),
        sa.Column("pushed_by", sa.String(32), nullable=False),
    )
    op.create_index("image_tags_digest", "image_tags", ["digest"])
    op.create_table(
        "image_contents",
        _image_id(primary_key=True),
        sa.Column("digest", sa.String(140), primary_key=True),
        sa.Column("pushed_at", sa.Float, nullable=False),
        sa.Column("pushed_by", sa.String(32), nullable=False),
        sa.Column("untagged_at", sa.Float),
    )
    op.create_index("image_contents_digest", "image_contents", ["digest"])
    op.create_index("image_contents_pushed_by", "image_contents", ["pushed_by"])
    op.create_table(
        "image_infos",
        sa.Column("digest", sa.String(140), primary_key=True),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("architecture", sa.String(64), nullable=False),
        sa.Column("has_shell", sa.Boolean, nullable=False),
        sa.Column("cuda_version", sa.String(64), nullable=False),
        sa.Column("frameworks", sa.Text, nullable=False),
        sa.Column("search", sa.Text, nullable=False),
        sa.Column("info", sa.Text, nullable=False),
        sa.Column("published_at", sa.Float, nullable=False),
    )
    op.create_table(
        "image_tag_moves",
        sa.Column("number", sa.Integer, primary_key=True),
        _image_id(nullable=False),
        sa.Column("tag", sa.String(128), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("by", sa.String(32), nullable=False),
        sa.Column("from_digest", sa.String(140), nullable=False),
        sa.Column("to_digest", sa.String(140), nullable=False),
        sa.Column("upload", sa.String(64), nullable=False),
    )
    op.create_index("image_tag_moves_image", "image_tag_moves", ["image_id", "tag"])
    op.create_table(
        "image_shares",
        _image_id(primary_key=True),
        sa.Column("kind", sa.String(8), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
    )
    op.create_index("image_shares_name", "image_shares", ["kind", "name"])
    op.create_table(
        "groups",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("created_by", sa.String(32), nullable=False),
    )
    op.create_table(
        "group_members",
        sa.Column("group", sa.String(32), sa.ForeignKey("groups.name", ondelete="CASCADE"), primary_key=True),
        sa.Column("account", sa.String(32), sa.ForeignKey("accounts.name"), primary_key=True),
    )
    op.create_index("group_members_account", "group_members", ["account"])
    op.create_table(
        "use_holds",
        sa.Column("request_key", sa.String(80), primary_key=True),
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("key", sa.String(260), primary_key=True),
        sa.Column("account", sa.String(32), nullable=False),
        sa.Column("held_at", sa.Float, nullable=False),
        sa.Column("job_id", sa.String(32)),
        sa.Column("ended_at", sa.Float),
    )
    op.create_index("use_holds_job", "use_holds", ["job_id"])
    op.create_table(
        "use_totals",
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("key", sa.String(260), primary_key=True),
        sa.Column("account", sa.String(32), primary_key=True),
        sa.Column("jobs", sa.Integer, nullable=False),
        sa.Column("last_used_at", sa.Float, nullable=False),
    )
    op.create_table(
        "use_good_runs",
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("key", sa.String(260), primary_key=True),
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
