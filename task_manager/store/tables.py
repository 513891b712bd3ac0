"""TaskManager's tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

from headway.model.attempt_facts import FACTS, Fact
from headway.store import Outbox

metadata = MetaData()

JOB_MANAGER = "job-manager"
outbox = Outbox(metadata)

tasks = Table(
    "tasks",
    metadata,
    Column("job_id", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("owner", Text, nullable=False),
    Column("job_name", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("submitted_at", Float(53), nullable=False),
    Column("tail_timeout_s", Float(53), nullable=False),
    Column("cpu_centi", BigInteger, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("gpu_models", Text, nullable=False),  # JSON list
    Column("gpu_memory_bytes", BigInteger, nullable=False),
    Column("timeout_s", Float(53), nullable=False),
    Column("retries", Integer, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    Column("queued_at", Float(53), nullable=False),
    Column("not_before", Float(53), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("user_failures", Integer, nullable=False),
    Column("platform_failures", Integer, nullable=False),
    Column("losses", Integer, nullable=False),
    Column("refusals", Integer, nullable=False),
    Column("avoid", Text, nullable=False),  # JSON list
    Column("disowned", Text, nullable=False),  # JSON list
    Column("event_seq", BigInteger, nullable=False),
    Column("command_seq", BigInteger, nullable=False),
    Column("cancel_by", Text),
    Column("ended_at", Float(53)),
    Column("reason", Text),  # JSON
    Column("image", Text, nullable=False, server_default=""),  # JSON: what its image asks of a node; empty: nothing
    Column("command_print", BigInteger, nullable=False, server_default="0"),  # headway.fingerprint; 0: not known
    Column("task_print", BigInteger, nullable=False, server_default="0"),
    Column("spent_s", Float(53), nullable=False, server_default="0"),  # in earlier attempts
    Column("grace_s", Float(53), nullable=False, server_default="0"),
    Column("mean_timeout_s", Float(53), nullable=False, server_default="0"),  # of the last tasks that came before it
    Column("gpu_share_bytes", BigInteger, nullable=False, server_default="0"),  # of one shared card; 0: no share
    Index("ix_tasks_state", "state"),
)

# A table of its own: rows of tasks change often, these never do.
task_specs = Table(
    "task_specs",
    metadata,
    Column("job_id", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("enqueue", LargeBinary, nullable=False),  # headway.rpc.v1.EnqueueTask
)

_KINDS: dict[type, Any] = {float: Float(53), int: BigInteger(), str: Text(), tuple: Text()}  # a tuple: JSON list


def fact_columns(rows: Iterable[Fact] = FACTS) -> list[Column[Any]]:
    """A column for each fact; null: not known."""
    return [Column(row.name, _KINDS[row.kind], nullable=row.default is None) for row in rows]


attempts = Table(
    "attempts",
    metadata,
    Column("job_id", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("incarnation", BigInteger, nullable=False),
    Column("cpu_centi", BigInteger, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("gpu_uuids", Text, nullable=False),  # JSON list
    Column("timeout_s", Float(53), nullable=False),
    Column("of_runs", Integer, nullable=False),
    Column("queued_at", Float(53), nullable=False),
    Column("placed_at", Float(53), nullable=False),
    Column("answered_at", Float(53)),
    *fact_columns(),
    Column("stop_word", Text, nullable=False),
    Column("stop_at", Float(53)),
    Column("reason", Text),  # JSON
    Column("command_print", BigInteger, nullable=False, server_default="0"),  # as its task's
    Column("task_print", BigInteger, nullable=False, server_default="0"),
    Column("extensions", Text, nullable=False, server_default="[]"),  # JSON list
    Column("owner", Text, nullable=False, server_default=""),  # its task's
    Column(
        "gpus", Integer, nullable=False, server_default="0"
    ),  # held whole: as many as `gpu_uuids` names; 0: of a share
    Column("freed_at", Float(53)),  # until then it held its resources; null: it still does
    Column("boot_id", Text, nullable=False, server_default=""),  # of TaskManager's machine when it was placed
    Column("placed_s", Float(53), nullable=False, server_default="0"),  # by its boot clock
    Column("late_warnings", Text, nullable=False, server_default="[]"),  # JSON list
    Column("use", LargeBinary),  # headway.rpc.v1.AttemptUse; null: it was not measured, or has not ended
    # Of the time for which it held its GPUs, by ``use``: engine.usage.GpuShares.
    Column("gpu_measured_share", Float(53), nullable=False, server_default="0"),
    Column("gpu_busy_share", Float(53), nullable=False, server_default="0"),
    Column("gpu_idle_share", Float(53), nullable=False, server_default="0"),
    Column("gpu_share_bytes", BigInteger, nullable=False, server_default="0"),  # of one card; 0: no share
    Column("gpu_fraction", Float(53), nullable=False, server_default="0"),  # of that card, 0 to 1
    Index("ix_attempts_state", "state"),
    Index("ix_attempts_command", "command_print", "placed_at"),
    Index("ix_attempts_task", "task_print", "placed_at"),
    Index("ix_attempts_freed", "freed_at"),
    Index("ix_attempts_owner_freed", "owner", "freed_at"),
    Index("ix_attempts_queued", "queued_at"),
    Index("ix_attempts_owner_queued", "owner", "queued_at"),
)

# What attempts used that are no longer kept, by day (UTC, from 1970), account and node. The sums are those of
# `engine.usage.UsageSums`; an attempt that reached over midnight counts in each of its days.
usage_days = Table(
    "usage_days",
    metadata,
    Column("day", BigInteger, primary_key=True, autoincrement=False),
    Column("owner", Text, primary_key=True),
    Column("node_id", Text, primary_key=True),
    Column("gpu_s", Float(53), nullable=False),
    Column("cpu_s", Float(53), nullable=False),
    Column("memory_byte_s", Float(53), nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("tasks", BigInteger, nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("wait_s", Float(53), nullable=False),
    Column("ended", BigInteger, nullable=False),
    Column("timed_out", BigInteger, nullable=False),
    Column("booked_gpu_s", Float(53), nullable=False),
    Column("used_gpu_s", Float(53), nullable=False),
    *(
        Column(name, Float(53), nullable=False, server_default="0")
        for name in ("measured_gpu_s", "busy_gpu_s", "idle_gpu_s", "failed_gpu_s", "wasted_gpu_s")
    ),
    Column("new_tasks", BigInteger, nullable=False),  # whose first attempt was placed on this day
)

# Reservations of waiting tasks, stored so that promised starts survive a restart. As long as the machine has
# the boot id of the row, `start_s` counts, by the boot clock. After a reboot `start_at` counts, by the wall clock.
places = Table(
    "places",
    metadata,
    Column("job_id", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("node_id", Text, nullable=False),
    Column("gpus", Text, nullable=False),  # JSON list of [kind, count]
    Column("start_at", Float(53), nullable=False),
    Column("duration_s", Float(53), nullable=False),
    Column("promised_at", Float(53)),
    Column("boot_id", Text, nullable=False, server_default=""),
    Column("start_s", Float(53), nullable=False, server_default="0"),
    Column("given_at", Float(53)),
    Column("first_at", Float(53)),  # by the wall clock: what was promised first; null: without slack
    Column("first_wait_s", Float(53), nullable=False, server_default="0"),  # how far ahead that was
)

# Promised starts of waiting tasks that no longer hold; the clocks are as in `places`.
moved_promises = Table(
    "moved_promises",
    metadata,
    Column("job_id", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("promised_at", Float(53), nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("promised_s", Float(53), nullable=False),
    Column("cause", Text, nullable=False),
)

# By how much JobManager's steady clock is ahead of the boot clock here (`clocks.SteadyOffset`): one row at most.
steady = Table(
    "steady",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("of_boot_id", Text, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("offset_s", Float(53), nullable=False),
)

# Stored passes (`frames`). A row whose `base` is its own id is whole; the others build upon the row before.
decisions = Table(
    "decisions",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("base", BigInteger, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("frame", LargeBinary, nullable=False),
    Index("ix_decisions_at", "at"),
)

# What an admin set for the running queue: `policy`, `discipline`. Without a row the configuration counts.
scheduling = Table(
    "scheduling",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("set_by", Text, nullable=False),
    Column("set_at", Float(53), nullable=False),
)

# When the hook for growth was told last: one row at most.
autoscale = Table(
    "autoscale",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("asked_at", Float(53), nullable=False),
)

# What each policy has learnt.
policy_states = Table(
    "policy_states",
    metadata,
    Column("policy", Text, primary_key=True),
    Column("state", Text, nullable=False),  # JSON
    Column("at", Float(53), nullable=False),
)

# The nodes as ResourceManager last reported them, for a start while it is away.
nodes = Table(
    "nodes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("place", Integer, nullable=False),  # in the list
    Column("node", Text, nullable=False),  # JSON
)

# Whether a node's lease files may say `none`. As long as they may, its silence ends no attempt.
node_leases = Table(
    "node_leases",
    metadata,
    Column("id", Text, primary_key=True),
    Column("suspended", Boolean, nullable=False),
    Column("address", Text, nullable=False),
    Column("incarnation", BigInteger, nullable=False),
)
