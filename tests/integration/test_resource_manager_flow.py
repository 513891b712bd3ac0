"""A real ResourceManager behind real gRPC, with Workers that answer what the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headway.errors import Fenced, NotFound
from headway.lifecycle import Service
from headway.rpc.channel import Peer
from headway.rpc.server import RpcServer
from headway.rpc.v1 import resource_manager_pb2 as pb
from headway.rpc.v1.resource_manager_pb2_grpc import ResourceManagerStub
from headway.rpc.v1.worker_pb2_grpc import WorkerServicer, add_WorkerServicer_to_server
from resource_manager.app import build
from resource_manager.health import SilenceLimits
from tests.support.clock import FakeClock
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.running import running
from tests.support.waiting import eventually

TOKEN = "cluster-token-of-the-test"


class FakeWorker(WorkerServicer):
    """Registers as a real one does: at its start, and when it is told that it isn't known."""

    def __init__(self, name: str) -> None:
        self.status = pb.NodeStatus(
            node_id=name, incarnation=7, capacity=pb.Capacity(cpu_centi=800, memory_bytes=2**33), cpu_used=0.5
        )
        self.address = f"127.0.0.1:{free_port()}"
        self.asked = 0

    async def GetStatus(self, request: Any, context: Any) -> pb.NodeStatus:
        self.asked += 1
        return self.status

    async def tell(self, manager: Manager) -> None:
        reply = await manager.call("ReportStatus", pb.ReportStatusRequest(status=self.status))
        if not reply.known:
            await manager.call(
                "RegisterNode",
                pb.RegisterNodeRequest(
                    node_id=self.status.node_id,
                    incarnation=self.status.incarnation,
                    address=self.address,
                    status=self.status,
                    labels={"rack": "1"},
                ),
            )


class Manager:
    def __init__(self, peer: Peer, clock: FakeClock) -> None:
        self.peer = peer
        self.clock = clock
        self.stub = ResourceManagerStub(peer.channel)  # type: ignore[no-untyped-call]

    async def call(self, method: str, request: Any) -> Any:
        return await self.peer.call(getattr(self.stub, method), request, deadline_s=10)

    async def node(self, name: str) -> pb.Node:
        found: pb.Node = (await self.call("ListNodes", pb.ListNodesRequest(node_id=name))).nodes[0]
        return found


@asynccontextmanager
async def a_manager(database: Path | str, clock: FakeClock) -> AsyncIterator[Manager]:
    async with AsyncExitStack() as stack:
        service = Service("resource-manager")
        server = await build(
            service,
            database=database if isinstance(database, str) else str(database / "nodes.db"),
            bind="127.0.0.1:0",
            token=TOKEN,
            poll_s=10,
            limits=SilenceLimits(30, 90),
            clock=clock,
        )
        await stack.enter_async_context(running(service))
        peer = Peer("ResourceManager", f"127.0.0.1:{server.port}", token=TOKEN)
        stack.push_async_callback(peer.close)
        yield Manager(peer, clock)


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    worker = FakeWorker("gpu-1")
    service = Service("worker")
    server = RpcServer(service, bind=worker.address, token=TOKEN)
    add_WorkerServicer_to_server(worker, server)  # type: ignore[no-untyped-call]
    async with running(service):
        yield worker


async def test_workers_are_known_again_after_a_restart_without_anyones_help(
    tmp_path: Path, clock: FakeClock, worker: FakeWorker
) -> None:
    # After a restart the manager used to know nobody, and nobody announced itself again.
    async with a_manager(tmp_path, clock) as manager:
        await worker.tell(manager)
        assert (await manager.node("gpu-1")).health == "READY"
        assert dict((await manager.node("gpu-1")).labels) == {"rack": "1"}
    async with a_manager(tmp_path, clock) as manager:
        assert (await manager.node("gpu-1")).health == "SUSPECT"

        async def ready() -> bool:
            await clock.advance(1)
            return (await manager.node("gpu-1")).health == "READY"

        await eventually(ready)
    # Its memory is lost as well: the Worker is told so, and registers anew.
    (tmp_path / "nodes.db").unlink()
    async with a_manager(tmp_path, clock) as manager:
        await worker.tell(manager)
        assert (await manager.node("gpu-1")).health == "READY"


async def test_a_watch_shows_a_node_come_drain_and_go(tmp_path: Path, clock: FakeClock, worker: FakeWorker) -> None:
    async with a_manager(tmp_path, clock) as manager:
        watch = manager.peer.stream(manager.stub.WatchNodes, pb.WatchNodesRequest(), deadline_s=60)
        async with aclosing(watch) as changes:
            first = await anext(changes)
            assert (first.reset, len(first.nodes)) == (True, 0)
            await worker.tell(manager)
            assert (await anext(changes)).nodes[0].health == "READY"
            request = pb.SetAdmissionRequest(
                node_id="gpu-1", action=pb.SetAdmissionRequest.ACTION_DRAIN, note="new fan", by="root"
            )
            assert (await manager.call("SetAdmission", request)).node.admission == "DRAINING"
            assert (await anext(changes)).nodes[0].note == "new fan"

            async def drained() -> bool:
                await clock.advance(2)
                return (await manager.node("gpu-1")).admission == "DRAINED"

            await eventually(drained)
            assert (await anext(changes)).nodes[0].admission == "DRAINED"


async def test_readings_come_with_the_list_and_as_history(tmp_path: Path, clock: FakeClock, worker: FakeWorker) -> None:
    async with a_manager(tmp_path, clock) as manager:
        since = clock.now()
        await worker.tell(manager)
        worker.status.cpu_used = 3.5

        async def read() -> bool:
            await clock.advance(3)
            return (await manager.node("gpu-1")).status.cpu_used == 3.5

        await eventually(read)
        usage = await manager.call("GetNodeUsage", pb.GetNodeUsageRequest(node_id="gpu-1", since=since))
        assert {point.cpu_used for point in usage.points} == {3.5}


async def test_refusals_come_through_as_they_are(tmp_path: Path, clock: FakeClock, worker: FakeWorker) -> None:
    async with a_manager(tmp_path, clock) as manager:
        await worker.tell(manager)
        with pytest.raises(Fenced):
            await manager.call(
                "RegisterNode", pb.RegisterNodeRequest(node_id="gpu-1", incarnation=3, address="127.0.0.1:1")
            )
        with pytest.raises(NotFound):
            await manager.call("ForgetNode", pb.ForgetNodeRequest(node_id="nobody"))


@pytest.mark.postgres
async def test_the_same_on_postgresql(clock: FakeClock, worker: FakeWorker, postgres: Postgres) -> None:
    url = postgres.tcp_url(postgres.new_database())
    async with a_manager(url, clock) as manager:
        await worker.tell(manager)
        request = pb.SetAdmissionRequest(node_id="gpu-1", action=pb.SetAdmissionRequest.ACTION_CORDON, note="dust")
        await manager.call("SetAdmission", request)
        for _ in range(2):
            await clock.advance(65)
            await eventually(lambda: worker.asked >= 1)
    async with a_manager(url, clock) as manager:
        node = await manager.node("gpu-1")
        assert (node.admission, node.note) == ("CORDONED", "dust")
        assert (await manager.call("GetNodeUsage", pb.GetNodeUsageRequest(node_id="gpu-1"))).points
