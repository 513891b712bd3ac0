"""The flow of tasks with mutual TLS between the services, beside the same without.

Both clusters are up at once and take turns, so that what else the machine does falls on both. The rate says what
people notice; the CPU time of all services a task is the same beside other programs. So is the CPU time of one small
call, client and server together.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

from headway.lifecycle import Service
from headway.rpc.channel import Peer
from headway.rpc.server import RpcServer
from headway.rpc.v1 import task_manager_pb2
from headway.rpc.v1.task_manager_pb2_grpc import (
    TaskManagerServicer,
    TaskManagerStub,
    add_TaskManagerServicer_to_server,
)
from headway.trust.certificates import Certificates
from headway.trust.identity import Role
from tests.support.certificates import CertificateMaker, trust_files
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.running import running

from .measure import Figure, cpu_seconds, median

TASKS = int(os.environ.get("HEADWAY_FLOW_TASKS", "1000"))
ROUNDS = int(os.environ.get("HEADWAY_FLOW_ROUNDS", "10"))
MOST_COST = 0.05
CALLS = 1_000


def flow_tls() -> Iterator[Figure]:
    """What mutual TLS costs of the flow's rate."""
    yield from asyncio.run(_calls())
    with tempfile.TemporaryDirectory(prefix="hwb") as folder, ExitStack() as stack:
        clusters = {
            name: stack.enter_context(
                a_cluster(Path(folder) / name, tls=tls, worker__cpus=2, worker__memory_bytes=64 << 30)
            )
            for name, tls in (("plain", False), ("TLS", True))
        }
        for cluster in clusters.values():
            _round(cluster)  # what is loaded lazily is loaded
        rates: dict[str, list[float]] = {name: [] for name in clusters}
        used_ms: dict[str, list[float]] = {name: [] for name in clusters}
        for number in range(ROUNDS):
            # Who goes first changes, so that neither always follows the other.
            for name in sorted(clusters, reverse=number % 2 == 1):
                rate, ms = _round(clusters[name])
                rates[name].append(rate)
                used_ms[name].append(ms)
    for name in clusters:
        note = f"{min(rates[name]):.0f} to {max(rates[name]):.0f} in {ROUNDS} rounds"
        yield Figure(f"flow of {TASKS} tasks, {name}: median", median(rates[name]), "tasks/s", note=note)
        yield Figure(f"  CPU time of all services a task, {name}", median(used_ms[name]), "ms")
    # Round by round: what else the machine does is about the same for both of a round.
    costs = [1 - tls / plain for tls, plain in zip(rates["TLS"], rates["plain"], strict=True)]
    yield Figure("TLS costs of the flow's rate: median", median(costs) * 100, "%", MOST_COST * 100)
    more = [tls / plain - 1 for tls, plain in zip(used_ms["TLS"], used_ms["plain"], strict=True)]
    yield Figure("TLS costs of CPU time: median", median(more) * 100, "%")


def _round(cluster: Cluster) -> tuple[float, float]:
    """Tasks a second, and milliseconds of CPU a task."""
    pids = [process.pid for process in cluster.processes.values()]
    before_s = sum(cpu_seconds(pid) for pid in pids)
    small = {"cpus": 0.01, "memory": "16MiB"}
    job = a_job(*(scripted_task(f"t{i}", resources=small) for i in range(TASKS)))
    done = cluster.client.wait(cluster.client.submit(job)["id"], timeout_s=600)
    assert done["state"] == "SUCCEEDED", done["state"]
    used_s = sum(cpu_seconds(pid) for pid in pids) - before_s
    return TASKS / (done["ended_at"] - done["submitted_at"]), used_s / TASKS * 1000


class _Beats(TaskManagerServicer):
    async def Heartbeat(self, request: object, context: object) -> task_manager_pb2.HeartbeatReply:
        return task_manager_pb2.HeartbeatReply(lease_s=1)


async def _calls() -> list[Figure]:
    used_us: dict[str, list[float]] = {"plain": [], "TLS": []}
    with tempfile.TemporaryDirectory(prefix="hwb") as folder:
        maker, peers = CertificateMaker(), {}
        server, worker = (trust_files(Path(folder) / name) for name in ("server", "worker"))
        shown = {
            "server": Certificates(server, maker.give(server, Role.TASK_MANAGER)),
            "worker": Certificates(worker, maker.give(worker, Role.WORKER, "n1")),
        }
        async with AsyncExitStack() as stack:
            for name in used_us:
                service = Service("task-manager")
                tls = name == "TLS"
                rpc = RpcServer(service, bind="127.0.0.1:0", token=shown["server"] if tls else "a token for a figure")
                add_TaskManagerServicer_to_server(_Beats(), rpc)  # type: ignore[no-untyped-call]
                await stack.enter_async_context(running(service))
                mine = shown["worker"] if tls else "a token for a figure"
                peers[name] = Peer("TaskManager", f"127.0.0.1:{rpc.port}", token=mine, role=Role.TASK_MANAGER)
                stack.push_async_callback(peers[name].close)
            stubs = {name: TaskManagerStub(peer.channel) for name, peer in peers.items()}  # type: ignore[no-untyped-call]
            beat = task_manager_pb2.HeartbeatRequest(node_id="n1", incarnation=1)
            for number in range(2 * ROUNDS + 1):
                for name, peer in peers.items():
                    began_s = time.process_time()
                    for _ in range(CALLS):
                        await peer.call(stubs[name].Heartbeat, beat, deadline_s=30)
                    if number:
                        used_us[name].append((time.process_time() - began_s) / CALLS * 1e6)
    plain, with_tls = median(used_us["plain"]), median(used_us["TLS"])
    note = f"{with_tls:.0f} against {plain:.0f}, client and server together"
    return [Figure("CPU time that TLS adds to a small call", with_tls - plain, "µs", note=note)]
