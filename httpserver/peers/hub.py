"""Live changes for pages: three watches come in, any number of event streams go out.

Every event gets the next number and goes into one ring buffer. A stream is a position in that ring, not a queue of its
own. So a slow reader costs nothing. When the ring has moved past its position, the page gets a ``reset`` and loads
anew. Messages stay protobuf until a stream reads them, and become JSON then.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from headway.clock import Clock
from headway.errors import HeadwayError
from headway.logs import get_logger
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.waiting import wait

from .. import schemas as s
from .. import wire
from ..text.server_sent import one_line
from .clients import ServiceClient, ServiceClients

log = get_logger(__name__)

_RING = 20_000
_AT_ONCE = 100
_KEEP_ALIVE_S = 15.0
_RETRY_MS = 2000
_QUEUE_EVERY_S = 1.0
_PAUSE_S = 1.0
# What of a node counts for pages: what ``views.node`` shows. A change of anything else makes no event.
NODE_FIELDS_ON_PAGES = frozenset(
    {
        "id",
        "health",
        "health_sentence",
        "admission",
        "note",
        "registered_at",
        "seen_at",
        "incarnation",
        "version",
        "labels",
        "drain",
        "events",
    }
)
STATUS_FIELDS_ON_PAGES = frozenset(
    {
        "capacity",
        "conditions",
        "cpu_used",
        "memory_used_bytes",
        "memory_total_bytes",
        "disk_free_bytes",
        "disk_total_bytes",
        "load1",
        "live_attempts",
        "images",
    }
)


@dataclass(slots=True)
class _Event:
    number: int
    kind: str
    job_id: str  # empty: of no job
    key: str  # of several with the same key that are sent together only the last one matters; empty: all do
    make: Callable[[], BaseModel]
    owner: str = ""  # of the job, where others see less of it than ``make`` makes
    for_others: Callable[[], BaseModel] | None = None
    texts: dict[bool, str] = field(default_factory=dict)

    def rendered(self, whole: Callable[[str], bool]) -> str:
        less = self.for_others is not None and not whole(self.owner)
        if less not in self.texts:
            try:
                make = self.for_others if less and self.for_others is not None else self.make
                self.texts[less] = one_line(make().model_dump_json())
            except (ValueError, KeyError) as error:
                # One message that can't be shown must not end all streams.
                log.error("events.not_shown", kind=self.kind, job=self.job_id, exc=error)
                self.texts[less] = ""
        return self.texts[less]


class PageEventHub:
    """See the module. ``run`` holds the watches; ``stream`` may be called before it runs."""

    def __init__(self, clock: Clock, *, ring: int = _RING) -> None:
        self._clock = clock
        self._ring: deque[_Event] = deque(maxlen=ring)
        self._epoch = secrets.token_hex(4)  # numbers of an earlier process mean nothing here
        self._number = 0
        self._news = asyncio.Event()
        self._closed = False
        self._queue_due = False
        self._nodes: dict[str, rm.Node] = {}
        self._job_listeners: list[Callable[[jm.JobChanges], None]] = []
        self._gap_listeners: list[Callable[[], None]] = []
        self.streams = 0

    def listen_to_jobs(self, changes: Callable[[jm.JobChanges], None], gap: Callable[[], None]) -> None:
        """Calls ``changes`` with JobManager's changes, and ``gap`` when some may be missing. Neither may block."""
        self._job_listeners.append(changes)
        self._gap_listeners.append(gap)

    # -- in -------------------------------------------------------------------------------------

    async def run(self, services: ServiceClients) -> None:
        """Watches the three services until cancelled; one that is away is waited for."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(services.jobs, "WatchJobs", jm.WatchJobsRequest(), self.on_jobs))
            group.create_task(self._watch(services.tasks, "WatchAttempts", tm.WatchAttemptsRequest(), self.on_attempts))
            group.create_task(self._watch(services.nodes, "WatchNodes", rm.WatchNodesRequest(), self.on_nodes))
            group.create_task(self._tell_queue())

    async def _watch(self, remote: ServiceClient, method: str, request: Any, take: Callable[[Any], None]) -> None:
        unseen = True
        while True:
            try:
                async with aclosing(remote.watch(method, request)) as messages:
                    async for message in messages:
                        if unseen:
                            # The first message comes at once; what changed before it was seen by nobody.
                            unseen = False
                            self.reset(f"{remote.name} is watched from now on")
                        take(message)
            except HeadwayError as error:
                log.info("events.watch_broke", service=remote.name, reason=error.message)
            unseen = True
            await self._clock.sleep(_PAUSE_S)

    def on_jobs(self, changes: jm.JobChanges) -> None:
        """From JobManager."""
        for also in self._job_listeners:
            also(changes)
        for change in changes.changes:
            job = change.job
            self._publish("job", job.id, f"job {job.id}", _job(job), owner=job.owner, for_others=_job_for_others(job))
            for task in change.tasks:
                make, key = _task_event(job, task), f"task {job.id}/{task.name}"
                self._publish("task", job.id, key, make, owner=job.owner, for_others=_task_for_others(make))

        for gone in changes.removed:
            # The same key as the job's own changes: of a job that is gone only this matters.
            self._publish("job_gone", gone, f"job {gone}", lambda gone=gone: s.JobGone(id=gone))  # type: ignore[misc]

    def on_attempts(self, changes: tm.AttemptChanges) -> None:
        """From TaskManager."""
        for view in changes.attempts:
            job_id, name = view.attempt.task.job_id, view.attempt.task.name
            make, key = _attempt_event(view), f"attempt {job_id}/{name}/{view.attempt.number}"
            self._publish("attempt", job_id, key, make, owner=view.owner, for_others=_attempt_for_others(make))
        self._queue_due |= changes.queue_changed

    def on_nodes(self, changes: rm.NodesChanged) -> None:
        """From ResourceManager. Its first message after each connection holds all nodes; only what differs is sent."""
        known = dict(self._nodes) if changes.reset else {}
        for node in changes.nodes:
            known.pop(node.id, None)
            before, self._nodes[node.id] = self._nodes.get(node.id), node
            if before is None or _on_pages(before) != _on_pages(node):
                self._publish("node", "", f"node {node.id}", lambda node=node: wire.node(node))  # type: ignore[misc]
        for gone in (*changes.removed, *known):
            if self._nodes.pop(gone, None) is not None:
                self._publish("node_gone", "", f"node {gone}", lambda gone=gone: s.NodeGone(id=gone))  # type: ignore[misc]

    def nodes(self) -> list[rm.Node]:
        """All nodes as ResourceManager reported them last; none before its first message."""
        return list(self._nodes.values())

    def reset(self, reason: str) -> None:
        """Makes all pages load anew."""
        for also in self._gap_listeners:
            also()
        self._publish("reset", "", "reset", lambda: s.ResetEvent(reason=reason))

    async def _tell_queue(self) -> None:
        # The queue changes with every start and end; pages want to know once a second at most.
        while True:
            await self._clock.sleep(_QUEUE_EVERY_S)
            if self._queue_due:
                self._queue_due = False
                self._publish("queue", "", "queue", s.QueueEvent)

    def _publish(
        self,
        kind: str,
        job_id: str,
        key: str,
        make: Callable[[], BaseModel],
        *,
        owner: str = "",
        for_others: Callable[[], BaseModel] | None = None,
    ) -> None:
        self._number += 1
        self._ring.append(_Event(self._number, kind, job_id, key, make, owner, for_others))
        self._news.set()

    # -- out ------------------------------------------------------------------------------------

    async def stream(
        self,
        last_id: str | None,
        *,
        job: str = "",
        still_allowed: Callable[[], bool] = lambda: True,
        whole: Callable[[str], bool] = lambda owner: False,
    ) -> AsyncIterator[str]:
        """Server-sent events after ``last_id``, until the hub closes or ``still_allowed`` says no (asked each 15 s).
        ``whole``: whether this reader may see all of that owner's jobs."""
        self.streams += 1
        try:
            yield f"retry: {_RETRY_MS}\n\n"
            at = self._place_of(last_id)
            if at is None:
                at = self._number
                yield self._reset_text(at, "connected" if not last_id else "too long away")
            quiet_since = self._clock.monotonic()
            while not self._closed:
                if at >= self._number:
                    await self._wait(quiet_since + _KEEP_ALIVE_S - self._clock.monotonic())
                    if self._closed:
                        return
                if at < self._number:
                    if self._ring[0].number > at + 1:
                        at = self._number
                        yield self._reset_text(at, "too many changes at once")
                        continue
                    batch, at = self._batch(at, job, whole)
                    if batch:
                        quiet_since = self._clock.monotonic()
                        yield batch
                if self._clock.monotonic() >= quiet_since + _KEEP_ALIVE_S:
                    if not still_allowed():
                        return
                    quiet_since = self._clock.monotonic()
                    # The id moves on even where nothing was for this reader, so that a resume starts here.
                    yield f": still here\nid: {self._epoch}-{at}\n\n"
        finally:
            self.streams -= 1

    def close(self) -> None:
        """Ends all streams; browsers come back by themselves."""
        self._closed = True
        self._news.set()

    def _place_of(self, last_id: str | None) -> int | None:
        epoch, _, number = (last_id or "").partition("-")
        if epoch != self._epoch or not number.isdecimal() or len(number) > 18 or int(number) > self._number:
            return None
        at = int(number)
        if at == self._number or (self._ring and self._ring[0].number <= at + 1):
            return at
        return None

    def _batch(self, at: int, job: str, whole: Callable[[str], bool]) -> tuple[str, int]:
        some = list(self._from(at + 1))
        last = {event.key: event.number for event in some}
        texts = []
        for event in some:
            mine = not job or not event.job_id or event.job_id == job
            if mine and last[event.key] == event.number and (data := event.rendered(whole)):
                texts.append(f"event: {event.kind}\nid: {self._epoch}-{event.number}\ndata: {data}\n\n")
        return "".join(texts), some[-1].number

    def _from(self, number: int) -> Iterator[_Event]:
        first = number - self._ring[0].number
        for index in range(first, min(first + _AT_ONCE, len(self._ring))):
            yield self._ring[index]

    def _reset_text(self, at: int, reason: str) -> str:
        data = json.dumps({"reason": reason})
        return f"event: reset\nid: {self._epoch}-{at}\ndata: {data}\n\n"

    async def _wait(self, seconds: float) -> None:
        # One event object serves all waiters. Whoever sees it set replaces it.
        if self._news.is_set() and not self._closed:
            self._news = asyncio.Event()
        await wait(self._news, seconds, self._clock)


def _on_pages(node: rm.Node) -> tuple[dict[str, Any], dict[str, Any]]:
    of_node = {field.name: value for field, value in node.ListFields() if field.name in NODE_FIELDS_ON_PAGES}
    of_status = {field.name: value for field, value in node.status.ListFields() if field.name in STATUS_FIELDS_ON_PAGES}
    return of_node, of_status


def _job(job: jm.Job) -> Callable[[], s.Job]:
    return lambda: wire.job(job)


def _job_for_others(job: jm.Job) -> Callable[[], s.Job]:
    return lambda: wire.job_for_others(wire.job(job))


def _task_event(job: jm.Job, task: jm.TaskView) -> Callable[[], s.TaskEvent]:
    return lambda: s.TaskEvent(job_id=job.id, task=wire.task(task, job_held=job.held))


def _task_for_others(make: Callable[[], s.TaskEvent]) -> Callable[[], s.TaskEvent]:
    def less() -> s.TaskEvent:
        event = make()
        return event.model_copy(update={"task": wire.task_for_others(event.task)})

    return less


def _attempt_event(view: tm.AttemptView) -> Callable[[], s.AttemptEvent]:
    task = view.attempt.task
    return lambda: s.AttemptEvent(job_id=task.job_id, task=task.name, attempt=wire.attempt(view))


def _attempt_for_others(make: Callable[[], s.AttemptEvent]) -> Callable[[], s.AttemptEvent]:
    def less() -> s.AttemptEvent:
        event = make()
        return event.model_copy(update={"attempt": wire.attempt_for_others(event.attempt)})

    return less
