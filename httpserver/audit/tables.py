"""Tables of the audit log. Rows are only ever added, and removed from the oldest on by their age."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, String, Table, Text

from ..tables import metadata

audit_rows = Table(
    "audit_rows",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # without gaps
    Column("at", Float, nullable=False),
    Column("stored_at", Float, nullable=False),  # by the steady clock (``headway.steady``)
    Column("request_id", Text, nullable=False),
    Column("who", Text, nullable=False),  # empty: no account
    Column("way", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("word", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("problem", Text, nullable=False),
    Column("detail", Text, nullable=False),  # JSON; empty: none
    Column("ends", BigInteger, nullable=False),  # the number of the row whose outcome it tells; 0: none
    Column("hash", String(64), nullable=False),
    Index("audit_rows_who", "who", "number"),
    Index("audit_rows_word", "word", "number"),
    Index("audit_rows_ends", "ends"),
)

# One row.
audit_place = Table(
    "audit_place",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("last_number", BigInteger, nullable=False),
    Column("last_hash", String(64), nullable=False),
    Column("gone_number", BigInteger, nullable=False),  # up to here rows were removed by their age
    Column("gone_hash", String(64), nullable=False),
)
