"""One process that stands for many Workers: each has its own address, its heartbeats and its registration.

Usage: python -m benchmarks.simulated_workers CONFIG COUNT GPUS OUT      (``many_workers`` starts it)

It uses the Worker's own loops and clients; only what is behind them, engine and driver, is made up. OUT gets a line of
JSON a second: calls that came and went in that second.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import grpc

from headway.clock import SystemClock
from headway.config import load
from headway.rpc.channel import Peer
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.rpc.v1 import worker_pb2
from headway.rpc.v1.worker_pb2_grpc import WorkerServicer, add_WorkerServicer_to_server
from worker.machine.conditions import Conditions
from worker.node.heartbeat import Heartbeat, HeartbeatAnswer
from worker.node.registration import Registration
from worker.peers import ResourceManagerClient, TaskManagerClient

_IMAGES = 5


class SimulatedWorker(WorkerServicer):
    """A machine of many GPUs on which nothing runs."""

    def __init__(self, name: str, gpus: int, counts: Counter[str]) -> None:
        self._counts = counts
        self.status = rm.NodeStatus(
            node_id=name,
            incarnation=1_000,
            capacity=rm.Capacity(
                cpu_centi=12_800, memory_bytes=1 << 40, architecture="amd64", engine_version="27.0",
                driver_version="550.54.15", cuda_version="12.4", runtime="docker", gpu_passing="cdi",
                gpus=[
                    rm.Gpu(uuid=f"GPU-{name}-{i}", model="NVIDIA H100 80GB HBM3", memory_bytes=80 << 30, index=i)
                    for i in range(gpus)
                ],
            ),
            engine_images=[
                rm.EngineImage(id=f"sha256:{i:064x}", names=[f"image/{i}:1"], bytes=1 << 30) for i in range(_IMAGES)
            ],
            images=[f"image/{i}:1" for i in range(_IMAGES)],
            worker_uuid=f"uuid-of-{name}",
            boot_id="boot",
            memory_total_bytes=1 << 40,
            disk_total_bytes=1 << 42,
        )  # fmt: skip

    def read(self) -> rm.NodeStatus:
        """The status, with other readings than a moment ago."""
        status = self.status
        status.cpu_used, status.load1 = random.uniform(0, 128), random.uniform(0, 128)
        status.memory_used_bytes = random.randrange(1 << 40)
        for gpu in status.capacity.gpus:
            gpu.utilisation, gpu.temperature_c = random.random(), random.uniform(30, 80)
            gpu.power_w, gpu.memory_used_bytes = random.uniform(50, 700), random.randrange(80 << 30)
        return status

    async def GetStatus(self, request: worker_pb2.GetStatusRequest, context: Any) -> rm.NodeStatus:
        self._counts["polled"] += 1
        return self.read()


async def run_worker(config: Any, name: str, gpus: int, counts: Counter[str]) -> None:
    """One Worker, for ever."""
    clock, token = SystemClock(), config.cluster.token
    one = SimulatedWorker(name, gpus, counts)
    server = grpc.aio.server()
    add_WorkerServicer_to_server(one, server)  # type: ignore[no-untyped-call]
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    tasks = TaskManagerClient(
        Peer("TaskManager", config.peers.task_manager, token=token, clock=clock),
        node_id=name, incarnation=one.status.incarnation, address=address, live=list,
    )  # fmt: skip

    async def send(sent_s: float, suspended: bool) -> HeartbeatAnswer:
        counts["heartbeats"] += 1
        answer = await tasks.heartbeat(sent_s, suspended)
        counts["answered"] += 1
        return answer

    async def nothing(*_: Any) -> None:
        return None

    heartbeat = Heartbeat(
        send, clock, every_s=config.cluster.heartbeat_s, lease_stop_s=config.cluster.lease_stop_s,
        set_lease=lambda lease: None, renew=nothing, stop=nothing, discard=nothing, extend=nothing,
    )  # fmt: skip
    nodes = ResourceManagerClient(Peer("ResourceManager", config.peers.resource_manager, token=token, clock=clock))

    async def register() -> float:
        counts["registered"] += 1
        return await nodes.register(one.read(), address=address, version="0")

    async def report() -> bool:
        counts["reported"] += 1
        return await nodes.report_status(one.read())

    registration = Registration(register, report, Conditions(clock), clock)
    polled = one.GetStatus

    async def get_status(request: Any, context: Any) -> rm.NodeStatus:
        registration.polled()
        return await polled(request, context)

    one.GetStatus = get_status  # type: ignore[method-assign]
    await asyncio.gather(heartbeat.run(), registration.run())


async def main(config_path: str, count: int, gpus: int, out: Path) -> None:
    """All of them; one joins every few milliseconds."""
    config = load(Path(config_path)).config
    counts: Counter[str] = Counter()
    running = set()
    with out.open("w") as lines:
        for number in range(count):
            running.add(asyncio.create_task(run_worker(config, f"w{number:04}", gpus, counts)))
            await asyncio.sleep(0.01)
        last_s = time.monotonic()
        while True:
            await asyncio.sleep(1.0)
            # A busy machine makes it longer: rates are by what really passed.
            now_s = time.monotonic()
            span_s, last_s = now_s - last_s, now_s
            for one in running:
                if one.done():
                    one.result()
            lines.write(json.dumps({**counts, "span_s": span_s}) + "\n")
            lines.flush()
            counts.clear()


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])))
