"""The tables of JobManager.

What changes (job, task) is apart from what is written once (job_graph, task_spec), so that an update rewrites a
short row. A job's edges are one packed value: nobody asks SQL about a single edge, and 200,000 rows would cost
seconds where this costs milliseconds.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    false,
)

from headway.store import Outbox, TimerTable

metadata = MetaData()

# PostgreSQL sorts text by the database's locale unless told otherwise; ids are compared and paged as bytes.
_ID = Text().with_variant(Text(collation="C"), "postgresql")

job = Table(
    "job",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("account", LargeBinary, nullable=False),  # headway.rpc.v1.Account as it was at submit
    Column("request_id", Text),  # NULL: submitted without one
    Column("spec_hash", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("priority", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("submitted_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("held", Boolean, nullable=False),
    Column("task_count", Integer, nullable=False),
    Column("counts", Text, nullable=False),  # JSON: task state to number of tasks
    Column("reason_task", Text, nullable=False),
    Column("reason_word", Text),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("detail", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("pinned", Boolean, nullable=False, server_default=false()),
    Column("ages_from", Float),  # the end by the clock of timers; NULL: it has not ended
    Column("log_bytes", BigInteger),  # of its attempts, as far as it has ended; NULL: not measured
    Index("ix_job_owner_id", "owner", "id"),
    Index("ix_job_state_id", "state", "id"),
    Index("ux_job_owner_request", "owner", "request_id", unique=True),
    Index("ix_job_ages", "ages_from", "id"),
)

job_graph = Table(
    "job_graph",
    metadata,
    Column("job_id", Text, primary_key=True),
    Column("graph", LargeBinary, nullable=False),  # see store.pack_graph
)

task = Table(
    "task",
    metadata,
    Column("job_id", Text, nullable=False),
    Column("number", Integer, nullable=False),  # place in the submitted list, from 0
    Column("name", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),  # of the last event taken in this generation
    Column("attempt", Integer, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("queued_at", Float),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("held_at", Float),  # steady time (headway.steady); NULL: not held
    Column("account_hold", Boolean, nullable=False, default=False),  # held since its account is disabled
    Column("ages_from", Float, nullable=False),  # steady time
    Column("reason_word", Text),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("detail", Text, nullable=False),
    PrimaryKeyConstraint("job_id", "number"),
    sqlite_with_rowid=False,
)

task_spec = Table(
    "task_spec",
    metadata,
    Column("job_id", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("spec", LargeBinary, nullable=False),  # headway.rpc.v1.TaskSpec
    PrimaryKeyConstraint("job_id", "number"),
)

# Accounts that are disabled: what they have and what they still submit is held.
held_account = Table("held_account", metadata, Column("name", Text, primary_key=True))

# What people asked for, so that a repeated request changes nothing twice.
action = Table(
    "action",
    metadata,
    Column("job_id", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("asked", Text, nullable=False),  # action and task
    Column("tasks_changed", Integer, nullable=False),
    Column("at", Float, nullable=False),  # by the clock of timers
    PrimaryKeyConstraint("job_id", "request_id"),
    Index("ix_action_at", "at"),
)

# Of ``headway.steady``, by which tasks age: one row.
steady = Table(
    "steady",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("boot_id", Text, nullable=False),
    Column("offset_s", Float, nullable=False),
)

# Jobs that are being removed, and for some time those that are: what comes late of them is removed too.
removal = Table(
    "removal",
    metadata,
    Column("job_id", _ID, primary_key=True),
    Column("marked_at", Float, nullable=False),
    Column("after_seq", BigInteger, nullable=False),  # once no command up to this one is on its way
    Column("looks_left", Integer, nullable=False),  # for what came late; more than there are: its rows are here
    Column("due_at", Float, nullable=False),  # by the clock of timers
    Column("why", Text, nullable=False, server_default=""),  # reads on after "was deleted on DATE"
    Index("ix_removal_due", "due_at"),
)

outbox = Outbox(metadata)
TASK_MANAGER = "task-manager"

# Job events on their way.
event_outbox = Outbox(metadata, "event_outbox")
HTTP_SERVER = "http-server"
# The last batch that HttpServer has stored: one row.
event_told = Table(
    "event_told",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("incarnation", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
)

timer_table = TimerTable(metadata)
