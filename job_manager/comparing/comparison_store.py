"""What a comparison with TaskManager reads and writes, as SQL; inside a transaction of the caller."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from headway.rpc.v1 import common_pb2, task_manager_pb2

from ..job import AT_TASK_MANAGER
from ..store import LIVE
from ..tables import TASK_MANAGER, job, outbox, task

_COLUMNS = (
    task.c.job_id, task.c.name, task.c.generation, task.c.state, task.c.seq, task.c.attempt, task.c.node_id,
    task.c.held_at,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """One look: the tasks that TaskManager should have, and of which of them a command is on its way there."""

    tasks: list[task_manager_pb2.HeldTask]
    under_way: set[tuple[str, str]]
    last_seq: int  # of commands


def load_held_tasks(conn: Connection) -> HeldTasks:
    """What a comparison needs, as of one moment."""
    at_task_manager = [state.value for state in AT_TASK_MANAGER]
    live = select(job.c.id).where(LIVE)
    rows = conn.execute(select(*_COLUMNS).where(task.c.job_id.in_(live), task.c.state.in_(at_task_manager)))
    found = [
        task_manager_pb2.HeldTask(
            task=common_pb2.Task(job_id=row.job_id, name=row.name),
            generation=row.generation,
            state=row.state,
            event_seq=row.seq,
            attempt=row.attempt,
            node_id=row.node_id,
            held=row.held_at is not None,
        )
        for row in rows
    ]
    payloads = conn.execute(select(outbox.table.c.payload).where(outbox.table.c.target == TASK_MANAGER)).scalars()
    under_way = {_named(task_manager_pb2.TaskCommand.FromString(payload)) for payload in payloads}
    return HeldTasks(found, under_way, outbox.last_seq(conn))


def _named(command: task_manager_pb2.TaskCommand) -> tuple[str, str]:
    which = command.WhichOneof("command")
    named: common_pb2.Task = getattr(command, which).task if which else common_pb2.Task()
    return named.job_id, named.name
