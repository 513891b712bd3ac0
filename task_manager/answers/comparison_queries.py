"""Answers JobManager's comparison: what differs between the tasks that it holds and those that are here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence

from sqlalchemy import Connection, select

from headway.ids import TaskId
from headway.rpc import convert
from headway.rpc.v1 import job_manager_pb2
from headway.rpc.v1 import task_manager_pb2 as pb
from headway.store import Database

from .. import wire
from ..engine.comparing.comparison import MENDED_HERE, Difference, difference
from ..engine.engine import Engine
from ..engine.events import HeldTask, MendTasks
from ..model import Task
from ..store import queue_store
from ..store.tables import outbox

_AT_ONCE = 2_000  # then other calls get their turn
_MOST_TOLD = 5_000  # the others are told in the next comparison


class ComparisonQueries:
    """See the module."""

    def __init__(self, engine: Engine, db: Database) -> None:
        self._engine = engine
        self._db = db

    async def compare(self, parts: AsyncIterator[pb.CompareTasksRequest]) -> pb.CompareTasksReply:
        """What differs. What JobManager has seen before, and can be mended here, is mended."""
        held = {}
        async for part in parts:
            held.update({one.id: one for one in map(wire.held_task, part.tasks)})
            await asyncio.sleep(0)
        found, command_seq = await self._differences(held)
        if found:
            # The event that would end the difference may be on its way.
            under_way = await self._db.read(_tasks_under_way)
            found = {task_id: one for task_id, one in found.items() if task_id not in under_way}
        chosen = sorted(found)[:_MOST_TOLD]
        mended = await self._mend(
            [held[i] for i in chosen if found[i][0] in MENDED_HERE and held[i].seen == found[i][0].value]
        )
        reply = pb.CompareTasksReply(command_seq=command_seq)
        for task_id in chosen:
            word, generation = found[task_id]
            reply.differences.add(
                task=convert.task_to_pb(task_id), word=word.value, generation=generation, mended=task_id in mended
            )
        return reply

    async def _differences(self, held: dict[TaskId, HeldTask]) -> tuple[dict[TaskId, tuple[Difference, int]], int]:
        found: dict[TaskId, tuple[Difference, int]] = {}
        async with self._engine.consistent_state() as state:
            tasks: dict[TaskId, Task] = dict(state.tasks)
            past = await self._db.read(lambda conn: queue_store.load_tasks(conn, held.keys() - tasks.keys()))
        for number, (task_id, one) in enumerate(held.items()):
            task = tasks.get(task_id) or past.get(task_id)
            word = difference(one, task)
            if word is not None:
                found[task_id] = word, task.generation if task is not None else 0
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        for task_id in tasks.keys() - held.keys():
            found[task_id] = Difference.EXTRA, tasks[task_id].generation
        return found, max((task.command_seq for task in tasks.values()), default=0)

    async def _mend(self, tasks: Sequence[HeldTask]) -> Collection[TaskId]:
        if not tasks:
            return ()
        mended: list[TaskId] = await self._engine.submit(MendTasks(tuple(tasks)))
        return frozenset(mended)


def _tasks_under_way(conn: Connection) -> set[TaskId]:
    """The tasks of events that JobManager may not have."""
    rows = conn.execute(select(outbox.table.c.payload)).scalars()
    return {convert.task_id(job_manager_pb2.TaskEvent.FromString(row).task) for row in rows}
