"""What is known of personal spaces."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, String, Table

from ..tables import metadata

# As measured last; only a copy, to be known after a restart.
space_usage = Table(
    "space_usage",
    metadata,
    Column("account", String(32), primary_key=True),
    Column("used_bytes", BigInteger, nullable=False),
    Column("measured_at", Float, nullable=False),
)
