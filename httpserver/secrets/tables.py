"""Table of secrets. Times are seconds since the epoch."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, ForeignKey, Integer, PrimaryKeyConstraint, String, Table, Text

from ..tables import metadata

secrets = Table(
    "secrets",
    metadata,
    Column("account", String(32), ForeignKey("accounts.name", ondelete="CASCADE"), nullable=False),
    Column("name", String(128), nullable=False),
    Column("sealed", Text, nullable=False),  # encrypted; see auth/vault.py
    Column("size_bytes", Integer, nullable=False),  # of the value
    Column("has_nul", Boolean, nullable=False),  # then it can be a file only
    Column("changed_at", Float, nullable=False),
    PrimaryKeyConstraint("account", "name"),
)
