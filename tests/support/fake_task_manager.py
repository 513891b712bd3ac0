"""A TaskManager that remembers what it was told and reports what a test wants."""

from __future__ import annotations

from typing import Any

from headway.errors import InvalidInput, Unavailable
from headway.lifecycle import Service
from headway.rpc.server import RpcServer
from headway.rpc.v1 import common_pb2, job_manager_pb2, task_manager_pb2
from headway.rpc.v1.task_manager_pb2_grpc import TaskManagerServicer, add_TaskManagerServicer_to_server


class FakeTaskManager(TaskManagerServicer):
    """Takes commands as the real one does: at least once, repeated ones dropped by their seq.

    ``away``: calls fail. ``drop_answers``: so many calls do their work, then fail. ``largest``: CPUs (in hundredths)
    of the largest node; None: no node is known. ``refuses``: a task's name that makes a whole call invalid.
    """

    def __init__(self) -> None:
        self.commands: list[task_manager_pb2.TaskCommand] = []
        self.shapes: list[task_manager_pb2.CheckResourcesRequest.Shape] = []  # of the last check
        self.largest: int | None = 800
        self.longest_s = 30 * 86_400.0  # timeouts above it are refused whatever joins
        self.away = False
        self.drop_answers = 0
        self.refuses = ""
        self.calls = 0
        self.removed: list[str] = []
        self._seen = 0
        self._event_seq = 0

    async def ApplyTaskCommands(
        self, request: task_manager_pb2.ApplyTaskCommandsRequest, context: Any
    ) -> task_manager_pb2.ApplyTaskCommandsReply:
        self.calls += 1
        if self.away:
            raise Unavailable("gone fishing")
        if self.refuses in [command.enqueue.task.name for command in request.commands if command.HasField("enqueue")]:
            raise InvalidInput(f"{self.refuses} is beyond me")
        for command in request.commands:
            if command.seq > self._seen:
                self._seen = command.seq
                self.commands.append(command)
        if self.drop_answers:
            self.drop_answers -= 1
            raise Unavailable("the answer got lost")
        return task_manager_pb2.ApplyTaskCommandsReply()

    async def CheckResources(
        self, request: task_manager_pb2.CheckResourcesRequest, context: Any
    ) -> task_manager_pb2.CheckResourcesReply:
        if self.away:
            raise Unavailable("gone fishing")
        self.shapes = list(request.shapes)
        reply = task_manager_pb2.CheckResourcesReply(nodes_known=0 if self.largest is None else 1)
        for shape in request.shapes:
            verdict, asked = reply.verdicts.add(), shape.resources.cpu_centi
            if self.largest is not None and asked > self.largest:
                sentence = f"asked {asked / 100:g} CPUs, the largest machine has {self.largest / 100:g}."
                verdict.refusals.add(field="/resources", sentence=sentence)
            if shape.timeout_s > self.longest_s:
                verdict.refusals.add(field="/timeout", sentence=f"the longest is {self.longest_s:g} s.", for_ever=True)
        return reply

    async def MeasureLogs(
        self, request: task_manager_pb2.MeasureLogsRequest, context: Any
    ) -> task_manager_pb2.MeasureLogsReply:
        return task_manager_pb2.MeasureLogsReply(log_bytes=[7] * len(request.job_ids))

    async def RemoveJobs(
        self, request: task_manager_pb2.RemoveJobsRequest, context: Any
    ) -> task_manager_pb2.RemoveJobsReply:
        if self.away:
            raise Unavailable("gone fishing")
        self.removed += request.job_ids
        return task_manager_pb2.RemoveJobsReply(gone=request.job_ids)

    # -- what tests ask -------------------------------------------------------------------------

    @property
    def enqueued(self) -> list[str]:
        """Names of the tasks enqueued, in order."""
        return [command.enqueue.task.name for command in self.commands if command.HasField("enqueue")]

    def of(self, kind: str) -> list[Any]:
        """Commands of one kind: enqueue, cancel, hold, release."""
        return [getattr(command, kind) for command in self.commands if command.HasField(kind)]

    def event(
        self,
        job_id: str,
        task: str,
        kind: str,
        *,
        generation: int = 1,
        attempt: int = 1,
        at: float = 1_800_000_001.0,
        reason: common_pb2.EndReason | None = None,
        seq: int = 0,
    ) -> job_manager_pb2.TaskEvent:
        """A report with the next seq."""
        self._event_seq += 1
        return job_manager_pb2.TaskEvent(
            task=common_pb2.Task(job_id=job_id, name=task),
            generation=generation,
            seq=seq or self._event_seq,
            kind=kind,
            attempt=attempt,
            at=at,
            reason=reason,
            node_id="node-1",
        )

    async def serve(self, service: Service, bind: str, token: str) -> RpcServer:
        server = RpcServer(service, bind=bind, token=token)
        add_TaskManagerServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        return server
