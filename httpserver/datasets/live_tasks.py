"""Whether tasks of an account run. Running tasks see its home and may have open the files that it publishes."""

from __future__ import annotations

from headway.rpc.v1 import job_manager_pb2 as jm
from headway.states import JOB_ENDED, JobState, TaskState

from ..peers.clients import ServiceClients

_LIVE_TASKS = (TaskState.RUNNING.value, TaskState.STOPPING.value)
_PAGE = 500


class JobManagerRunningTasks:
    """``ports.RunningTaskLookup`` by asking JobManager."""

    def __init__(self, services: ServiceClients) -> None:
        self._services = services

    async def running(self, account: str) -> list[str]:
        states = [state.value for state in JobState if state not in JOB_ENDED]
        found: list[str] = []
        cursor = ""
        while True:
            request = jm.ListJobsRequest(owner=account, states=states, limit=_PAGE, cursor=cursor)
            reply = await self._services.jobs.call("ListJobs", request)
            found += [job.id for job in reply.jobs if any(job.tasks_by_state.get(state) for state in _LIVE_TASKS)]
            cursor = reply.next_cursor
            if not cursor:
                return found
