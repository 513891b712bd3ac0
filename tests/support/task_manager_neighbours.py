"""JobManager, ResourceManager and one Worker as TaskManager sees them, over real gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc

from headway.rpc.v1 import common_pb2, job_manager_pb2, resource_manager_pb2, task_manager_pb2, worker_pb2
from headway.rpc.v1.job_manager_pb2_grpc import JobManagerServicer, add_JobManagerServicer_to_server
from headway.rpc.v1.resource_manager_pb2_grpc import (
    ResourceManagerServicer,
    add_ResourceManagerServicer_to_server,
)
from headway.rpc.v1.task_manager_pb2_grpc import TaskManagerStub
from headway.rpc.v1.worker_pb2_grpc import WorkerServicer, add_WorkerServicer_to_server

ENDS = frozenset({"SUCCEEDED", "FAILED", "TIMED_OUT", "OUT_OF_MEMORY", "CANCELLED"})


class Jobs(JobManagerServicer):
    """Counts the ends that it is told, each once."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], int] = {}
        self.ended: dict[tuple[str, str], str] = {}
        self.events: list[job_manager_pb2.TaskEvent] = []

    async def ReportTaskEvents(self, request: Any, context: Any) -> Any:
        for event in request.events:
            key = (event.task.job_id, event.task.name)
            if event.seq <= self.seen.get(key, 0):
                continue
            self.seen[key] = event.seq
            self.events.append(event)
            if event.kind in ENDS:
                self.ended[key] = event.kind
        return job_manager_pb2.ReportTaskEventsReply()


class Nodes(ResourceManagerServicer):
    """Tells one set of nodes."""

    def __init__(self) -> None:
        self.nodes: list[resource_manager_pb2.Node] = []

    async def WatchNodes(self, request: Any, context: Any) -> AsyncIterator[Any]:
        yield resource_manager_pb2.NodesChanged(reset=True, nodes=self.nodes)
        await asyncio.Event().wait()


class Machine(WorkerServicer):
    """Accepts everything and reports start and end of each attempt at once, in batches."""

    def __init__(self, node_id: str) -> None:
        self.node_id = node_id
        self.task_manager: TaskManagerStub | None = None
        self.metadata: tuple[tuple[str, str], ...] = ()
        self.runs: dict[tuple[str, str, int], int] = {}
        self.holding = False  # keep what was launched running
        self.live: dict[tuple[str, str, int], common_pb2.Attempt] = {}
        self.suspended = False
        self._reports: list[task_manager_pb2.AttemptReport] = []
        self._more = asyncio.Event()

    async def Launch(self, request: Any, context: Any) -> Any:
        reply = worker_pb2.LaunchReply()
        for launch in request.launches:
            key = (launch.attempt.task.job_id, launch.attempt.task.name, launch.attempt.number)
            if key not in self.runs:
                self.runs[key] = 1
                self.live[key] = launch.attempt
                self._report(launch.attempt, "PROCESS_STARTED")
                if not self.holding:
                    self.end(key)
            reply.verdicts.add(attempt=launch.attempt, accepted=True)
        self._more.set()
        return reply

    async def Stop(self, request: Any, context: Any) -> Any:
        self.suspended |= request.suspend_leases
        for order in request.orders:
            key = (order.attempt.task.job_id, order.attempt.task.name, order.attempt.number)
            if key in self.live:
                self.end(key, "CANCELLED", common_pb2.EndReason(word="cancelled", signal=15))
        return worker_pb2.StopReply()

    def end(self, key: tuple[str, str, int], kind: str = "SUCCEEDED", reason: Any = None) -> None:
        self._report(self.live.pop(key), kind, reason=reason or common_pb2.EndReason(word="exited", exit_code=0))
        self._more.set()

    def _report(self, attempt: common_pb2.Attempt, kind: str, **facts: Any) -> None:
        self._reports.append(
            task_manager_pb2.AttemptReport(attempt=attempt, node_id=self.node_id, incarnation=1, kind=kind, **facts)
        )

    async def run(self) -> None:
        """Sends reports until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._reports and self.task_manager is not None:
                batch = self._reports[:500]
                request = task_manager_pb2.ReportAttemptsRequest(reports=batch)
                try:
                    await self.task_manager.ReportAttempts(request, metadata=self.metadata, timeout=20)
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.1)
                    continue
                del self._reports[: len(batch)]

    async def beat(self, address: str) -> task_manager_pb2.HeartbeatReply:
        assert self.task_manager is not None
        request = task_manager_pb2.HeartbeatRequest(
            node_id=self.node_id, incarnation=1, address=address, live=list(self.live.values())
        )
        reply: task_manager_pb2.HeartbeatReply = await self.task_manager.Heartbeat(
            request, metadata=self.metadata, timeout=20
        )
        return reply


@dataclass
class Neighbours:
    """All three on one port."""

    jobs: Jobs = field(default_factory=Jobs)
    nodes: Nodes = field(default_factory=Nodes)
    machine: Machine = field(default_factory=lambda: Machine("n1"))
    address: str = ""
    _server: Any = None
    _reporter: asyncio.Task[None] | None = None
    _channel: Any = None

    async def start(self, token: str, *, cpu_centi: int = 6400, gpus: int = 0) -> None:
        self._server = grpc.aio.server()
        add_JobManagerServicer_to_server(self.jobs, self._server)  # type: ignore[no-untyped-call]
        add_ResourceManagerServicer_to_server(self.nodes, self._server)  # type: ignore[no-untyped-call]
        add_WorkerServicer_to_server(self.machine, self._server)  # type: ignore[no-untyped-call]
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        self.machine.metadata = (("x-headway-token", token),)
        node = resource_manager_pb2.Node(id="n1", incarnation=1, address=self.address, health="READY", admission="OPEN")
        node.status.capacity.cpu_centi = cpu_centi
        node.status.capacity.memory_bytes = 1 << 40
        for index in range(gpus):
            node.status.capacity.gpus.add(uuid=f"GPU-{index}", model="A100", memory_bytes=80 << 30, index=index)
        self.nodes.nodes = [node]
        await self._server.start()
        self._reporter = asyncio.create_task(self.machine.run())

    async def meet(self, task_manager: str) -> TaskManagerStub:
        """Connects the Worker to a TaskManager; returns a stub for the test."""
        if self._channel is not None:
            await self._channel.close()
        self._channel = grpc.aio.insecure_channel(task_manager)
        stub: TaskManagerStub = TaskManagerStub(self._channel)  # type: ignore[no-untyped-call]
        self.machine.task_manager = stub
        self.machine._more.set()
        return stub

    async def stop(self) -> None:
        if self._reporter is not None:
            self._reporter.cancel()
        if self._channel is not None:
            await self._channel.close()
        await self._server.stop(None)


def enqueue_message(
    job_id: str, name: str, seq: int, *, cpu_centi: int = 100, gpus: int = 0, timeout_s: float = 60.0
) -> task_manager_pb2.TaskCommand:
    """One task as JobManager hands it over."""
    spec = common_pb2.TaskSpec(
        name=name,
        image="base/python:1",
        script="true",
        timeout_s=timeout_s,
        resources=common_pb2.Resources(cpu_centi=cpu_centi, memory_bytes=1 << 20, gpus=gpus),
    )
    return task_manager_pb2.TaskCommand(
        seq=seq,
        enqueue=task_manager_pb2.EnqueueTask(
            task=common_pb2.Task(job_id=job_id, name=name),
            generation=1,
            owner=common_pb2.Account(name="ann", uid=20_000, gid=20_000),
            job_name="digits",
            submitted_at=1_800_000_000.0,
            spec=spec,
        ),
    )
