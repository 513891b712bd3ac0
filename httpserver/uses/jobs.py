"""What uses ask JobManager."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import aclosing
from typing import NamedTuple, Protocol

from headway.errors import NotFound
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.states import JOB_ENDED, JobState

from ..peers.clients import SUBMIT_S, ServiceClients

_PAGE = 500


class JobSnapshot(NamedTuple):
    """A job as far as uses matter."""

    state: JobState
    ended_at: float | None

    @property
    def ended(self) -> bool:
        return self.state in JOB_ENDED


class JobLookup(Protocol):
    """JobManager, as uses need it. Every method raises Unavailable when JobManager does not answer."""

    async def now(self, job_id: str) -> JobSnapshot | None:
        """The job; None when JobManager does not know it."""

    async def live(self) -> set[str]:
        """Ids of all jobs that have not ended."""

    async def known(self, account: str, request_key: str) -> str | None:
        """The job that this request made; None when it made none (yet)."""


class JobManagerLookup:
    """JobLookup over gRPC."""

    def __init__(self, services: ServiceClients) -> None:
        self._services = services

    async def now(self, job_id: str) -> JobSnapshot | None:
        try:
            async with aclosing(self._services.jobs.parts("GetJob", jm.GetJobRequest(job_id=job_id))) as parts:
                async for part in parts:
                    return job_now(part.job)
        except NotFound:
            return None
        return None

    async def live(self) -> set[str]:
        states = [state.value for state in JobState if state not in JOB_ENDED]
        found: set[str] = set()
        cursor = ""
        while True:
            request = jm.ListJobsRequest(states=states, limit=_PAGE, cursor=cursor)
            reply = await self._services.jobs.call("ListJobs", request)
            found.update(job.id for job in reply.jobs)
            cursor = reply.next_cursor
            if not cursor:
                return found

    async def known(self, account: str, request_key: str) -> str | None:
        header = jm.JobHeader(owner=common.Account(name=account), request_id=request_key, known_only=True)

        def parts() -> Iterator[jm.SubmitJobPart]:
            yield jm.SubmitJobPart(header=header)

        reply = await self._services.jobs.upload("SubmitJob", parts, deadline_s=SUBMIT_S, request_id=request_key)
        return reply.job_id or None


def job_now(job: jm.Job) -> JobSnapshot:
    """What matters of a job."""
    return JobSnapshot(JobState(job.state), job.ended_at if job.HasField("ended_at") else None)


def needs(owner: str, tasks: Iterable[jm.TaskView]) -> Iterator[tuple[str, str]]:
    """Kind and key of all that the tasks were pinned to."""
    for task in tasks:
        if task.image_source == common.IMAGE_SOURCE_MARKET and task.image_digest:
            yield "image", task.image_digest
        for pin in task.datasets:
            yield "dataset", f"{pin.name}@{pin.version}"
        if task.code:
            yield "code", f"{owner}/{task.code}"
