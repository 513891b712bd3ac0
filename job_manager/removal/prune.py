"""Deletes all jobs that are older than somebody says, or tells what that would delete."""

from __future__ import annotations

from collections.abc import Sequence

from headway.clock import Clock
from headway.errors import HeadwayError, InvalidInput
from headway.logs import get_logger
from headway.model.retention import EndedJob
from headway.rpc.v1 import job_manager_pb2
from headway.store import Database

from .. import removal_store
from ..job_writer import JobWriter
from ..ports import TaskManagerPort
from . import log_sizes

log = get_logger(__name__)


class Pruning:
    """See the module. Jobs are chosen and marked some at a time, so nobody waits for long."""

    def __init__(self, db: Database, jobs: JobWriter, task_manager: TaskManagerPort, clock: Clock) -> None:
        self._db = db
        self._jobs = jobs
        self._task_manager = task_manager
        self._clock = clock

    async def prune(self, request: job_manager_pb2.PruneJobsRequest) -> job_manager_pb2.PruneJobsReply:
        """Goes through all jobs that ended long enough ago, those that ended first at first.

        Raises:
            InvalidInput: no age is asked for.
        """
        if not 0 < request.older_s < float("inf"):
            raise InvalidInput("An age is more than 0 seconds; nothing was deleted.")
        reply = job_manager_pb2.PruneJobsReply(ended_before=self._clock.now() - request.older_s)
        place = removal_store.FIRST
        while page := await self._page(place, request.owner, reply.ended_before):
            place = page[-1].ended_at, page[-1].id
            reply.pinned += sum(job.pinned for job in page)
            await self._count(reply, [job for job in page if not job.pinned], request)
        if reply.jobs and not request.dry_run:
            log.info("jobs.pruned", jobs=reply.jobs, owner=request.owner, by=request.by, older_s=request.older_s)
        return reply

    async def _page(self, place: removal_store.Place, owner: str, before: float) -> list[EndedJob]:
        return await self._db.read(
            lambda conn: removal_store.ended_after(conn, place, log_sizes.MOST_AT_ONCE, owner=owner, before=before)
        )

    async def _count(
        self,
        reply: job_manager_pb2.PruneJobsReply,
        page: Sequence[EndedJob],
        request: job_manager_pb2.PruneJobsRequest,
    ) -> None:
        sizes = {job.id: job.log_bytes for job in page}
        try:
            missing = [job.id for job in page if job.log_bytes is None]
            sizes |= await log_sizes.measure(self._db, self._task_manager, missing)
        except HeadwayError as error:
            log.info("prune.not_measured", reason=error.message)
        # Counted before they go: their rows may be gone a moment later.
        tasks = await self._db.read(lambda conn: removal_store.task_counts(conn, list(sizes)))
        chosen = set(sizes)
        if not request.dry_run:
            chosen = set(await self._jobs.remove(page, f"asked for by {request.by}"))
            if chosen != set(sizes):
                tasks = await self._db.read(lambda conn: removal_store.task_counts(conn, sorted(chosen)))
        reply.jobs += len(chosen)
        reply.tasks += tasks
        known = [taken for job_id in chosen if (taken := sizes[job_id]) is not None]
        reply.log_bytes += sum(known)
        reply.unmeasured += len(chosen) - len(known)
