"""One job as JSON, piece by piece, so that ten thousand tasks cost little memory and delay no other request."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing

from headway.errors import HeadwayError, NotFound
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.states import TaskState

from .. import schemas as s
from .. import wire
from ..peers.clients import PARTS_S, ServiceClients

# So many tasks are turned into JSON before other requests get their turn: a millisecond or two.
_AT_ONCE = 50
_NAMED = 500  # tasks that TaskManager is asked about at a time
# TaskManager's time for an answer. If it hangs, the job is shown without it before people, and clients with a
# limit, give up.
_DETAILS_S = 5.0


async def attempts(
    services: ServiceClients, job_id: str, names: Collection[str] = (), *, deadline_s: float = PARTS_S
) -> Mapping[str, Sequence[tm.AttemptView]]:
    """Attempts by task name, oldest first; of all tasks, or of those that are named.

    Raises:
        Unavailable: TaskManager does not answer.
    """
    out: dict[str, list[tm.AttemptView]] = defaultdict(list)
    request = tm.ListAttemptsRequest(job_id=job_id, tasks=names)
    async with aclosing(services.tasks.parts("ListAttempts", request, deadline_s=deadline_s)) as parts:
        async for part in parts:
            for view in part.attempts:
                out[view.attempt.task.name].append(view)
            await asyncio.sleep(0)
    for of_task in out.values():
        of_task.sort(key=lambda view: view.attempt.number)
    return out


class LiveTaskDetails:
    """Attempts and queue entries of a job's tasks, asked of TaskManager.

    What it could not answer is named in ``missing`` and not asked for again.
    """

    def __init__(self, services: ServiceClients, job_id: str) -> None:
        self._services = services
        self._job_id = job_id
        self.missing: list[s.Missing] = []
        self._attempts: Mapping[str, Sequence[tm.AttemptView]] = {}
        self._places: Mapping[str, tm.QueueEntry] = {}

    def shown(self, task: jm.TaskView, *, job_held: bool) -> s.Task:
        """The task with its attempts and its queue entry."""
        return wire.task(task, self._attempts.get(task.name, ()), self._places.get(task.name), job_held=job_held)

    async def ask(self, tasks: Sequence[jm.TaskView]) -> None:
        """Asks for these tasks. Answers for earlier ones are dropped."""
        self._attempts, self._places = {}, {}
        if self.missing or not tasks:
            return
        waiting = [task.name for task in tasks if task.state == TaskState.QUEUED]
        await asyncio.gather(self._ask_attempts([task.name for task in tasks]), self._ask_places(waiting))

    async def ask_one(self, task: jm.TaskView) -> None:
        """Asks for this task alone."""
        waits = task.state == TaskState.QUEUED
        await asyncio.gather(self._ask_attempts([task.name]), *([self._ask_place(task.name)] if waits else []))

    async def _ask_attempts(self, names: Sequence[str]) -> None:
        try:
            self._attempts = await attempts(self._services, self._job_id, names, deadline_s=_DETAILS_S)
        except HeadwayError as error:
            self._miss("The attempts can't be shown now", error)

    async def _ask_places(self, names: Sequence[str]) -> None:
        if not names:
            return
        try:
            request = tm.GetQueueRequest(job_id=self._job_id, tasks=names)
            reply = await self._services.tasks.call("GetQueue", request, deadline_s=_DETAILS_S)
            self._places = {entry.task.name: entry for entry in reply.entries}
        except HeadwayError as error:
            self._miss("Places in the queue can't be shown now", error)

    async def _ask_place(self, name: str) -> None:
        request = tm.ExplainTaskRequest(task=common.Task(job_id=self._job_id, name=name))
        try:
            self._places = {name: await self._services.tasks.call("ExplainTask", request, deadline_s=_DETAILS_S)}
        except NotFound:
            pass  # between JobManager's outbox and TaskManager's queue
        except HeadwayError as error:
            self._miss("Its place in the queue can't be shown now", error)

    def _miss(self, what: str, error: HeadwayError) -> None:
        self.missing.append(s.Missing(service=self._services.tasks.name, sentence=f"{what}: {error.message}"))


async def pieces(
    job: jm.Job,
    parts: AsyncIterator[Sequence[jm.TaskView]],
    details: LiveTaskDetails,
    *,
    offset: int,
    ask: bool,
    whole: bool,
    notices: Sequence[str] = (),
) -> AsyncIterator[str]:
    """A JobDetail. ``parts``: its tasks, from ``offset`` on. ``ask``: also for attempts and places. ``whole``: with
    what only the owner and admins see. ``notices``: sentences about the job as a whole."""
    head = wire.job(job) if whole else wire.job_for_others(wire.job(job))
    yield head.model_dump_json()[:-1] + ',"tasks":['
    edges: list[s.Edge] = []
    begun = False
    async for part in parts:
        for first in range(0, len(part), _NAMED):
            named = part[first : first + _NAMED]
            if ask:
                await details.ask(named)
            for start in range(0, len(named), _AT_ONCE):
                some = named[start : start + _AT_ONCE]
                shown = [details.shown(task, job_held=job.held) for task in some]
                if not whole:
                    shown = [wire.task_for_others(task) for task in shown]
                edges += wire.edges(some)
                yield ("," if begun else "") + ",".join(task.model_dump_json() for task in shown)
                begun = True
                await asyncio.sleep(0)
    yield '],"edges":['
    for start in range(0, len(edges), 10 * _AT_ONCE):
        some_edges = edges[start : start + 10 * _AT_ONCE]
        yield ("," if start else "") + ",".join(edge.model_dump_json() for edge in some_edges)
        await asyncio.sleep(0)
    missing = ",".join(item.model_dump_json() for item in details.missing)
    yield f'],"tasks_offset":{offset},"missing":[{missing}],"notices":{json.dumps([*notices])}}}'
