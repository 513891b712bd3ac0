"""The Worker's gRPC service: it converts requests, calls the rooms, and answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from headway.clock import Clock
from headway.errors import Conflict, InvalidInput, NotFound, Stopping
from headway.lifecycle import Service
from headway.rpc import convert
from headway.rpc.v1 import resource_manager_pb2, worker_pb2
from headway.rpc.v1.worker_pb2_grpc import WorkerServicer
from headway.safe_text import valid_text

from . import wire
from .attempt.launch_verdict import RefuseLaunch
from .attempt.task_controller import TaskController
from .logs.reader import WorkerLogReader
from .model import WantedImage
from .node.heartbeat import Heartbeat
from .node.status import StatusReader
from .ports import Gpus, WatchedGpus
from .sampling.reader import SamplesReader


class WorkerService(WorkerServicer):
    """See proto/headway/rpc/v1/worker.proto for what each call promises."""

    def __init__(
        self,
        service: Service,
        controller: TaskController,
        logs: WorkerLogReader,
        status: StatusReader,
        heartbeat: Heartbeat,
        clock: Clock,
        *,
        gpus: Gpus | None = None,
        on_poll: Callable[[], None],
        on_prefetch_list: Callable[[Sequence[WantedImage]], None],
        samples: SamplesReader | None = None,
    ) -> None:
        self._service = service
        self._controller = controller
        self._logs = logs
        self._samples = samples
        self._status = status
        self._heartbeat = heartbeat
        self._clock = clock
        self._gpus = gpus
        self._on_poll = on_poll
        self._on_prefetch_list = on_prefetch_list

    async def Launch(self, request: worker_pb2.LaunchRequest, context: Any) -> worker_pb2.LaunchReply:
        if self._service.stopping:
            raise Stopping("This worker is stopping.")
        try:
            launches = [(wire.launch(message), message.SerializeToString()) for message in request.launches]
        except (ValueError, KeyError) as error:
            raise InvalidInput(f"A launch is not valid: {error}") from error
        answers = await self._controller.launch(launches)
        reply = worker_pb2.LaunchReply()
        for message, answer in zip(request.launches, answers, strict=True):
            verdict = reply.verdicts.add(attempt=message.attempt)
            if isinstance(answer, RefuseLaunch):
                verdict.slug = answer.error.slug
                verdict.sentence = answer.error.message
                verdict.again_later = answer.again_later
            else:
                verdict.accepted, verdict.accepted_at = True, answer.accepted_at
        return reply

    async def Stop(self, request: worker_pb2.StopRequest, context: Any) -> worker_pb2.StopReply:
        if request.suspend_leases:
            await self._heartbeat.suspend_leases()
        orders = [(convert.attempt_id(order.attempt), wire.stop_word(order.word)) for order in request.orders]
        if orders:
            await self._controller.stop(orders)
        return worker_pb2.StopReply()

    async def Extend(self, request: worker_pb2.ExtendRequest, context: Any) -> worker_pb2.ExtendReply:
        await self._controller.extend(wire.extend_orders(request.orders))
        return worker_pb2.ExtendReply()

    async def ReadLog(self, request: worker_pb2.ReadLogRequest, context: Any) -> AsyncIterator[worker_pb2.LogChunk]:
        chunks = self._logs.read(
            convert.attempt_id(request.attempt),
            request.stream,
            offset=request.offset,
            limit=request.limit,
            tail=request.tail if request.HasField("tail") else None,
            follow=request.follow,
            with_marks=not request.without_marks,
        )
        async for chunk in chunks:
            yield worker_pb2.LogChunk(
                data=chunk.data,
                offset=chunk.offset,
                size=chunk.size,
                ended=chunk.ended,
                marks=[worker_pb2.LogMark(offset=offset, at=at) for offset, at in chunk.marks],
            )

    async def ReadSamples(
        self, request: worker_pb2.ReadSamplesRequest, context: Any
    ) -> AsyncIterator[worker_pb2.SamplesChunk]:
        if self._samples is None:
            raise NotFound("This worker takes no samples.")
        attempt = convert.attempt_id(request.attempt)
        async for part in self._samples.read(attempt, offset=request.offset, follow=request.follow):
            yield worker_pb2.SamplesChunk(data=part.data, offset=part.offset, ended=part.ended)

    async def PrepareImages(
        self, request: worker_pb2.PrepareImagesRequest, context: Any
    ) -> worker_pb2.PrepareImagesReply:
        self._on_prefetch_list(wire.prefetch_images(request))
        return worker_pb2.PrepareImagesReply()

    async def ReturnGpu(
        self, request: resource_manager_pb2.ReturnGpuRequest, context: Any
    ) -> resource_manager_pb2.ReturnGpuReply:
        if not isinstance(self._gpus, WatchedGpus):
            raise Conflict("This worker watches no faults of GPUs, so none is taken out.")
        answer = await self._gpus.return_gpu(request.uuid, gone=request.gone)
        return resource_manager_pb2.ReturnGpuReply(returned=answer.returned, sentence=valid_text(answer.sentence))

    async def GetStatus(self, request: worker_pb2.GetStatusRequest, context: Any) -> resource_manager_pb2.NodeStatus:
        self._on_poll()
        return await self._status.read()
