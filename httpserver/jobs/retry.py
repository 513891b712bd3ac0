"""Retries of jobs and tasks. As a submission does, a retry holds what the tasks need before it asks JobManager.

So a deletion in the same moment either sees that the job needs the thing, or the retry sees that it is gone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing

from headway.errors import Conflict, HeadwayError, NotFound, TooManyWaiting
from headway.logs import get_logger
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.states import JOB_ENDED, TASK_FAILURES, JobState, TaskState

from ..peers.clients import ServiceClients
from ..uses.jobs import needs
from ..uses.service import GoneMeanwhile, Ref, Uses

log = get_logger(__name__)

_AGAIN = frozenset(state.value for state in TASK_FAILURES | {TaskState.CANCELLED})


class NeededGone(Conflict):
    """What a task was submitted with has been deleted since."""

    slug = "needed-gone"
    title = "Something that this job needs has been deleted"


class Retry:
    """See the module."""

    def __init__(self, services: ServiceClients, uses: Uses) -> None:
        self._services = services
        self._uses = uses

    async def of(
        self, job: jm.Job, task: str, key: str, send: Callable[[], Awaitable[jm.ActOnJobReply]]
    ) -> jm.ActOnJobReply:
        """Retries the job, or one of its tasks, by ``send``, under the request id ``key``. Returns JobManager's answer.

        Raises:
            NeededGone: what surely runs again needs something that was deleted; nothing was sent.
        """
        must, perhaps = await self._needed(job, task)
        # What only skipped tasks need is held if it is there: whether those run again, JobManager knows.
        there = [ref for ref in sorted(perhaps - must) if await self._uses.is_there(ref)]
        try:
            await self._uses.hold(key, job.owner, [*must, *there])
        except GoneMeanwhile as error:
            kind, what = error.extra["kind"], error.extra["key"].removeprefix(f"{job.owner}/")
            raise NeededGone(
                f"The job {job.id} can't run again as it was: the {kind} {what} that it was submitted with has been "
                "deleted. Put the same one there again, or submit the job anew with another.",
                extra=error.extra,
            ) from None
        try:
            reply = await send()
        except (Conflict, NotFound, TooManyWaiting):
            await self._uses.drop(key)
            raise
        try:
            if reply.tasks_changed:
                await self._uses.confirm(key, job.id, again=True)
            else:
                await self._uses.drop(key)
        except HeadwayError as error:
            # The job runs again, and the watch of JobManager reports that. The hold ends by itself.
            log.warning("retry.hold_not_confirmed", job=job.id, reason=error.message)
        return reply

    async def _needed(self, job: jm.Job, task: str) -> tuple[set[Ref], set[Ref]]:
        """What a retry surely needs, and what it perhaps needs.

        A job that has not ended holds all of its things already, also those that are hidden from everybody else.
        """
        must: set[Ref] = set()
        perhaps: set[Ref] = set()
        ended = JobState(job.state) in JOB_ENDED
        request = jm.GetJobRequest(job_id=job.id, with_tasks=True)
        async with aclosing(self._services.jobs.parts("GetJob", request)) as parts:
            async for part in parts:
                for view in part.tasks:
                    if not view.image and ended and view.state in _AGAIN and task in ("", view.name):
                        raise Conflict(
                            f"{job.id} was a program on the machine itself, which has ended: start it there again with "
                            "`headway gpu run`."
                        )
                    refs = {Ref(kind, key) for kind, key in needs(job.owner, [view])}
                    if ended and view.state in _AGAIN and task in ("", view.name):
                        must |= refs
                    elif view.state != TaskState.SUCCEEDED:
                        perhaps |= refs
        return must, perhaps
