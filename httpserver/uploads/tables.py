"""The table of uploads. Where the bytes end is not stored, since the file itself shows it."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Integer, String, Table, Text

from ..tables import metadata

uploads = Table(
    "uploads",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("account", String(32), nullable=False),
    Column("length", BigInteger),  # null: the client tells it later
    Column("metadata", Text, nullable=False),  # Upload-Metadata as it came
    Column("folder", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("uid", Integer),
    Column("gid", Integer),
    Column("state", String(16), nullable=False),
    Column("choice", Text, nullable=False),
    Column("choices", Text, nullable=False),  # JSON
    Column("problem", Text, nullable=False),  # JSON, or empty
    Column("result", Text, nullable=False),  # JSON, or empty
    Column("created_at", Float, nullable=False),
    Column("touched_at", Float, nullable=False),
    # While a piece with a checksum comes: where it began. What lies behind was not checked if the server is killed.
    Column("unchecked_from", BigInteger),
)
