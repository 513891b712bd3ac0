"""Answers to questions: the queue, why a task waits, where an attempt is. Reads, never changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable

from headway.errors import InvalidInput, NotFound
from headway.ids import JobId, TaskId
from headway.rpc.v1 import task_manager_pb2
from headway.states import AttemptState, NodeHealth
from headway.store import Database

from .. import wire
from ..engine import leases, passes
from ..engine.engine import Engine
from ..engine.state import Book
from ..model import Attempt, Task
from ..planning.overtaking import OvertakingPromises
from ..planning.submit_check import SubmitCheck
from ..store import queue_store
from . import scheduling_view
from .queue_entries import Entries

_PAGE = 500  # attempts in one part of a list: well under 1 MB
_MOST_ENTRIES = 1_000
_AT_ONCE = 100  # entries are made in a few milliseconds; then others get their turn


class Desk:
    """Questions of pages and people."""

    def __init__(self, engine: Engine, db: Database) -> None:
        self._engine = engine
        self._db = db
        self._overtaken: OvertakingPromises | None = None  # of the last plan that was asked about

    async def check(self, request: task_manager_pb2.CheckResourcesRequest) -> task_manager_pb2.CheckResourcesReply:
        """Would these be taken into the queue?"""
        settings = self._engine.settings
        # Without waiting for the turn under way: nodes are ResourceManager's facts, whatever becomes of the turn.
        nodes = list(self._engine.book.nodes.values())
        gate = SubmitCheck(nodes, settings.limits, settings.cpu_tasks)
        reply = task_manager_pb2.CheckResourcesReply(nodes_known=len(nodes))
        for asked in request.shapes:
            shape = wire.shape(
                asked.resources,
                architecture=asked.image_architecture,
                require_cuda=asked.image_require_cuda,
            )
            verdict = reply.verdicts.add()
            for refusal in gate.refusals(shape, asked.timeout_s):
                verdict.refusals.add(field=refusal.field, sentence=refusal.sentence, for_ever=refusal.for_ever)
        return reply

    async def queue(self, request: task_manager_pb2.GetQueueRequest) -> task_manager_pb2.GetQueueReply:
        """One page of the waiting tasks in their order, held ones last and without a position; or what is named.

        Raises:
            InvalidInput: too many tasks are named.
        """
        if len(request.tasks) > _MOST_ENTRIES:
            raise InvalidInput(f"Name at most {_MOST_ENTRIES} tasks at a time.")
        limit = min(request.limit or 100, _MOST_ENTRIES)
        async with self._engine.reading() as book:
            job_id = JobId(request.job_id)
            page = _named(book, job_id, request.tasks) if request.tasks else _page(book, request.offset, limit, job_id)
            asked = self._entries(book)
            entries: list[task_manager_pb2.QueueEntry] = []
            for start in range(0, len(page), _AT_ONCE):
                entries += [asked.entry(task, position) for task, position in page[start : start + _AT_ONCE]]
                await asyncio.sleep(0)
            return task_manager_pb2.GetQueueReply(
                entries=entries,
                total_waiting=len(book.queue) + len(book.held),
                total_running=len(book.attempts),
                policy=book.policy.name,
                discipline=self._engine.settings.discipline.value,
                scheduling=scheduling_view.scheduling(book, self._engine.steering),
            )

    async def scheduling(self) -> task_manager_pb2.Scheduling:
        """What orders the queue, and who said so."""
        async with self._engine.reading() as book:
            return scheduling_view.scheduling(book, self._engine.steering)

    async def explain(self, task_id: TaskId) -> task_manager_pb2.QueueEntry:
        """All about one task.

        Raises:
            NotFound: JobManager never handed it over.
        """
        async with self._engine.reading() as book:
            task = book.tasks.get(task_id)
            if task is not None:
                return self._entries(book).entry(task)
        task = (await self._db.read(lambda conn: queue_store.load_tasks(conn, [task_id]))).get(task_id)
        if task is None:
            raise NotFound(f"The queue knows no task {task_id}.")
        return self._entries(self._engine.book).entry(task)

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

    async def locate(self, task_id: TaskId, number: int) -> task_manager_pb2.LocateAttemptReply:
        """One attempt and where its live log is.

        Raises:
            NotFound: there is no such attempt (yet).
        """
        attempt = await self._db.read(lambda conn: queue_store.load_attempt(conn, task_id, number))
        if attempt is None:
            which = f"attempt {number}" if number else "attempt yet"
            raise NotFound(f"Task {task_id} has no {which}.")
        return task_manager_pb2.LocateAttemptReply(attempt=self.view(attempt), worker_address=self._address(attempt))

    def _entries(self, book: Book) -> Entries:
        settings, here = self._engine.settings, self._engine.here()
        if book.plan is None:
            self._overtaken = None
        elif self._overtaken is None or self._overtaken.plan is not book.plan:
            self._overtaken = OvertakingPromises(book.plan, book.queue.key_of)
        rooms = passes.rooms(book, settings, here.mono)
        return Entries(book, settings, rooms, self._overtaken, here, self._engine.ahead_s(here))

    def view(self, attempt: Attempt) -> task_manager_pb2.AttemptView:
        """As pages show it."""
        return wire.attempt_view(attempt, self._sentence(attempt) if attempt.live else "")

    def _address(self, attempt: Attempt) -> str:
        book = self._engine.book
        node, lease = book.nodes.get(attempt.node_id), book.leases.get(attempt.node_id)
        if node is not None and node.health is NodeHealth.DOWN:
            return ""
        if lease is not None and lease.address:
            return lease.address
        return node.address if node is not None else ""

    def _sentence(self, attempt: Attempt) -> str:
        engine = self._engine
        lease = engine.book.leases.get(attempt.node_id)
        first_s = engine.book.first_seen(attempt.node_id)
        now_s = engine.mono()
        silent = leases.silent(lease, started_s=first_s, now_s=now_s, settings=engine.settings.leases)
        if attempt.state is AttemptState.STOPPING:
            if silent:
                return (
                    f"Stopping: {attempt.node_id} does not answer. It ends when the machine is back, when its lease "
                    "is over, or when an administrator declares the machine lost."
                )
            if attempt.stop_at is not None and engine.now() - attempt.stop_at > engine.settings.stop_limit_s:
                return f"Stopping: {attempt.node_id} has not managed to end it yet."
            return "Stopping."
        return f"{attempt.node_id} does not answer; the task may still be running there." if silent else ""


def _named(book: Book, job_id: JobId, names: Iterable[str]) -> list[tuple[Task, int | None]]:
    """Those of a job's tasks of these names that wait, each as it comes in the list."""
    found = (book.tasks.get(TaskId(job_id, name)) for name in names)
    return [(task, None) for task in found if task is not None and task.waiting]


def _page(book: Book, offset: int, limit: int, job_id: JobId) -> list[tuple[Task, int | None]]:
    """The queue's, or of it one job's, with positions where they are known already; held tasks come last."""
    ids = book.queue.page_of_job(job_id, offset, limit) if job_id else book.queue.page(offset, limit)
    if len(ids) < limit:
        waiting = book.queue.count_of_job(job_id) if job_id else len(book.queue)
        held = [task_id for task_id in book.held if task_id.job_id == job_id] if job_id else list(book.held)
        skipped = max(0, offset - waiting)
        ids += held[skipped : skipped + limit - len(ids)]
    first = None if job_id else offset + 1
    tasks = [book.tasks[task_id] for task_id in ids]
    return [(task, None if first is None or task.held else first + number) for number, task in enumerate(tasks)]
