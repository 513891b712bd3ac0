"""TaskManager as a service over real gRPC, with stand-ins for its neighbours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from headway.lifecycle import Service
from headway.rpc.v1 import common_pb2
from headway.rpc.v1 import task_manager_pb2 as pb
from task_manager.app import build
from task_manager.engine.leases import LeaseSettings
from task_manager.settings import TaskManagerSettings
from tests.support.ports import free_port
from tests.support.task_manager_neighbours import Neighbours, enqueue_message
from tests.support.waiting import eventually

TOKEN = "a token for tests, nothing else"
METADATA = (("x-headway-token", TOKEN),)
JOB = "j0000000000000001"


@asynccontextmanager
async def task_manager(folder: Path, neighbours: Neighbours, port: int, **more: Any) -> AsyncIterator[Any]:
    service = Service("task-manager", drain_s=5, release_s=5)
    await build(
        service,
        database=str(folder / "task_manager.db"),
        bind=f"127.0.0.1:{port}",
        token=TOKEN,
        job_manager=neighbours.address,
        resource_manager=neighbours.address,
        settings=more.pop("settings", TaskManagerSettings()),
    )
    running = asyncio.create_task(service.run(signals=False))
    stub = await neighbours.meet(f"127.0.0.1:{port}")
    try:
        await eventually(lambda: service.health.ready, what="TaskManager is ready")
        yield stub
    finally:
        service.request_stop()
        await running


@pytest.fixture
async def neighbours() -> AsyncIterator[Neighbours]:
    made = Neighbours()
    await made.start(TOKEN, cpu_centi=800, gpus=2)
    yield made
    await made.stop()


async def enqueue(stub: Any, *commands: pb.TaskCommand) -> None:
    await stub.ApplyTaskCommands(pb.ApplyTaskCommandsRequest(commands=commands), metadata=METADATA, timeout=10)


async def test_five_hundred_tasks_flow_through(tmp_path: Path, neighbours: Neighbours) -> None:
    async with task_manager(tmp_path, neighbours, free_port()) as stub:
        await enqueue(stub, *(enqueue_message(JOB, f"t{i}", i + 1, cpu_centi=10) for i in range(500)))
        await eventually(lambda: len(neighbours.jobs.ended) == 500, within_s=60)
    assert set(neighbours.jobs.ended.values()) == {"SUCCEEDED"}
    assert set(neighbours.machine.runs.values()) == {1}


async def test_a_restart_keeps_the_queue_and_what_runs(tmp_path: Path, neighbours: Neighbours) -> None:
    neighbours.machine.holding = True
    port = free_port()
    settings = replace(TaskManagerSettings(), leases=LeaseSettings(heartbeat_s=10))
    async with task_manager(tmp_path, neighbours, port, settings=settings) as stub:
        await enqueue(stub, *(enqueue_message(JOB, f"t{i:02d}", i + 1, gpus=1) for i in range(6)))
        await eventually(lambda: len(neighbours.machine.live) == 2)
        reply = await neighbours.machine.beat(neighbours.address)
        assert not reply.lease_enforced
        before = await stub.GetQueue(pb.GetQueueRequest(), metadata=METADATA)
        assert before.total_waiting == 4
    assert neighbours.machine.suspended, "a planned stop tells the workers"
    async with task_manager(tmp_path, neighbours, port, settings=settings) as stub:
        after = await stub.GetQueue(pb.GetQueueRequest(), metadata=METADATA)
        assert [e.task.name for e in after.entries] == [e.task.name for e in before.entries]
        assert [e.submitted_at for e in after.entries] == [e.submitted_at for e in before.entries]
        neighbours.machine.holding = False
        for key in list(neighbours.machine.live):
            neighbours.machine.end(key)
        await eventually(lambda: len(neighbours.jobs.ended) == 6, within_s=30)
    assert set(neighbours.machine.runs.values()) == {1}
    assert len(neighbours.machine.runs) == 6


async def test_questions_over_the_wire(tmp_path: Path, neighbours: Neighbours) -> None:
    neighbours.machine.holding = True
    async with task_manager(tmp_path, neighbours, free_port()) as stub:
        watch = stub.WatchAttempts(pb.WatchAttemptsRequest(), metadata=METADATA)
        # Told at once, so that a watcher knows from when on it misses nothing.
        assert await asyncio.wait_for(watch.read(), 10) == pb.AttemptChanges()
        first = asyncio.create_task(watch.read())
        await eventually(lambda: _knows_nodes(stub))
        await enqueue(
            stub,
            enqueue_message(JOB, "run", 1, gpus=2, timeout_s=30),
            enqueue_message(JOB, "wait", 2, gpus=1, timeout_s=60),
        )
        changes = await asyncio.wait_for(first, 10)
        assert [a.attempt.task.name for a in changes.attempts] == ["run"]
        watch.cancel()
        entry = await stub.ExplainTask(
            pb.ExplainTaskRequest(task=common_pb2.Task(job_id=JOB, name="wait")), metadata=METADATA
        )
        assert (entry.position, entry.state, entry.attempt) == (1, "QUEUED", 1)
        assert [reason.word for reason in entry.reasons] == ["waiting_for_gpu"]
        assert entry.reasons[0].sentence == "It asks for 1 GPU. The closest machine, n1, has no free GPU."
        assert entry.terms["beta_t"] == -60
        more = enqueue_message("", "more", 0, gpus=1, timeout_s=3600).enqueue
        sets = [pb.PreviewQueueRequest.Set(tasks=[more])]
        previewed = await stub.PreviewQueue(pb.PreviewQueueRequest(sets=sets), metadata=METADATA)
        ((start,),) = [of_one.starts for of_one in previewed.sets]
        assert (start.task, start.at_once, previewed.total_waiting) == ("more", False, 1)
        assert start.position in (1, 2)  # the other's submission is of no real day
        assert start.estimated_start > previewed.at
        shapes = [
            pb.CheckResourcesRequest.Shape(resources=common_pb2.Resources(gpus=count), timeout_s=60) for count in (2, 3)
        ]
        verdicts = await stub.CheckResources(pb.CheckResourcesRequest(shapes=shapes), metadata=METADATA)
        taken, refused = verdicts.verdicts
        assert not taken.refusals
        (refusal,) = refused.refusals
        assert (refusal.field, refusal.for_ever) == ("/resources", False)
        assert refusal.sentence == (
            "No machine is big enough: it asks for 3 GPUs, the largest has 2. The closest machine, n1, has 2 of 3 GPUs."
        )
        parts = [p async for p in stub.ListAttempts(pb.ListAttemptsRequest(job_id=JOB), metadata=METADATA)]
        (running,) = [a for p in parts for a in p.attempts]
        assert (len(running.gpu_uuids), running.owner) == (2, "ann")
        late = pb.LateWarnings(
            attempt=running.attempt, node_id="n1", generation=running.generation, warnings=["no log"]
        )
        await stub.ReportAttempts(pb.ReportAttemptsRequest(late_warnings=[late]), metadata=METADATA)
        parts = [p async for p in stub.ListAttempts(pb.ListAttemptsRequest(job_id=JOB), metadata=METADATA)]
        assert [list(a.warnings) for p in parts for a in p.attempts] == [["no log"]]
        with pytest.raises(grpc.aio.AioRpcError) as answers:
            await stub.DeclareNodeLost(pb.DeclareNodeLostRequest(node_id="n1", by="root"), metadata=METADATA)
        assert answers.value.code() is grpc.StatusCode.ALREADY_EXISTS
        lost = await stub.DeclareNodeLost(pb.DeclareNodeLostRequest(node_id="none", by="root"), metadata=METADATA)
        assert lost.attempts_lost == 0
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.ExplainTask(
                pb.ExplainTaskRequest(task=common_pb2.Task(job_id=JOB, name="none")), metadata=METADATA
            )
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def _knows_nodes(stub: Any) -> bool:
    reply = await stub.CheckResources(pb.CheckResourcesRequest(), metadata=METADATA)
    return bool(reply.nodes_known)


async def test_without_the_token_nothing_is_answered(tmp_path: Path, neighbours: Neighbours) -> None:
    async with task_manager(tmp_path, neighbours, free_port()) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.GetQueue(pb.GetQueueRequest())
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_it_starts_before_its_neighbours(tmp_path: Path) -> None:
    late = Neighbours()
    await late.start(TOKEN)
    address = late.address
    await late.stop()
    late.address = address
    async with task_manager(tmp_path, late, free_port()) as stub:
        await enqueue(stub, enqueue_message(JOB, "t", 1))
        reply = await stub.GetQueue(pb.GetQueueRequest(), metadata=METADATA)
        assert reply.total_waiting == 1
        assert [r.word for r in reply.entries[0].reasons] == ["no_such_node_yet"]
