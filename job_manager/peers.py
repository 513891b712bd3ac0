"""TaskManager over gRPC."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from headway.errors import HeadwayError
from headway.rpc import convert
from headway.rpc.channel import Peer
from headway.rpc.chunks import in_parts
from headway.rpc.v1 import http_server_pb2, task_manager_pb2
from headway.rpc.v1.http_server_pb2_grpc import HttpServerStub
from headway.rpc.v1.task_manager_pb2_grpc import TaskManagerStub

from .ports import ShapeRefusal, ShapeVerdicts, TaskShape

_APPLY_DEADLINE_S = 30.0
_CHECK_DEADLINE_S = 2.0
_COMPARE_DEADLINE_S = 60.0
_REMOVE_DEADLINE_S = 30.0


class TaskManagerPeer:
    """A :class:`job_manager.ports.TaskManagerPort`."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stub = TaskManagerStub(peer.channel)  # type: ignore[no-untyped-call]

    async def apply(
        self, commands: Sequence[task_manager_pb2.TaskCommand], steady: tuple[str, float] | None = None
    ) -> None:
        request = task_manager_pb2.ApplyTaskCommandsRequest(commands=commands)
        if steady is not None:
            request.steady_boot_id, request.steady_now = steady
        # The outbox tries again by itself, with pauses, so this need not.
        await self._peer.call(self._stub.ApplyTaskCommands, request, deadline_s=_APPLY_DEADLINE_S)

    async def compare(self, tasks: Sequence[task_manager_pb2.HeldTask]) -> task_manager_pb2.CompareTasksReply:
        def parts() -> Iterator[task_manager_pb2.CompareTasksRequest]:
            for part in in_parts(tasks):
                yield task_manager_pb2.CompareTasksRequest(tasks=part)

        reply: task_manager_pb2.CompareTasksReply = await self._peer.upload(
            self._stub.CompareTasks, parts, deadline_s=_COMPARE_DEADLINE_S
        )
        return reply

    async def measure_logs(self, job_ids: Sequence[str]) -> Sequence[int]:
        request = task_manager_pb2.MeasureLogsRequest(job_ids=job_ids)
        reply = await self._peer.call(self._stub.MeasureLogs, request, deadline_s=_REMOVE_DEADLINE_S)
        if len(reply.log_bytes) != len(job_ids):
            raise HeadwayError(f"{self._peer.name} measured {len(reply.log_bytes)} of {len(job_ids)} jobs.")
        return list(reply.log_bytes)

    async def remove(self, job_ids: Sequence[str]) -> task_manager_pb2.RemoveJobsReply:
        request = task_manager_pb2.RemoveJobsRequest(job_ids=job_ids)
        reply: task_manager_pb2.RemoveJobsReply = await self._peer.call(
            self._stub.RemoveJobs, request, deadline_s=_REMOVE_DEADLINE_S
        )
        return reply

    async def confirm(self) -> None:
        request = task_manager_pb2.ConfirmTasksRequest()
        async with contextlib.aclosing(self._peer.stream(self._stub.ConfirmTasks, request, deadline_s=None)) as answers:  # type: ignore[type-var]
            async for _ in answers:
                pass

    async def check(self, shapes: Sequence[TaskShape]) -> ShapeVerdicts:
        request = task_manager_pb2.CheckResourcesRequest()
        for shape in shapes:
            request.shapes.add(
                resources=convert.resources_to_pb(shape.resources),
                timeout_s=shape.timeout_s,
                image_architecture=shape.image.architecture,
                image_require_cuda=shape.image.require_cuda,
                ulimits=convert.ulimits_to_pb(shape.ulimits),
            )
        reply = await self._peer.call(self._stub.CheckResources, request, deadline_s=_CHECK_DEADLINE_S)
        if len(reply.verdicts) != len(shapes):
            raise HeadwayError(f"{self._peer.name} answered {len(reply.verdicts)} of {len(shapes)} questions.")
        return ShapeVerdicts(
            tuple(
                tuple(ShapeRefusal(one.field, one.sentence, one.for_ever) for one in verdict.refusals)
                for verdict in reply.verdicts
            ),
            reply.nodes_known,
            tuple(verdict.waits for verdict in reply.verdicts),
        )


class HttpServerPeer:
    """A :class:`job_manager.ports.JobFoldersPort`, and a :class:`job_manager.ports.JobEventsPort`."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stub = HttpServerStub(peer.channel)  # type: ignore[no-untyped-call]

    async def remove(self, job_ids: Sequence[str]) -> Sequence[str]:
        request = http_server_pb2.RemoveJobFoldersRequest(job_ids=job_ids)
        reply = await self._peer.call(self._stub.RemoveJobFolders, request, deadline_s=_REMOVE_DEADLINE_S)
        return list(reply.gone)

    async def apply_events(
        self, batches: Sequence[http_server_pb2.JobEventBatch], told: http_server_pb2.JobEventBatch
    ) -> None:
        request = http_server_pb2.ApplyJobEventsRequest(batches=batches, told=told)
        # The outbox tries again by itself.
        await self._peer.call(self._stub.ApplyJobEvents, request, deadline_s=_APPLY_DEADLINE_S)


class NoFolders:
    """A :class:`job_manager.ports.JobFoldersPort` where nobody has folders of jobs."""

    async def remove(self, job_ids: Sequence[str]) -> Sequence[str]:
        return list(job_ids)
