"""Tables of job events. Times are by the steady clock (``headway.steady``)."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, Table, Text

from ..tables import metadata

job_events = Table(
    "job_events",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # rises; the cursor of readers
    Column("word", Text, nullable=False),
    Column("job_id", Text, nullable=False),  # empty: of no job
    Column("owner", Text, nullable=False),
    Column("stored_at", Float, nullable=False),
    Column("event", LargeBinary, nullable=False),  # headway.rpc.v1.JobEvent
    Index("job_events_owner", "owner", "number"),
    Index("job_events_job", "job_id", "number"),
)

# How far each life of JobManager has been heard.
event_sources = Table(
    "event_sources",
    metadata,
    Column("incarnation", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("heard_at", Float, nullable=False),
)

# One row.
event_log = Table(
    "event_log",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("last_number", BigInteger, nullable=False),
    Column("gone_to", BigInteger, nullable=False),  # up to this number some have been removed by their age
)

event_consumers = Table(
    "event_consumers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("position", BigInteger, nullable=False),  # the last number that it has dealt with
)
