"""Tables of the data market. Times are seconds since the epoch."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, String, Table, Text

from ..tables import metadata

datasets = Table(
    "datasets",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("owner", String(32), nullable=False),
    Column("public", Boolean, nullable=False),
    Column("description", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("last_number", Integer, nullable=False),  # the highest that was given as a version: none comes twice
)

versions = Table(
    "dataset_versions",
    metadata,
    Column("dataset", String(63), ForeignKey("datasets.name", ondelete="CASCADE"), primary_key=True),
    Column("version", String(32), primary_key=True),
    Column("state", String(12), nullable=False),  # publishing | ready | failed | deleting
    Column("account", String(32), nullable=False),  # who published it
    Column("path", Text, nullable=False),  # in that one's space
    Column("copy", Boolean, nullable=False),
    Column("starts", Integer, nullable=False),  # how often publishing was begun
    Column("method", String(10), nullable=False),
    Column("files", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("checksum", String(64), nullable=False),
    Column("problem", Text, nullable=False),
    Column("asked_at", Float, nullable=False),
    Column("published_at", Float),
)

shares = Table(
    "dataset_shares",
    metadata,
    Column("dataset", String(63), ForeignKey("datasets.name", ondelete="CASCADE"), primary_key=True),
    Column("kind", String(8), primary_key=True),  # user | group
    Column("name", String(64), primary_key=True),
    Index("dataset_shares_name", "kind", "name"),
)
