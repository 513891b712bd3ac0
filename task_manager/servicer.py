"""TaskManager's gRPC service."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from headway.ids import JobId, NodeId
from headway.logs import get_logger
from headway.rpc import convert
from headway.rpc.v1 import task_manager_pb2 as pb
from headway.rpc.v1.task_manager_pb2_grpc import TaskManagerServicer
from headway.trust.caller import require_node

from . import wire
from .answers.advice_queries import TimeoutAdvisor
from .answers.comparison_queries import ComparisonQueries
from .answers.decision_log import DecisionLog
from .answers.drain_preview import drain_preview
from .answers.extension_requests import ExtensionRequests
from .answers.preview_queries import PreviewQueries
from .answers.queries import QueueQueries
from .answers.usage_queries import UsageQueries
from .answers.work_on_nodes import WorkOnNodes
from .engine.engine import Engine
from .engine.events import ExtendTask, HeartbeatReply, NodeDeclaredLost, ServicesAgree, SetScheduling
from .engine.removal import JobRemoval
from .hub import QueueEventHub

log = get_logger(__name__)

_VIEWS_IN_ONE_MESSAGE = 100  # they take a few milliseconds; then other calls get their turn
_CHANGES_EVERY_S = 0.25  # a short task changes several times in that, and pages need only the last


class TaskManagerService(TaskManagerServicer):
    """Takes calls, and passes them on; it decides nothing."""

    def __init__(
        self,
        engine: Engine,
        queries: QueueQueries,
        hub: QueueEventHub,
        extensions: ExtensionRequests,
        timeout_advisor: TimeoutAdvisor,
        previews: PreviewQueries,
        decisions: DecisionLog,
        usage: UsageQueries,
        comparisons: ComparisonQueries,
        removal: JobRemoval,
        work_on_nodes: WorkOnNodes,
    ) -> None:
        self._engine = engine
        self._queries = queries
        self._extensions = extensions
        self._timeout_advisor = timeout_advisor
        self._previews = previews
        self._decisions = decisions
        self._usage = usage
        self._comparisons = comparisons
        self._removal = removal
        self._work_on_nodes = work_on_nodes
        self._hub = hub

    async def ApplyTaskCommands(self, request: pb.ApplyTaskCommandsRequest, context: Any) -> pb.ApplyTaskCommandsReply:
        await self._engine.submit(wire.commands(request))
        return pb.ApplyTaskCommandsReply()

    async def CompareTasks(
        self, request_iterator: AsyncIterator[pb.CompareTasksRequest], context: Any
    ) -> pb.CompareTasksReply:
        return await self._comparisons.compare(request_iterator)

    async def ConfirmTasks(self, request: pb.ConfirmTasksRequest, context: Any) -> AsyncIterator[pb.ConfirmTasksReply]:
        await self._engine.submit(ServicesAgree())
        yield pb.ConfirmTasksReply()
        await self._hub.wait_closed()

    async def CheckResources(self, request: pb.CheckResourcesRequest, context: Any) -> pb.CheckResourcesReply:
        return await self._queries.check(request)

    async def Heartbeat(self, request: pb.HeartbeatRequest, context: Any) -> pb.HeartbeatReply:
        require_node(request.node_id)
        answer: HeartbeatReply = await self._engine.submit(wire.heartbeat(request))
        return pb.HeartbeatReply(
            lease_s=self._engine.settings.leases.lease_s,
            lease_enforced=answer.enforced,
            discard=[convert.attempt_to_pb(attempt) for attempt in answer.discard],
            stop=wire.stop_orders(answer.stop),
            extend=wire.extend_orders(answer.extend),
            sent_monotonic_s=request.sent_monotonic_s,
        )

    async def ReportAttempts(self, request: pb.ReportAttemptsRequest, context: Any) -> pb.ReportAttemptsReply:
        require_node(*(report.node_id for report in request.reports))
        require_node(*(late.node_id for late in request.late_warnings))
        discard = await self._engine.submit(wire.reports(request))
        return pb.ReportAttemptsReply(discard=[convert.attempt_to_pb(attempt) for attempt in discard])

    async def HasWork(self, request: pb.HasWorkRequest, context: Any) -> pb.HasWorkReply:
        node_id = NodeId(request.node_id)
        if request.HasField("attempt"):
            attempt = convert.attempt_id(request.attempt)
            return pb.HasWorkReply(has=await self._work_on_nodes.of_attempt(node_id, attempt))
        return pb.HasWorkReply(has=await self._work_on_nodes.of_account(node_id, request.account))

    async def ListAttempts(self, request: pb.ListAttemptsRequest, context: Any) -> AsyncIterator[pb.ListAttemptsReply]:
        async for part in self._queries.attempts(JobId(request.job_id), list(request.tasks)):
            yield part

    async def GetQueue(self, request: pb.GetQueueRequest, context: Any) -> pb.GetQueueReply:
        return await self._queries.queue(request)

    async def ListBookings(self, request: pb.ListBookingsRequest, context: Any) -> AsyncIterator[pb.ListBookingsReply]:
        async for part in self._queries.bookings(request):
            yield part

    async def ExplainTask(self, request: pb.ExplainTaskRequest, context: Any) -> pb.QueueEntry:
        return await self._queries.explain(convert.task_id(request.task))

    async def LocateAttempt(self, request: pb.LocateAttemptRequest, context: Any) -> pb.LocateAttemptReply:
        return await self._queries.locate(
            convert.task_id(request.task), request.number, with_secrets=request.with_secrets
        )

    async def WatchAttempts(self, request: pb.WatchAttemptsRequest, context: Any) -> AsyncIterator[pb.AttemptChanges]:
        async with contextlib.aclosing(self._hub.watch(every_s=_CHANGES_EVERY_S)) as changes:
            async for attempts, queue_changed in changes:
                # The first message is empty: after it the watcher misses nothing.
                for start in range(0, max(1, len(attempts)), _VIEWS_IN_ONE_MESSAGE):
                    part = [self._queries.view(attempt) for attempt in attempts[start : start + _VIEWS_IN_ONE_MESSAGE]]
                    yield pb.AttemptChanges(attempts=part, queue_changed=queue_changed and start == 0)

    async def DeclareNodeLost(self, request: pb.DeclareNodeLostRequest, context: Any) -> pb.DeclareNodeLostReply:
        lost = await self._engine.submit(NodeDeclaredLost(NodeId(request.node_id), request.by))
        return pb.DeclareNodeLostReply(attempts_lost=lost)

    async def PreviewDrain(self, request: pb.PreviewDrainRequest, context: Any) -> pb.PreviewDrainReply:
        return await drain_preview(self._engine, request)

    async def ExtendTask(self, request: pb.ExtendTaskRequest, context: Any) -> pb.ExtendTaskReply:
        asked = ExtendTask(
            convert.task_id(request.task), request.seconds, request.by, request.force, request.request_id
        )
        answer = await self._extensions.give(asked)
        return pb.ExtendTaskReply(
            attempt=self._queries.view(answer.attempt), delivered=answer.delivered, sentence=answer.sentence
        )

    async def SuggestTimeouts(self, request: pb.SuggestTimeoutsRequest, context: Any) -> pb.SuggestTimeoutsReply:
        return await self._timeout_advisor.advise(request)

    async def PreviewQueue(self, request: pb.PreviewQueueRequest, context: Any) -> pb.PreviewQueueReply:
        return await self._previews.preview(request)

    async def SetScheduling(self, request: pb.SetSchedulingRequest, context: Any) -> pb.Scheduling:
        policy = request.policy if request.HasField("policy") else None
        discipline = request.discipline if request.HasField("discipline") else None
        await self._engine.submit(SetScheduling(policy, discipline, request.by))
        return await self._queries.scheduling()

    async def ListDecisions(self, request: pb.ListDecisionsRequest, context: Any) -> pb.ListDecisionsReply:
        task_id = convert.task_id(request.task)
        return await self._decisions.of_task(task_id, limit=request.limit, before=request.before)

    async def GetUsage(self, request: pb.GetUsageRequest, context: Any) -> pb.GetUsageReply:
        return await self._usage.usage(request)

    async def MeasureLogs(self, request: pb.MeasureLogsRequest, context: Any) -> pb.MeasureLogsReply:
        return await self._removal.measure(request.job_ids)

    async def RemoveJobs(self, request: pb.RemoveJobsRequest, context: Any) -> pb.RemoveJobsReply:
        return await self._removal.remove(request.job_ids)

    async def ListRuns(self, request: pb.ListRunsRequest, context: Any) -> AsyncIterator[pb.ListRunsReply]:
        async for part in self._usage.runs(request):
            yield part
