"""The table of snapshots of code. Times are seconds since the epoch."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Integer, String, Table

from ..tables import metadata

snapshots = Table(
    "code_snapshots",
    metadata,
    Column("account", String(32), primary_key=True),
    Column("digest", String(71), primary_key=True),
    Column("files", Integer, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("used_at", Float, nullable=False),
)
