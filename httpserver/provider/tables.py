"""Whom the provider means by an account. The provider's own subject counts, which no other person gets."""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, Index, String, Table

from ..tables import metadata

provider_links = Table(
    "provider_links",
    metadata,
    Column("issuer", String(500), primary_key=True),
    Column("subject", String(255), primary_key=True),
    Column("account", String(32), ForeignKey("accounts.name"), nullable=False),
    Column("linked_at", Float, nullable=False),
    Column("linked_by", String(32), nullable=False),
    Index("provider_links_account", "account"),
)
