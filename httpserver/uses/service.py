"""Which jobs need which images, datasets and snapshots of code, and who has used them.

```
await uses.hold(request_key, account, refs)      # durable, before JobManager is asked
await uses.confirm(request_key, job_id)          # it took the job
await uses.drop(request_key)                     # it refused, for sure
async with uses.deleting(ref):                   # no job can get hold of it now
    if not await uses.live(ref): remove it
```

``request_key`` is JobManager's request id (job_file.request_id). When nobody knows whether JobManager took the job,
neither confirm nor drop is called. Then the hold stays and JobManager is asked later. If it still does not know the
request after ten minutes, the hold ends by itself. Ends of jobs come from JobManager's watch. What the watch missed is
found by asking, at start, after each gap and every ten minutes.

The copy in memory decides, and the database follows. A hold is written before it counts as made. Everything else joins
the next write; if a crash takes it, it is found again by asking.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, select

from headway.clock import Clock
from headway.errors import Conflict, HeadwayError, Unavailable
from headway.logs import get_logger
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.states import JobState, TaskState
from headway.store.database import Database
from headway.waiting import wait

from . import store
from .hold_index import HoldIndex, Ref, ref_of, refs_of
from .jobs import JobLookup, JobSnapshot, job_now, needs
from .store import UseHold

__all__ = ["SUBMITTING", "AccountUse", "GoneMeanwhile", "Ref", "Uses"]

log = get_logger(__name__)

SUBMITTING = "a job being submitted"
_LOOK_EVERY_S = 60.0
_ASK_ALL_EVERY_S = 600.0
_UNKNOWN_ENDS_S = 600.0  # a request that JobManager does not know after so long will never reach it
_KEEP_ENDED_S = 86_400.0
_ENDS_REMEMBERED = 10_000
_SURE_OF = 20  # so many live jobs are asked after; with as many the answer is plain


@dataclass(frozen=True, slots=True)
class AccountUse:
    """How an account used it."""

    account: str
    jobs: int
    last_used_at: float


class GoneMeanwhile(Conflict):
    """Something that the job needs was deleted between its finding and its holding."""

    slug = "gone-meanwhile"
    title = "Something that this job needs was deleted just now; submit it again"


Exists = Callable[[str], Awaitable[bool]]


class Uses:
    """See the module. Call :meth:`load` before anything else; :meth:`run` is a side task."""

    def __init__(self, db: Database, clock: Clock, jobs: JobLookup) -> None:
        self._db = db
        self._clock = clock
        self._jobs = jobs
        self._memory = HoldIndex()
        self._deleting: dict[Ref, asyncio.Event] = {}
        self._exists: dict[str, Exists] = {}
        self._ended: OrderedDict[str, JobSnapshot] = OrderedDict()  # lately, of jobs that may still be confirmed
        self._freed: list[Callable[[Ref], None]] = []
        self._gap = asyncio.Event()
        self._asked_all_at: float | None = None

    async def load(self) -> None:
        """Reads what is stored."""
        for row in await self._db.read(store.load):
            self._memory.put(row)

    def check_exists(self, kind: str, exists: Exists) -> None:
        """How to see whether a key of ``kind`` is still there, asked at the end of each hold."""
        self._exists[kind] = exists

    def when_freed(self, call: Callable[[Ref], None]) -> None:
        """``call(ref)`` runs on the event loop whenever the last job that needed ``ref`` has ended."""
        self._freed.append(call)

    # -- submitting -----------------------------------------------------------------------------

    async def hold(self, request_key: str, account: str, refs: Iterable[Ref]) -> None:
        """The request needs these from now on, durably. Safe to call again with the same key.

        Raises:
            GoneMeanwhile: one of them is not there any more; nothing is held.
        """
        wanted = sorted(set(refs))
        while busy := [self._deleting[ref] for ref in wanted if ref in self._deleting]:
            await busy[0].wait()
        now = self._clock.now()
        new = [
            UseHold(request_key, ref.kind, ref.key, account, now, None, None)
            for ref in wanted
            if not self._memory.has(request_key, ref)
        ]
        for row in new:  # before the first await, so that a deletion which begins now sees them
            self._memory.put(row)
        try:
            if new:
                await self._db.write(lambda conn: store.add(conn, new))
            for ref in wanted:
                if not await self.is_there(ref):
                    raise GoneMeanwhile(
                        f"The {ref.kind} {ref.key} was deleted while this job was being submitted; submit it again.",
                        extra={"kind": ref.kind, "key": ref.key},
                    )
        except BaseException:
            for row in self._memory.open(request_key):
                self._memory.remove(row)
            self._db.defer(lambda conn: store.drop(conn, request_key))
            raise

    async def is_there(self, ref: Ref) -> bool:
        """Whether it can be held now."""
        exists = self._exists.get(ref.kind)
        return exists is None or await exists(ref.key)

    async def confirm(self, request_key: str, job_id: str, *, again: bool = False) -> None:
        """JobManager took the request as this job, or runs the job ``again`` by it. Safe to call again."""
        rows = self._memory.open(request_key)
        if not rows:
            return
        counted = [(row.kind, row.key, row.account) for row in rows if not self._memory.needs(job_id, ref_of(row))]
        for row in rows:
            self._memory.put(row._replace(job_id=job_id))
        now = self._clock.now()

        def work(conn: Connection) -> None:
            store.confirm(conn, request_key, job_id)
            for kind, key, account in counted:
                store.count(conn, kind, key, account, now, 1)

        await self._db.write(work)
        ended = self._ended.get(job_id)
        # It was over before its answer had come back. Of a job that runs again, the end that is known may be the one
        # before: that it has ended once more is found by asking, at the latest when somebody wants to delete.
        if ended is not None and not again:
            self._end(job_id, ended)

    async def drop(self, request_key: str) -> None:
        """JobManager refused the request, or was only asked for a check. Safe to call again."""
        gone = self._memory.open(request_key)
        for row in gone:
            self._memory.remove(row)
        if gone:
            await self._db.write(lambda conn: store.drop(conn, request_key))
            self._tell_freed(gone)

    # -- asking ---------------------------------------------------------------------------------

    def live_in_memory(self, ref: Ref) -> list[str]:
        """Like :meth:`live`, from memory alone: a job that ended a moment ago may still be in it."""
        rows = self._memory.of_ref(ref)
        ids = sorted({row.job_id for row in rows if row.job_id is not None})
        return [*ids, SUBMITTING] if any(row.job_id is None for row in rows) else ids

    async def live(self, ref: Ref) -> list[str]:
        """Ids of queued or running jobs that need it, and ``SUBMITTING`` for requests under way.

        JobManager is asked to be sure. While it does not answer, :meth:`live_in_memory` counts."""
        sure = 0
        for job_id in self.live_in_memory(ref):
            if job_id == SUBMITTING or sure >= _SURE_OF:
                continue
            try:
                now = await self._jobs.now(job_id)
            except Unavailable:
                break
            if now is None or now.ended:
                self._end(job_id, now)
            else:
                sure += 1
        return self.live_in_memory(ref)

    async def of(self, ref: Ref) -> list[AccountUse]:
        """Who has used it, the latest first."""
        table = store.totals
        query = select(table.c.account, table.c.jobs, table.c.last_used_at).where(
            (table.c.kind == ref.kind) & (table.c.key == ref.key)
        )
        rows = await self._db.read(lambda conn: conn.execute(query.order_by(table.c.last_used_at.desc())).all())
        return [AccountUse(row.account, row.jobs, row.last_used_at) for row in rows]

    @asynccontextmanager
    async def deleting(self, ref: Ref) -> AsyncIterator[None]:
        """While this is open nobody can hold ``ref``. Holders wait, and then see whether it still exists.

        Only one deletion of a thing runs at a time. Whoever deletes several takes them in sorted order.
        """
        while (other := self._deleting.get(ref)) is not None:
            await other.wait()
        mine = self._deleting[ref] = asyncio.Event()
        try:
            yield
        finally:
            del self._deleting[ref]
            mine.set()

    async def forget(self, ref: Ref) -> None:
        """Forgets who used it, once it is deleted for good."""
        await self._db.write(lambda conn: store.forget(conn, ref.kind, ref.key))

    # -- learning -------------------------------------------------------------------------------

    def on_jobs(self, changes: jm.JobChanges) -> None:
        """From JobManager's watch."""
        good: dict[str, tuple[str, float]] = {}
        for change in changes.changes:
            job = change.job
            try:
                now = job_now(job)
            except ValueError:
                continue  # a state of a newer JobManager
            if now.ended:
                self._ended[job.id] = now
                if len(self._ended) > _ENDS_REMEMBERED:
                    self._ended.popitem(last=False)
                self._end(job.id, now)
            else:
                self._ended.pop(job.id, None)
                self._revive(job.id)
                self._learn(job, change.tasks)
            for task in change.tasks:
                if task.state == TaskState.SUCCEEDED and task.image_source == common.IMAGE_SOURCE_MARKET:
                    good[task.image_digest] = (job.id, task.ended_at or self._clock.now())
        if good:
            self._db.defer(lambda conn: store.good_runs_of(conn, good))

    def gap(self) -> None:
        """Changes may have been missed, so all jobs are asked for soon."""
        self._asked_all_at = None
        self._gap.set()

    async def run(self) -> None:
        """Asks for what the watch did not report, until cancelled."""
        while True:
            self._gap.clear()
            try:
                await self.look()
            except HeadwayError as error:
                log.info("uses.not_asked", reason=error.message)
            await wait(self._gap, _LOOK_EVERY_S, self._clock)

    async def look(self) -> None:
        """One look at unconfirmed holds and, if it is due, at all jobs.

        Raises:
            Unavailable: JobManager does not answer; what was found until then stands.
        """
        now = self._clock.now()
        for request_key, account, held_at in self._memory.unconfirmed(now - _LOOK_EVERY_S):
            job_id = await self._jobs.known(account, request_key)
            if job_id is not None:
                log.info("uses.hold_confirmed", job=job_id, owner=account)
                await self.confirm(request_key, job_id)
            elif held_at < now - _UNKNOWN_ENDS_S:
                log.info("uses.hold_expired", owner=account)
                await self.drop(request_key)
        monotonic = self._clock.monotonic()
        if self._asked_all_at is not None and monotonic < self._asked_all_at + _ASK_ALL_EVERY_S:
            return
        live = await self._jobs.live()
        for job_id in self._memory.needing():
            if job_id not in live:
                state = await self._jobs.now(job_id)  # it may have been taken after the list was made
                if state is None or state.ended:
                    self._end(job_id, state)
        self._asked_all_at = monotonic
        self._prune(now - _KEEP_ENDED_S)

    # -- inside ---------------------------------------------------------------------------------

    def _learn(self, job: jm.Job, tasks: Iterable[jm.TaskView]) -> None:
        # A retry long after the end, or a job whose holds were lost: its tasks say what they need.
        seen = {Ref(kind, key) for kind, key in needs(job.owner, tasks)}
        new = []
        for ref in sorted(seen):
            held = any(row.job_id is None and row.account == job.owner for row in self._memory.of_ref(ref))
            if not held and not self._memory.needs(job.id, ref):
                new.append(UseHold(f"job:{job.id}", ref.kind, ref.key, job.owner, self._clock.now(), job.id, None))
        if not new:
            return
        for row in new:
            self._memory.put(row)

        def work(conn: Connection) -> None:
            store.add(conn, new)
            for row in new:
                store.count(conn, row.kind, row.key, row.account, row.held_at, 1)

        self._db.defer(work)

    def _end(self, job_id: str, now: JobSnapshot | None) -> None:
        rows = self._memory.of_job(job_id, ended=False)
        if not rows:
            return
        at = self._clock.now()
        if now is not None and now.ended_at is not None:
            at = now.ended_at
        for row in rows:
            self._memory.put(row._replace(ended_at=at))
        good = [row.key for row in rows if row.kind == "image"] if now and now.state is JobState.SUCCEEDED else []
        used = {(row.kind, row.key, row.account) for row in rows}

        def work(conn: Connection) -> None:
            store.end(conn, job_id, at)
            for kind, key, account in used:
                store.count(conn, kind, key, account, at, 0)
            for digest in good:
                store.good_run(conn, "image", digest, job_id, at)

        self._db.defer(work)
        self._tell_freed(rows)

    def _revive(self, job_id: str) -> None:
        ended = self._memory.of_job(job_id, ended=True)
        for row in ended:
            self._memory.put(row._replace(ended_at=None))
        if ended:
            self._db.defer(lambda conn: store.revive(conn, job_id))

    def _prune(self, before: float) -> None:
        old = self._memory.ended_before(before)
        for row in old:
            self._memory.remove(row)
        if old:
            self._db.defer(lambda conn: store.prune(conn, before))

    def _tell_freed(self, rows: Iterable[UseHold]) -> None:
        for ref in refs_of(rows):
            if not self._memory.of_ref(ref):
                for call in self._freed:
                    call(ref)
