"""Tables of accounts, their tokens and their groups. Times are seconds since the epoch."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, String, Table, Text

from ..tables import metadata

accounts = Table(
    "accounts",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("password_hash", String(300), nullable=False),
    Column("uid", Integer, nullable=False, unique=True),
    Column("gid", Integer, nullable=False),
    Column("admin", Boolean, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("may_use_image_user", Boolean, nullable=False),
    Column("may_use_high_priority", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("signed_in_at", Float),
    Column("quota_bytes", BigInteger),  # null: as configured
    Column("removed_at", Float),  # of who was removed only name, uid and gid still count: they are not given again
)

# Sessions and long-lived tokens are alike but for their end; only hashes are kept.
tokens = Table(
    "tokens",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("account", String(32), ForeignKey("accounts.name"), nullable=False),
    Column("session", Boolean, nullable=False),
    Column("name", String(100), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float),
    Column("used_at", Float),
    # Of a session: where it was opened, by which program, and by which way.
    Column("address", Text, nullable=False, server_default=""),
    Column("agent", Text, nullable=False, server_default=""),
    Column("way", Text, nullable=False, server_default=""),
    Index("tokens_account", "account"),
)

# From where accounts have signed in, so that others' guesses there do not shut them out.
known_addresses = Table(
    "known_addresses",
    metadata,
    Column("account", String(32), ForeignKey("accounts.name"), primary_key=True),
    Column("address", String(64), primary_key=True),  # of IPv6 the network
    Column("seen_at", Float, nullable=False),
)

groups = Table(
    "groups",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("created_at", Float, nullable=False),
    Column("created_by", String(32), nullable=False),
)

members = Table(
    "group_members",
    metadata,
    Column("group", String(32), ForeignKey("groups.name", ondelete="CASCADE"), primary_key=True),
    Column("account", String(32), ForeignKey("accounts.name"), primary_key=True),
    Index("group_members_account", "account"),
)
