"""Brings stored commands to TaskManager.

A stored command is a few dozen bytes. The task's spec, its owner and the like never change, so they are joined here.
So a job of 10,000 tasks is not stored twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from headway.errors import HeadwayError
from headway.ids import JobId
from headway.logs import get_logger
from headway.rpc import convert
from headway.rpc.chunks import in_parts
from headway.rpc.v1 import common_pb2, task_manager_pb2
from headway.store import Database, OutboxRow

from . import store
from .job import JobRecord
from .job_writer import JobWriter
from .ports import TaskManagerPort

log = get_logger(__name__)


class Delivery:
    """The `send` of the outbox's pump: returns once TaskManager has stored all rows."""

    def __init__(self, db: Database, jobs: JobWriter, task_manager: TaskManagerPort) -> None:
        self._db = db
        self._jobs = jobs
        self._task_manager = task_manager

    async def send(self, rows: Sequence[OutboxRow]) -> None:
        for part in in_parts(await self._commands(rows)):
            await self._task_manager.apply(part, self._jobs.steady())

    async def give_up(self, row: OutboxRow, error: HeadwayError) -> bool:
        """The pump's answer to a row that TaskManager calls invalid: its task ends, the others go on."""
        command = task_manager_pb2.TaskCommand.FromString(row.payload)
        if command.HasField("enqueue"):
            task = command.enqueue.task
            await self._jobs.refused(JobId(task.job_id), task.name, command.enqueue.generation, error.message)
        return True

    async def _commands(self, rows: Sequence[OutboxRow]) -> list[task_manager_pb2.TaskCommand]:
        commands = []
        wanted: dict[str, list[int]] = {}
        for row in rows:
            command = task_manager_pb2.TaskCommand.FromString(row.payload)
            command.seq = row.seq
            commands.append(command)
            if command.HasField("enqueue"):
                wanted.setdefault(command.enqueue.task.job_id, []).append(int(row.kind))
        found = await self._db.read(lambda conn: store.load_for_delivery(conn, wanted)) if wanted else {}
        return [
            command
            for command, row in zip(commands, rows, strict=True)
            if not command.HasField("enqueue") or _complete(command.enqueue, int(row.kind), found)
        ]


def _complete(
    message: task_manager_pb2.EnqueueTask,
    number: int,
    found: dict[str, tuple[JobRecord, dict[int, bytes]]],
) -> bool:
    job = found.get(message.task.job_id)
    spec = job[1].get(number) if job is not None else None
    if job is None or spec is None:
        # Only by hand can a job go while its commands stay; holding up all others would be worse.
        log.error("outbox.command_of_no_job", job=message.task.job_id, task=message.task.name)
        return False
    record = job[0]
    message.owner.CopyFrom(common_pb2.Account.FromString(record.account))
    message.job_name = record.name
    message.priority = convert.priority_to_pb(record.priority)
    message.spec.MergeFromString(spec)
    return True
