"""Tables of the image market. Times are seconds since the epoch."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, String, Table, Text

from ..tables import metadata

images = Table(
    "images",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("owner", String(32), nullable=False),  # an account's name, or `base`
    Column("name", String(64), nullable=False),
    Column("public", Boolean, nullable=False),
    Column("description", Text, nullable=False),
    Column("search", Text, nullable=False),  # case-folded: what a search looks at, besides the contents' own
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Index("images_name", "owner", "name", unique=True),
)

tags = Table(
    "image_tags",
    metadata,
    Column("image_id", String(32), ForeignKey("images.id", ondelete="CASCADE"), primary_key=True),
    Column("tag", String(128), primary_key=True),
    Column("digest", String(140), nullable=False),
    Column("pushed_at", Float, nullable=False),
    Column("pushed_by", String(32), nullable=False),
    Index("image_tags_digest", "digest"),
)

# What an image has or had under a tag. A content that no tag points to any more stays for a while.
contents = Table(
    "image_contents",
    metadata,
    Column("image_id", String(32), ForeignKey("images.id", ondelete="CASCADE"), primary_key=True),
    Column("digest", String(140), primary_key=True),
    Column("pushed_at", Float, nullable=False),
    Column("pushed_by", String(32), nullable=False),
    Column("untagged_at", Float),
    Index("image_contents_digest", "digest"),
    Index("image_contents_pushed_by", "pushed_by"),
)

# What is on the mount, once for all images that have it, so that a list does not read it from there.
infos = Table(
    "image_infos",
    metadata,
    Column("digest", String(140), primary_key=True),
    Column("size_bytes", BigInteger, nullable=False),
    Column("architecture", String(64), nullable=False),
    Column("has_shell", Boolean, nullable=False),
    Column("cuda_version", String(64), nullable=False),
    Column("frameworks", Text, nullable=False),  # JSON
    Column("search", Text, nullable=False),  # case-folded
    Column("info", Text, nullable=False),  # headway.archive.ImageInfo as JSON
    Column("published_at", Float, nullable=False),
)

# Who moved which tag from where to where; an empty digest: there was none, or it was deleted. The upload that did it
# is noted, so that its end, repeated after a kill, does not move a tag back that went on meanwhile.
moves = Table(
    "image_tag_moves",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("image_id", String(32), ForeignKey("images.id", ondelete="CASCADE"), nullable=False),
    Column("tag", String(128), nullable=False),
    Column("at", Float, nullable=False),
    Column("by", String(32), nullable=False),
    Column("from_digest", String(140), nullable=False),
    Column("to_digest", String(140), nullable=False),
    Column("upload", String(64), nullable=False),
    Index("image_tag_moves_image", "image_id", "tag"),
)

shares = Table(
    "image_shares",
    metadata,
    Column("image_id", String(32), ForeignKey("images.id", ondelete="CASCADE"), primary_key=True),
    Column("kind", String(8), primary_key=True),  # user | group
    Column("name", String(64), primary_key=True),
    Index("image_shares_name", "kind", "name"),
)
