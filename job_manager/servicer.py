"""JobManager's gRPC service: messages in, answers out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from sqlalchemy import Connection

from headway.clock import Clock
from headway.errors import InvalidInput, NotFound
from headway.ids import SHORTEST_END, first_job_id
from headway.model.retention import RetentionRules
from headway.rpc import convert
from headway.rpc.chunks import in_parts
from headway.rpc.v1 import common_pb2, job_manager_pb2
from headway.rpc.v1.job_manager_pb2_grpc import JobManagerServicer
from headway.states import TASK_ENDED, JobState
from headway.store import Database

from . import removal_store, store, wire
from .comparing.comparison import Comparison
from .hub import JobEventHub
from .job import JobRecord
from .job_writer import ActionName, JobWriter, not_there
from .removal.prune import Pruning
from .unknown_task import NAMES_COMPARED, unknown_task

_PAGE = 50
_PAGE_AT_MOST = 500
# So far a list is counted.
_COUNTED = 1_000
_RESOLVED_AT_MOST = 10
# For so long the end of a job's id does for the whole.
_ENDS_FOR_S = 7 * 86_400.0
# A part of a stream: far below gRPC's 4 MB, and parsed in a few milliseconds.
_PART_BYTES = 500_000

_ACTIONS: dict[int, ActionName] = {
    job_manager_pb2.ActOnJobRequest.ACTION_CANCEL: "cancel",
    job_manager_pb2.ActOnJobRequest.ACTION_RETRY: "retry",
    job_manager_pb2.ActOnJobRequest.ACTION_HOLD: "hold",
    job_manager_pb2.ActOnJobRequest.ACTION_RELEASE: "release",
    job_manager_pb2.ActOnJobRequest.ACTION_PIN: "pin",
    job_manager_pb2.ActOnJobRequest.ACTION_UNPIN: "unpin",
    job_manager_pb2.ActOnJobRequest.ACTION_DELETE: "delete",
}


class JobManagerService(JobManagerServicer):
    """See proto/headway/rpc/v1/job_manager.proto for what each call promises."""

    def __init__(
        self,
        db: Database,
        jobs: JobWriter,
        hub: JobEventHub,
        comparison: Comparison,
        pruning: Pruning,
        clock: Clock,
    ) -> None:
        self._db = db
        self._jobs = jobs
        self._hub = hub
        self._comparison = comparison
        self._pruning = pruning
        self._clock = clock

    async def SubmitJob(
        self, request_iterator: AsyncIterator[job_manager_pb2.SubmitJobPart], context: Any
    ) -> job_manager_pb2.SubmitJobReply:
        header: job_manager_pb2.JobHeader | None = None
        specs: list[common_pb2.TaskSpec] = []
        async for part in request_iterator:
            if part.HasField("header"):
                header = part.header
            specs.extend(part.tasks)
        if header is None:
            raise InvalidInput("A submission starts with its header.")
        answer = await self._jobs.submit(header, specs)
        return job_manager_pb2.SubmitJobReply(
            job_id=answer.job_id,
            problems=[convert.problem_to_pb(problem) for problem in answer.problems],
            order=answer.order,
            already_known=answer.already_known,
            warnings=answer.warnings,
        )

    async def ListJobs(self, request: job_manager_pb2.ListJobsRequest, context: Any) -> job_manager_pb2.ListJobsReply:
        limit = min(request.limit or _PAGE, _PAGE_AT_MOST)
        for state in request.states:
            if state not in JobState.__members__:
                raise InvalidInput(f"There is no job state {state!r}; there are {', '.join(JobState)}.")
        found, count = await self._db.read(lambda conn: _page_of_jobs(conn, request, limit, self._jobs))
        more = len(found) > limit
        page = found[:limit]
        return job_manager_pb2.ListJobsReply(jobs=page, next_cursor=page[-1].id if more else "", count=count)

    async def GetJob(
        self, request: job_manager_pb2.GetJobRequest, context: Any
    ) -> AsyncIterator[job_manager_pb2.JobPart]:
        job, tasks = await self._db.read(lambda conn: _job_and_tasks(conn, request, self._jobs))
        yield job_manager_pb2.JobPart(job=job, notices=self._comparison.notices(job.id))
        for part in in_parts(tasks, max_bytes=_PART_BYTES):
            yield job_manager_pb2.JobPart(tasks=part)

    async def GetJobSpec(
        self, request: job_manager_pb2.GetJobRequest, context: Any
    ) -> AsyncIterator[job_manager_pb2.SubmitJobPart]:
        header, specs = await self._db.read(lambda conn: _header_and_specs(conn, request, self._jobs.rules))
        yield job_manager_pb2.SubmitJobPart(header=header)
        for part in in_parts(specs, max_bytes=_PART_BYTES):
            yield job_manager_pb2.SubmitJobPart(tasks=part)

    async def ResolveJob(
        self, request: job_manager_pb2.ResolveJobRequest, context: Any
    ) -> job_manager_pb2.ResolveJobReply:
        prefix = request.prefix.lower()
        if not prefix:
            raise InvalidInput("Give the start of a job's id.")
        steady = self._jobs.steady()  # as the ids are
        since = first_job_id((self._clock.now() if steady is None else steady[1]) - _ENDS_FOR_S)

        def find(conn: Connection) -> list[str]:
            for owner in dict.fromkeys((request.owner, "")):
                if found := store.resolve(conn, prefix, owner, _RESOLVED_AT_MOST):
                    return list(found)
            if len(prefix) < SHORTEST_END:
                return []
            for owner in dict.fromkeys((request.owner, "")):
                if found := store.resolve_end(conn, prefix, since, owner, _RESOLVED_AT_MOST):
                    return list(found)
            return []

        return job_manager_pb2.ResolveJobReply(job_ids=await self._db.read(find))

    async def ActOnJob(self, request: job_manager_pb2.ActOnJobRequest, context: Any) -> job_manager_pb2.ActOnJobReply:
        action = _ACTIONS.get(request.action)
        if action is None:
            raise InvalidInput(f"JobManager knows no action number {request.action}.")
        acted = await self._jobs.act(request.job_id, request.task, action, request_id=request.request_id, by=request.by)
        return job_manager_pb2.ActOnJobReply(job=acted.record, tasks_changed=acted.tasks_changed)

    async def PruneJobs(
        self, request: job_manager_pb2.PruneJobsRequest, context: Any
    ) -> job_manager_pb2.PruneJobsReply:
        return await self._pruning.prune(request)

    async def HoldAccounts(
        self, request: job_manager_pb2.HoldAccountsRequest, context: Any
    ) -> job_manager_pb2.HoldAccountsReply:
        changed = await self._jobs.hold_accounts(set(request.accounts))
        return job_manager_pb2.HoldAccountsReply(tasks_changed=changed)

    async def CheckWaiting(
        self, request: job_manager_pb2.CheckWaitingRequest, context: Any
    ) -> job_manager_pb2.CheckWaitingReply:
        await self._jobs.check_waiting(request.owner, request.tasks)
        return job_manager_pb2.CheckWaitingReply()

    async def WatchJobs(
        self, request: job_manager_pb2.WatchJobsRequest, context: Any
    ) -> AsyncIterator[job_manager_pb2.JobChanges]:
        with self._hub.watch() as watch:
            # An empty message tells the watcher that from here on nothing is missed.
            yield job_manager_pb2.JobChanges()
            while True:
                yield await watch.next()

    async def ReportTaskEvents(
        self, request: job_manager_pb2.ReportTaskEventsRequest, context: Any
    ) -> job_manager_pb2.ReportTaskEventsReply:
        events = [event for message in request.events if (event := wire.event_from_pb(message)) is not None]
        await self._jobs.report(events)
        return job_manager_pb2.ReportTaskEventsReply()


def _no_task(conn: Connection, record: JobRecord, name: str) -> NotFound:
    return unknown_task(record.id, name, store.task_names(conn, record.id, NAMES_COMPARED), record.task_count)


def _page_of_jobs(
    conn: Connection, request: job_manager_pb2.ListJobsRequest, limit: int, jobs: JobWriter
) -> tuple[list[job_manager_pb2.Job], job_manager_pb2.ListJobsReply.Count | None]:
    """A page and one job more, which tells whether there is another page; and how many there are in all."""
    records = store.list_jobs(
        conn,
        owner=request.owner,
        states=request.states,
        query=request.query,
        limit=limit + 1,
        before=request.cursor,
        oldest_first=request.oldest_first,
    )
    found = [jobs.aging.shown(record) for record in records]
    if not request.count:
        return found, None
    in_all, running = store.count_jobs(
        conn, owner=request.owner, states=request.states, query=request.query, at_most=_COUNTED + 1
    )
    count = job_manager_pb2.ListJobsReply.Count(
        jobs=min(in_all, _COUNTED), running=min(running, _COUNTED), more=in_all > _COUNTED
    )
    return found, count


def _job_and_tasks(
    conn: Connection, request: job_manager_pb2.GetJobRequest, jobs: JobWriter
) -> tuple[job_manager_pb2.Job, list[job_manager_pb2.TaskView]]:
    record = _record(conn, request.job_id, jobs.rules)
    if not request.with_tasks and not request.task_names:
        return jobs.aging.shown(record), []
    wanted = set(request.task_names)
    chosen = rows = store.load_tasks(conn, record.id, wanted, request.tasks_offset, request.tasks_limit)
    missing = wanted - {row.name for row in chosen}
    if missing:
        raise _no_task(conn, record, min(missing))
    blobs = store.load_specs(conn, record.id, [row.number for row in chosen])
    specs = {number: common_pb2.TaskSpec.FromString(blob) for number, blob in blobs.items()}
    if len(chosen) < record.task_count and (needed := {need.task for spec in specs.values() for need in spec.needs}):
        rows = store.load_tasks(conn, record.id, needed)
    running = {row.name for row in rows if row.state not in TASK_ENDED}
    tasks = []
    for row in chosen:
        spec = specs[row.number]
        waits_for = [need.task for need in spec.needs if need.task in running]
        tasks.append(wire.task_to_pb(spec, row.state, row.record, waits_for))
    return jobs.aging.shown(record), tasks


def _header_and_specs(
    conn: Connection, request: job_manager_pb2.GetJobRequest, rules: RetentionRules
) -> tuple[job_manager_pb2.JobHeader, list[common_pb2.TaskSpec]]:
    record = _record(conn, request.job_id, rules)
    header = job_manager_pb2.JobHeader(
        owner=common_pb2.Account.FromString(record.account),
        request_id=record.request_id or "",
        name=record.name,
        priority=convert.priority_to_pb(record.priority),
        spec_hash=record.spec_hash,
        task_count=record.task_count,
    )
    numbers: list[int] | None = None
    if wanted := set(request.task_names):
        chosen = store.load_tasks(conn, record.id, wanted)
        if missing := wanted - {row.name for row in chosen}:
            raise _no_task(conn, record, min(missing))
        numbers = [row.number for row in chosen]
    specs = store.load_specs(conn, record.id, numbers)
    return header, [common_pb2.TaskSpec.FromString(specs[number]) for number in sorted(specs)]


def _record(conn: Connection, job_id: str, rules: RetentionRules) -> JobRecord:
    record = store.load_record(conn, job_id)
    if record is None or removal_store.is_marked(conn, job_id):
        raise NotFound(not_there(conn, job_id, rules))
    return record
