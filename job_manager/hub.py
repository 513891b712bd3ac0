"""Sends committed changes to subscribers.

What a subscriber has not taken yet is merged per job; the latest wins, so a burst costs it one message. One that falls
too far behind is cut off, and starts anew with a fresh look.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headway.errors import Stopping, TooMany
from headway.rpc.v1 import job_manager_pb2

TASKS_A_MESSAGE = 200
JOBS_A_MESSAGE = 100
_BEHIND_AT_MOST = 50_000  # jobs and tasks not yet taken


@dataclass(slots=True)
class JobChange:
    """A job as it is now, and those of its tasks that changed, by name."""

    job: job_manager_pb2.Job
    tasks: dict[str, job_manager_pb2.TaskView] = field(default_factory=dict)


class JobSubscription:
    """One subscriber's unread changes."""

    def __init__(self) -> None:
        self._unread: dict[str, JobChange] = {}
        self._removed: dict[str, None] = {}
        self._behind = 0
        self._ready = asyncio.Event()
        self._closed = False

    def put(self, changes: Iterable[JobChange]) -> None:
        if self._cut_off:
            return
        for change in changes:
            known = self._unread.get(change.job.id)
            if known is None:
                self._unread[change.job.id] = JobChange(change.job, dict(change.tasks))
                self._behind += 1 + len(change.tasks)
                continue
            known.job = change.job
            before = len(known.tasks)
            known.tasks.update(change.tasks)
            self._behind += len(known.tasks) - before
        if self._cut_off:
            self._unread.clear()
        self._ready.set()

    def put_removed(self, job_ids: Iterable[str]) -> None:
        if self._cut_off:
            return
        for job_id in job_ids:
            unread = self._unread.pop(job_id, None)
            self._removed[job_id] = None
            self._behind += 1 - (0 if unread is None else 1 + len(unread.tasks))
        if self._cut_off:
            self._removed.clear()
        self._ready.set()

    def close(self) -> None:
        self._closed = True
        self._ready.set()

    async def next(self) -> job_manager_pb2.JobChanges:
        """What is unread, at most 200 tasks of it; waits for the next change.

        Raises:
            TooMany: this watcher fell behind; watch anew.
            Stopping: the service is stopping.
        """
        await self._ready.wait()
        if self._closed:
            raise Stopping
        if self._cut_off:
            raise TooMany("This watch fell too far behind; look afresh and watch anew.")
        message = job_manager_pb2.JobChanges()
        room = TASKS_A_MESSAGE
        while self._unread and room > 0 and len(message.changes) < JOBS_A_MESSAGE:
            job_id, change = next(iter(self._unread.items()))
            taken = list(itertools.islice(change.tasks, room))
            tasks = [change.tasks.pop(name) for name in taken]
            message.changes.add(job=change.job, tasks=tasks)
            room -= len(taken)
            self._behind -= len(taken)
            if not change.tasks:
                del self._unread[job_id]
                self._behind -= 1
        for job_id in list(itertools.islice(self._removed, JOBS_A_MESSAGE)):
            del self._removed[job_id]
            message.removed.append(job_id)
            self._behind -= 1
        if not self._unread and not self._removed:
            self._ready.clear()
        return message

    @property
    def _cut_off(self) -> bool:
        return self._behind > _BEHIND_AT_MOST


class JobEventHub:
    """All subscribers. Belongs to the event loop."""

    def __init__(self) -> None:
        self._subscriptions: set[JobSubscription] = set()

    @property
    def watched(self) -> bool:
        return bool(self._subscriptions)

    def publish(self, changes: Iterable[JobChange]) -> None:
        found = list(changes)
        for subscription in self._subscriptions if found else ():
            subscription.put(found)

    def publish_removed(self, job_ids: Iterable[str]) -> None:
        """These jobs do not show any more."""
        found = list(job_ids)
        for subscription in self._subscriptions if found else ():
            subscription.put_removed(found)

    @contextmanager
    def watch(self) -> Iterator[JobSubscription]:
        subscription = JobSubscription()
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    def close(self) -> None:
        """Ends all subscriptions; for the stop of the service."""
        for subscription in self._subscriptions:
            subscription.close()
