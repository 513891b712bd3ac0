"""Tables of registry credentials. Times are seconds since the epoch."""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, PrimaryKeyConstraint, String, Table, Text

from ..tables import metadata

registry_logins = Table(
    "registry_logins",
    metadata,
    Column("account", String(32), ForeignKey("accounts.name", ondelete="CASCADE"), nullable=False),
    Column("registry", String(255), nullable=False),
    Column("username", String(255), nullable=False),
    Column("password", Text, nullable=False),  # encrypted; see vault.py
    Column("changed_at", Float, nullable=False),
    PrimaryKeyConstraint("account", "registry"),
)
