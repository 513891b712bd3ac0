"""Queries of the queue: its pages, why a task waits, where an attempt runs. They change nothing."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Any

from headway.errors import InvalidInput, NotFound
from headway.ids import JobId, TaskId
from headway.rpc import convert
from headway.rpc.v1 import task_manager_pb2
from headway.states import AttemptState, NodeHealth
from headway.store import Database

from .. import wire
from ..engine import drains, leases, pass_input
from ..engine.engine import Engine
from ..engine.state import EngineState
from ..model import Attempt, Task
from ..planning.overtaking import OvertakingPromises
from ..planning.submit_check import SubmitCheck
from ..store import queue_store
from . import booking_list, scheduling_view
from .queue_entries import QueueEntries

_PAGE = 500  # attempts in one part of a list: well under 1 MB
_MOST_ENTRIES = 1_000
_LOOKED_AT_ONCE = 5_000  # so many are looked through in a few milliseconds
_AT_ONCE = 100  # so many entries take a few milliseconds; then other calls get their turn


class QueueQueries:
    """Reads the queue for pages and clients."""

    def __init__(self, engine: Engine, db: Database) -> None:
        self._engine = engine
        self._db = db
        self._overtaken: OvertakingPromises | None = None  # of the last plan that was asked about

    async def check(self, request: task_manager_pb2.CheckResourcesRequest) -> task_manager_pb2.CheckResourcesReply:
        """Checks whether these would be accepted into the queue."""
        settings = self._engine.settings
        # This does not wait for the turn under way: nodes come from ResourceManager, whether or not the turn succeeds.
        nodes = list(self._engine.state.nodes.values())
        gate = SubmitCheck(nodes, settings.limits, settings.cpu_tasks, settings.grown)
        reply = task_manager_pb2.CheckResourcesReply(nodes_known=len(nodes))
        for asked in request.shapes:
            shape = wire.shape(
                asked.resources,
                architecture=asked.image_architecture,
                require_cuda=asked.image_require_cuda,
                ulimits=asked.ulimits,
            )
            verdict = reply.verdicts.add()
            for refusal in gate.refusals(shape, convert.duration_s(asked.timeout_s, "timeout_s")):
                verdict.refusals.add(field=refusal.field, sentence=refusal.sentence, for_ever=refusal.for_ever)
            if not verdict.refusals:
                verdict.waits = gate.waits(shape)
        return reply

    async def queue(self, request: task_manager_pb2.GetQueueRequest) -> task_manager_pb2.GetQueueReply:
        """One page of the waiting tasks in their order; held tasks come last and have no position. Or the named tasks.

        Raises:
            InvalidInput: too many tasks are named.
        """
        if len(request.tasks) > _MOST_ENTRIES:
            raise InvalidInput(f"Name at most {_MOST_ENTRIES} tasks at a time.")
        limit = min(request.limit or 100, _MOST_ENTRIES)
        async with self._engine.consistent_state() as state:
            job_id = JobId(request.job_id)
            if request.tasks:
                page = _named(state, job_id, request.tasks)
                matching = len(page)
            elif request.owner:
                page, matching = await _page_of_owner(state, request.owner, request.offset, limit, job_id)
            else:
                page = _page(state, request.offset, limit, job_id)
                matching = state.waiting_count_of_job(job_id) if job_id else state.waiting_count
            asked = self._entries(state)
            entries: list[task_manager_pb2.QueueEntry] = []
            for start in range(0, len(page), _AT_ONCE):
                entries += [asked.entry(task, position) for task, position in page[start : start + _AT_ONCE]]
                await asyncio.sleep(0)
            running: list[booking_list.HeldBooking] = []
            if request.running_limit:
                running = await self._held(state, job_id=job_id, owner=request.owner)
            return task_manager_pb2.GetQueueReply(
                entries=entries,
                total_waiting=state.waiting_count,
                total_running=len(state.attempts),
                policy=state.policy.name,
                discipline=self._engine.settings.discipline.value,
                scheduling=scheduling_view.scheduling(state, self._engine.scheduling_choice),
                total_matching=matching,
                running=[one.message() for one in running[: min(request.running_limit, _MOST_ENTRIES)]],
                running_matching=len(running),
            )

    async def bookings(
        self, request: task_manager_pb2.ListBookingsRequest
    ) -> AsyncIterator[task_manager_pb2.ListBookingsReply]:
        """Who holds what on which node, of one moment, in parts."""
        async with self._engine.consistent_state() as state:
            found = await self._held(state, gpus_only=request.gpus_only)
            nodes = booking_list.on_nodes(state, self._engine.settings, self._engine.read_clocks())
        for number, part in enumerate(booking_list.parts(found)):
            reply = task_manager_pb2.ListBookingsReply(bookings=[one.message() for one in part])
            if number == 0:
                reply.nodes.extend(nodes)
            yield reply
            await asyncio.sleep(0)

    async def _held(self, state: EngineState, **only: Any) -> list[booking_list.HeldBooking]:
        return await booking_list.held(state, self._engine.settings, self._engine.read_clocks(), **only)

    async def scheduling(self) -> task_manager_pb2.Scheduling:
        """Which policy and discipline order the queue, and who chose them."""
        async with self._engine.consistent_state() as state:
            return scheduling_view.scheduling(state, self._engine.scheduling_choice)

    async def explain(self, task_id: TaskId) -> task_manager_pb2.QueueEntry:
        """The entry of one task.

        Raises:
            NotFound: JobManager never handed it over.
        """
        async with self._engine.consistent_state() as state:
            task = state.tasks.get(task_id)
            if task is not None:
                return self._entries(state).entry(task)
        task = (await self._db.read(lambda conn: queue_store.load_tasks(conn, [task_id]))).get(task_id)
        if task is None:
            raise NotFound(f"The queue knows no task {task_id}.")
        return self._entries(self._engine.state).entry(task)

    async def attempts(
        self, job_id: JobId, tasks: Collection[str]
    ) -> AsyncIterator[task_manager_pb2.ListAttemptsReply]:
        """All attempts of a job, or of those of its tasks that are named, in parts."""
        after = ("", 0)
        while True:
            found = await self._db.read(
                lambda conn, after=after: queue_store.load_attempts(conn, job_id, tasks, after, _PAGE)  # type: ignore[misc]
            )
            yield task_manager_pb2.ListAttemptsReply(attempts=[self.view(a) for a in found])
            if len(found) < _PAGE:
                return
            after = (found[-1].id.task.name, found[-1].id.number)

    async def locate(
        self, task_id: TaskId, number: int, *, with_secrets: bool = False
    ) -> task_manager_pb2.LocateAttemptReply:
        """One attempt and where its live log is; wanted, the names of the secrets of its task too.

        Raises:
            NotFound: there is no such attempt (yet).
        """
        attempt = await self._db.read(lambda conn: queue_store.load_attempt(conn, task_id, number))
        if attempt is None:
            which = f"attempt {number}" if number else "attempt yet"
            raise NotFound(f"Task {task_id} has no {which}.")
        secrets: Sequence[str] = ()
        if with_secrets:
            specs = await self._db.read(lambda conn: queue_store.load_specs(conn, [task_id]))
            secrets = wire.secrets_of(specs[task_id]) if task_id in specs else ()
        return task_manager_pb2.LocateAttemptReply(
            attempt=self.view(attempt), worker_address=self._address(attempt), secrets=secrets
        )

    def _entries(self, state: EngineState) -> QueueEntries:
        settings, reading = self._engine.settings, self._engine.read_clocks()
        if state.plan is None:
            self._overtaken = None
        elif self._overtaken is None or self._overtaken.plan is not state.plan:
            self._overtaken = OvertakingPromises(state.plan, state.queue.key_of)
        rooms = pass_input.free_resources(state, settings, reading.mono)
        return QueueEntries(state, settings, rooms, self._overtaken, reading, self._engine.ahead_s(reading))

    def view(self, attempt: Attempt) -> task_manager_pb2.AttemptView:
        """The attempt as pages show it."""
        sentence = self._sentence(attempt) if attempt.live else ""
        warning = drains.warning(self._engine.state.nodes.get(attempt.node_id)) if attempt.live else ""
        view = wire.attempt_view(attempt, sentence, warning)
        if attempt.shape.gpu_share_bytes:
            state = self._engine.state
            live = state.attempt(attempt.id) is not None
            node = state.nodes.get(attempt.node_id) if live else None
            card = next((g for g in node.gpus if g.uuid in attempt.gpu_uuids), None) if node is not None else None
            view.share.CopyFrom(wire.gpu_share(attempt, card, state.sharers(attempt) if live else ()))
        return view

    def _address(self, attempt: Attempt) -> str:
        state = self._engine.state
        node, lease = state.nodes.get(attempt.node_id), state.leases.get(attempt.node_id)
        if node is not None and node.health is NodeHealth.DOWN:
            return ""
        if lease is not None and lease.address:
            return lease.address
        return node.address if node is not None else ""

    def _sentence(self, attempt: Attempt) -> str:
        engine = self._engine
        lease = engine.state.leases.get(attempt.node_id)
        first_s = engine.state.first_seen(attempt.node_id)
        now_s = engine.mono()
        silent = leases.is_silent(lease, started_s=first_s, now_s=now_s, settings=engine.settings.leases)
        if attempt.state is AttemptState.STOPPING:
            if silent:
                return (
                    f"Stopping: {attempt.node_id} does not answer. The task ends when the machine is back, when "
                    "Headway has waited long enough, or when an administrator declares the machine lost."
                )
            if attempt.stop_at is not None and engine.now() - attempt.stop_at > engine.settings.stop_limit_s:
                return f"Stopping: {attempt.node_id} has not stopped the task yet."
            return "Stopping."
        return f"{attempt.node_id} does not answer; the task may still be running there." if silent else ""


def _named(state: EngineState, job_id: JobId, names: Iterable[str]) -> list[tuple[Task, int | None]]:
    """The waiting tasks of a job that have these names, in the order of the names."""
    found = (state.tasks.get(TaskId(job_id, name)) for name in names)
    return [(task, None) for task in found if task is not None and task.waiting]


def _page(state: EngineState, offset: int, limit: int, job_id: JobId) -> list[tuple[Task, int | None]]:
    """A page of the queue, or of one job's waiting tasks; held tasks come last. Positions only where known."""
    ids = state.queue.page_of_job(job_id, offset, limit) if job_id else state.queue.page(offset, limit)
    if len(ids) < limit:
        waiting = state.queue.count_of_job(job_id) if job_id else len(state.queue)
        held = [task_id for task_id in state.held if not job_id or task_id.job_id == job_id]
        skipped = max(0, offset - waiting)
        ids += held[skipped : skipped + limit - len(ids)]
    first = None if job_id else offset + 1
    tasks = [state.tasks[task_id] for task_id in ids]
    return [(task, None if first is None or task.held else first + number) for number, task in enumerate(tasks)]


async def _page_of_owner(
    state: EngineState, owner: str, offset: int, limit: int, job_id: JobId
) -> tuple[list[tuple[Task, int | None]], int]:
    """A page of one account's waiting tasks, each with its position among all, and how many there are."""
    page: list[tuple[Task, int | None]] = []
    found = 0
    for position, task_id in enumerate(itertools.chain(state.queue.in_order(), state.held), start=1):
        if position % _LOOKED_AT_ONCE == 0:
            await asyncio.sleep(0)
        task = state.tasks[task_id]
        if task.owner != owner or (job_id and task_id.job_id != job_id):
            continue
        if offset <= found < offset + limit:
            page.append((task, None if task.held else position))
        found += 1
    return page, found
