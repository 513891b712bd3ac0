"""Jobs as people see them: JobManager's jobs and tasks, with TaskManager's attempts and places in the queue.

Everybody who is signed in sees all jobs with their states, times and reasons. The queue is shared, so the answer to
"why does mine wait" names other people's jobs. Only the owner and admins see a job's spec, its pinned contents and its
logs, and only they may act on it.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Literal

from headway.errors import Conflict, InvalidInput, NotAllowed, NotFound, Problem
from headway.ids import SHORTEST_END, is_job_id, is_task_name
from headway.logs import get_logger
from headway.model.retention import parse_age
from headway.rpc import convert
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.states import JobState
from headway.units import parse_duration

from .. import bookings, wire
from .. import schemas as s
from ..auth.model import Account
from ..peers.clients import ACT_S, SUBMIT_S, ServiceClients
from ..uses.service import Uses
from . import decisions, detail, job_file
from .detail import LiveTaskDetails
from .job_file_process import JobFileProcess
from .retry import Retry

log = get_logger(__name__)

Action = Literal["cancel", "retry", "hold", "release", "pin", "unpin", "delete"]

_ACTIONS = {
    "cancel": jm.ActOnJobRequest.ACTION_CANCEL,
    "retry": jm.ActOnJobRequest.ACTION_RETRY,
    "hold": jm.ActOnJobRequest.ACTION_HOLD,
    "release": jm.ActOnJobRequest.ACTION_RELEASE,
    "pin": jm.ActOnJobRequest.ACTION_PIN,
    "unpin": jm.ActOnJobRequest.ACTION_UNPIN,
    "delete": jm.ActOnJobRequest.ACTION_DELETE,
}
_ID_START = re.compile(r"[0-9a-z]{1,17}")
# A spec of so many bytes is written as text here, in a thread; a larger one where it holds nobody up.
_INLINE_BYTES = 100_000


class Jobs:
    """See the module."""

    def __init__(self, services: ServiceClients, process: JobFileProcess, uses: Uses) -> None:
        self._services = services
        self._process = process
        self._retry = Retry(services, uses)

    # -- finding --------------------------------------------------------------------------------

    async def resolve(self, ref: str, account: Account | None = None) -> str:
        """The whole id for an id, its start, or its last five or more characters while it is a week old at most. The
        account's own jobs win over others.

        Raises:
            NotFound: there is none.
            Conflict: there are several.
        """
        ref = ref.lower()
        if is_job_id(ref):
            return ref
        if not _ID_START.fullmatch(ref):
            raise NotFound(f"There is no job `{ref[:64]}`.")
        request = jm.ResolveJobRequest(prefix=ref, owner=account.name if account else "")
        found: Sequence[str] = (await self._services.jobs.call("ResolveJob", request)).job_ids
        if not found:
            ends = " or, for a week, ends" if len(ref) >= SHORTEST_END else ""
            raise NotFound(f"There is no job whose id starts{ends} with `{ref}`.")
        if len(found) > 1:
            raise Conflict(f"Several jobs have `{ref}` in their ids: {', '.join(found)}. Give more of the id.")
        return found[0]

    async def header(self, job_id: str) -> jm.Job:
        """The job alone.

        Raises:
            NotFound: there is none.
        """
        async with aclosing(self._services.jobs.parts("GetJob", jm.GetJobRequest(job_id=job_id))) as parts:
            async for part in parts:
                job: jm.Job = part.job
                return job
        raise NotFound(f"There is no job `{job_id}`.")

    async def own(self, account: Account, ref: str) -> jm.Job:
        """The job, if it is the account's own or the account is an admin.

        Raises:
            NotAllowed: it is somebody else's.
        """
        job = await self.header(await self.resolve(ref, account))
        if not may_see_all(account, job.owner):
            raise NotAllowed(f"The job {job.id} belongs to {job.owner}; only {job.owner} or an admin may do that.")
        return job

    async def own_task(self, account: Account, ref: str, name: str) -> tuple[jm.Job, jm.TaskView]:
        """A task of a job that is the account's own, or anybody's for an admin.

        Raises:
            NotAllowed: it is somebody else's.
            NotFound: no such job or task.
        """
        job_id = await self.resolve(ref, account)
        job, found = await self._one(job_id, name if is_task_name(name) else "-")
        if job is not None and not may_see_all(account, job.owner):
            raise NotAllowed(f"The job {job.id} belongs to {job.owner}; only {job.owner} or an admin may do that.")
        if job is None or found is None:
            raise NotFound(f"The job {job_id} has no task `{name[:64]}`.")
        return job, found

    async def _one(self, job_id: str, name: str) -> tuple[jm.Job | None, jm.TaskView | None]:
        request = jm.GetJobRequest(job_id=job_id, with_tasks=True, task_names=[name])
        job: jm.Job | None = None
        found: jm.TaskView | None = None
        async with aclosing(self._services.jobs.parts("GetJob", request)) as parts:
            async for part in parts:
                job = part.job if part.HasField("job") else job
                found = next((task for task in part.tasks if task.name == name), found)
        return job, found

    # -- looking --------------------------------------------------------------------------------

    async def page(
        self,
        account: Account,
        *,
        states: Sequence[JobState],
        owner: str,
        query: str,
        limit: int,
        cursor: str,
        oldest_first: bool = False,
        count: bool = False,
    ) -> s.JobList:
        """One page, newest first."""
        request = jm.ListJobsRequest(
            owner=owner,
            states=[state.value for state in states],
            query=query,
            limit=limit,
            cursor=cursor,
            oldest_first=oldest_first,
            count=count,
        )
        reply, booked = await asyncio.gather(
            self._services.jobs.call("ListJobs", request),
            bookings.ask(self._services, patience_s=bookings.JOBS_PATIENCE_S),
        )
        jobs = [job for message in reply.jobs if (job := _shown(message, account)) is not None]
        return s.JobList(
            jobs=jobs,
            next_cursor=reply.next_cursor or None,
            gpus_booked=bookings.of_jobs(booked, (job.id for job in jobs)),
            # A JobManager of before does not count.
            count=s.JobCount(jobs=reply.count.jobs, running=reply.count.running, more=reply.count.more)
            if reply.HasField("count")
            else None,
        )

    async def detail(
        self, ref: str, *, account: Account, limit: int, offset: int, attempts: bool
    ) -> AsyncIterator[str]:
        """A JobDetail as JSON, piece by piece; see ``detail``.

        The job has been found when this returns; a later failure breaks the answer off.
        """
        job_id = await self.resolve(ref, account)
        request = jm.GetJobRequest(job_id=job_id, with_tasks=limit > 0, tasks_offset=offset, tasks_limit=limit)
        parts = self._services.jobs.parts("GetJob", request)
        try:
            first = await anext(parts, None)
        except BaseException:
            await parts.aclose()
            raise
        if first is None:
            raise NotFound(f"There is no job `{ref}`.")
        return detail.pieces(
            first.job,
            _tasks(first, parts),
            LiveTaskDetails(self._services, job_id),
            offset=offset,
            ask=attempts,
            whole=may_see_all(account, first.job.owner),
            notices=first.notices,
        )

    async def history(
        self, ref: str, name: str, *, account: Account, limit: int, before: int
    ) -> decisions.DecisionList:
        """The passes that started something while a task waited; see ``decisions``."""
        job_id = await self.resolve(ref, account)
        if not is_task_name(name):
            raise NotFound(f"The job has no task `{name[:64]}`.")
        try:
            return await decisions.of_task(self._services, job_id, name, limit=limit, before=before)
        except NotFound:
            await self.header(job_id)  # knows whether the job was deleted
            raise

    async def task(self, ref: str, name: str, *, account: Account) -> s.TaskDetail:
        """One task with its attempts and why it waits.

        Raises:
            NotFound: no such job or task.
        """
        job_id = await self.resolve(ref, account)
        if not is_task_name(name):
            raise NotFound(f"The job has no task `{name[:64]}`.")
        job, found = await self._one(job_id, name)
        if job is None or found is None:
            raise NotFound(f"The job {job_id} has no task `{name}`.")
        details = LiveTaskDetails(self._services, job_id)
        await details.ask_one(found)
        header, shown = wire.job(job), details.shown(found, job_held=job.held)
        whole = may_see_all(account, job.owner)
        if not whole:
            header, shown = wire.job_for_others(header), wire.task_for_others(shown)
            return s.TaskDetail(job=header, task=shown, spec=None, missing=details.missing)
        spec = await self._spec_of(job_id, name)
        return s.TaskDetail(job=header, task=shown, spec=spec, missing=details.missing)

    async def _spec_of(self, job_id: str, name: str) -> s.SubmittedTask | None:
        request = jm.GetJobRequest(job_id=job_id, task_names=[name])
        async with aclosing(self._services.jobs.parts("GetJobSpec", request)) as parts:
            # A JobManager of before sends all tasks.
            async for part in parts:
                for message in part.tasks:
                    if message.name == name:
                        return wire.task_spec(message)
        return None

    async def check_task(self, job_id: str, name: str) -> None:
        """
        Raises:
            NotFound: the job has no task of this name.
        """
        request = jm.GetJobRequest(job_id=job_id, task_names=[name])
        async with aclosing(self._services.jobs.parts("GetJob", request)) as parts:
            async for _ in parts:
                return

    async def attempts(self, job_id: str) -> Mapping[str, Sequence[tm.AttemptView]]:
        """All attempts of a job by task name, oldest first; see ``detail``."""
        return await detail.attempts(self._services, job_id)

    # -- the owner's own ------------------------------------------------------------------------

    async def spec(self, account: Account, ref: str, form: Literal["json", "yaml"]) -> str:
        """The job file as text that reads back equal.

        Raises:
            NotAllowed: somebody else's job.
            Conflict: it runs in no container.
        """
        job = await self.own(account, ref)
        async with aclosing(self._services.jobs.parts("GetJobSpec", jm.GetJobRequest(job_id=job.id))) as parts:
            found = [part async for part in parts]
        if any(task.HasField("local") for part in found for task in part.tasks):
            raise Conflict(
                f"{job.id} is a program on the machine itself, so it has no job file: start it there again with "
                "`headway gpu run`."
            )
        messages = [part.SerializeToString() for part in found]
        asked = (tuple(messages), job.name, convert.priority(job.priority).value, form)
        if sum(map(len, messages)) <= _INLINE_BYTES:
            return await asyncio.to_thread(job_file.as_text, *asked)
        text: str = await self._process.call("as_text", *asked, turn=account.name)
        return text

    async def act(self, account: Account, ref: str, action: Action, task: str = "") -> s.Acted:
        """Cancel, retry, hold or release; of a whole job also pin, unpin or delete. Idempotent.

        Raises:
            NotAllowed: somebody else's job.
            NotFound: no such job or task.
            Conflict: a job is to be deleted that has not ended, or is pinned.
            NeededGone: a retry of what was deleted meanwhile.
            TooManyWaiting: a retry of more tasks than may wait beside those that do.
        """
        job = await self.own(account, ref)
        if task and not is_task_name(task):
            raise NotFound(f"The job {job.id} has no task `{task[:64]}`.")
        request = jm.ActOnJobRequest(
            job_id=job.id, task=task, action=_ACTIONS[action], request_id=secrets.token_hex(16), by=account.name
        )

        async def send() -> jm.ActOnJobReply:
            answer: jm.ActOnJobReply = await self._services.jobs.call(
                "ActOnJob", request, deadline_s=ACT_S, request_id=request.request_id
            )
            return answer

        reply = await (self._retry.of(job, task, request.request_id, send) if action == "retry" else send())
        log.info("job.acted", job=job.id, task=task, action=action, by=account.name, tasks=reply.tasks_changed)
        return s.Acted(job=wire.job(reply.job), tasks_changed=reply.tasks_changed)

    async def prune(self, account: Account, wish: s.Prune) -> s.Pruned:
        """Deletes some of the ended jobs that are old enough, or tells what that would delete.

        Raises:
            NotAllowed: somebody else's jobs.
            InvalidInput: ``older`` is no age.
        """
        owner = account.name if wish.owner == "me" else wish.owner
        if not may_see_all(account, owner):
            raise NotAllowed("Only an admin may delete the jobs of others; leave `owner` out for your own.")
        try:
            older_s = parse_age(wish.older)
        except ValueError as error:
            raise InvalidInput(f"older: {error}", problems=[Problem("/older", str(error), word=wish.older)]) from error
        request = jm.PruneJobsRequest(
            older_s=older_s, owner=owner, dry_run=wish.dry_run, by=account.name, cursor=wish.cursor
        )
        reply = await self._services.jobs.call("PruneJobs", request, deadline_s=SUBMIT_S)
        return s.Pruned(
            jobs=reply.jobs,
            tasks=reply.tasks,
            log_bytes=reply.log_bytes,
            unmeasured=reply.unmeasured,
            pinned=reply.pinned,
            ended_before=reply.ended_before,
            next_cursor=reply.next_cursor or None,
        )

    async def extend(
        self, account: Account, ref: str, task: str, *, by: str, force: bool, key: str | None
    ) -> s.Extended:
        """Gives a running task more time; idempotent on ``key``.

        Raises:
            NotAllowed: somebody else's job, or ``force`` by who is no admin.
            Conflict: it does not run, or gets no more.
            InvalidInput: ``by`` is no duration.
        """
        try:
            seconds = parse_duration(by)
        except ValueError as error:
            message = str(error)
            raise InvalidInput(f"by: {message}", problems=[Problem("/by", message, word=by)]) from error
        if force and not account.admin:
            raise NotAllowed(
                "Only an admin may give time that is promised to others or kept for short tasks; leave out `force`."
            )
        job = await self.own(account, ref)
        if not is_task_name(task):
            raise NotFound(f"The job {job.id} has no task `{task[:64]}`.")
        request = tm.ExtendTaskRequest(
            task=common.Task(job_id=job.id, name=task),
            seconds=seconds,
            by=account.name,
            force=force,
            # Made once per call, so that a try again inside this call is the same request.
            request_id=job_file.request_id(account.name, key or secrets.token_hex(16)),
        )
        try:
            reply = await self._services.tasks.call("ExtendTask", request, deadline_s=ACT_S)
        except NotFound:
            # The queue knows a task once its needs are met; JobManager knows whether there is one at all.
            state = (await self.task(job.id, task, account=account)).task.state
            raise Conflict(
                f"The task {job.id}/{task} is {state.value} and does not run; its timeout counts from its start."
            ) from None
        log.info("task.extended", job=job.id, task=task, by=account.name, seconds=seconds, delivered=reply.delivered)
        return s.Extended(attempt=wire.attempt(reply.attempt), delivered=reply.delivered, sentence=reply.sentence)


def may_see_all(account: Account, owner: str) -> bool:
    """Whether this account may see the spec and the pinned contents of that owner's jobs."""
    return account.admin or account.name == owner


async def _tasks(first: jm.JobPart, rest: AsyncIterator[jm.JobPart]) -> AsyncIterator[Sequence[jm.TaskView]]:
    if first.tasks:
        yield list(first.tasks)
    async for part in rest:
        yield list(part.tasks)


def _shown(message: jm.Job, account: Account) -> s.Job | None:
    try:
        job = wire.job(message)
        return job if may_see_all(account, job.owner) else wire.job_for_others(job)
    except (ValueError, KeyError) as error:
        # One row that can't be shown must not hide all others.
        log.error("job.not_shown", job=message.id, exc=error)
        return None
