"""Deletes all jobs that are older than somebody says, or tells what that would delete."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from headway.errors import HeadwayError, InvalidInput
from headway.ids import is_job_id
from headway.logs import get_logger
from headway.model.retention import EndedJob
from headway.rpc.v1 import job_manager_pb2
from headway.store import Database

from .. import removal_store
from ..job_writer import JobWriter
from ..ports import TaskManagerPort
from . import log_sizes

log = get_logger(__name__)

_PAGES_A_CALL = 5
_INSTANT = re.compile(r"[0-9]{1,16}(\.[0-9]{1,16})?", re.ASCII)  # no sign, no exponent, neither inf nor nan


class Pruning:
    """See the module. Jobs are chosen and marked some at a time, so nobody waits for long."""

    def __init__(self, db: Database, jobs: JobWriter, task_manager: TaskManagerPort) -> None:
        self._db = db
        self._jobs = jobs
        self._task_manager = task_manager

    async def prune(self, request: job_manager_pb2.PruneJobsRequest) -> job_manager_pb2.PruneJobsReply:
        """Goes through some of the jobs that ended long enough ago, those that ended first at first.

        Raises:
            InvalidInput: no age is asked for, or the cursor is none.
        """
        if not 0 < request.older_s < math.inf:
            raise InvalidInput("An age is more than 0 seconds; nothing was deleted.")
        before, place = self._jobs.aging.now() - request.older_s, removal_store.FIRST
        if request.cursor:
            # It comes from outside. It may leave out more jobs, but lets go none that is not old enough.
            began, place = _read_cursor(request.cursor)
            before = min(began, before)
        reply = job_manager_pb2.PruneJobsReply(ended_before=self._jobs.aging.on_the_wall(before))
        for _ in range(_PAGES_A_CALL):
            page = await self._page(place, request.owner, before)
            if not page:
                reply.next_cursor = ""
                break
            place = page[-1].ages_from, page[-1].id
            reply.next_cursor = f"{before!r} {place[0]!r} {place[1]}"
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
            chosen = set(await self._jobs.remove(page, by=request.by, older_s=request.older_s))
        reply.jobs += len(chosen)
        reply.tasks += sum(tasks.get(job_id, 0) for job_id in chosen)
        known = [taken for job_id in chosen if (taken := sizes[job_id]) is not None]
        reply.log_bytes += sum(known)
        reply.unmeasured += len(chosen) - len(known)


def _read_cursor(cursor: str) -> tuple[float, removal_store.Place]:
    parts = cursor.split(" ")
    if len(parts) == 3 and all(_INSTANT.fullmatch(part) for part in parts[:2]) and is_job_id(parts[2]):
        before, ended = float(parts[0]), float(parts[1])
        if ended <= before < math.inf:
            return before, (ended, parts[2])
    raise InvalidInput("The cursor is none that a reply gave; nothing was deleted.")
