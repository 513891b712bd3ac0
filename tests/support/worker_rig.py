"""A real Worker behind real gRPC, with a TaskManager and a ResourceManager that do as the test says."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.config import HeadwayConfig, load
from headway.errors import HeadwayError, Unavailable
from headway.ids import AttemptId, TaskId, new_job_id
from headway.lifecycle import Service
from headway.mount import prepare_local
from headway.rpc import convert
from headway.rpc.channel import Peer
from headway.rpc.server import RpcServer
from headway.rpc.v1 import common_pb2, resource_manager_pb2, task_manager_pb2, worker_pb2
from headway.rpc.v1.resource_manager_pb2_grpc import ResourceManagerServicer, add_ResourceManagerServicer_to_server
from headway.rpc.v1.task_manager_pb2_grpc import TaskManagerServicer, add_TaskManagerServicer_to_server
from headway.rpc.v1.worker_pb2_grpc import WorkerStub
from headway.states import ATTEMPT_ENDED

from .ports import free_port
from .running import running
from .waiting import eventually

TOKEN = "cluster-token-of-the-test"
NODE = "node-1"
_ENDED = frozenset(state.value for state in ATTEMPT_ENDED)


class FakeTaskManager(TaskManagerServicer):
    """Stores reports, answers heartbeats. ``down`` makes every call fail."""

    def __init__(self) -> None:
        self.reports: list[task_manager_pb2.AttemptReport] = []
        self.late: dict[AttemptId, list[str]] = {}  # warnings after the end, as they are now
        self.beats: list[task_manager_pb2.HeartbeatRequest] = []
        self.down = False
        self.deaf_to_reports = False  # stores them, but the answer gets lost
        self.lease_s = 120.0
        self.lease_enforced = False
        self.discard: list[AttemptId] = []
        self.stop: list[tuple[AttemptId, str]] = []
        self.incarnation = 0

    async def Heartbeat(self, request: task_manager_pb2.HeartbeatRequest, context: Any) -> Any:
        if self.down:
            raise Unavailable("down")
        self.beats.append(request)
        self.incarnation = request.incarnation
        return task_manager_pb2.HeartbeatReply(
            lease_s=self.lease_s,
            lease_enforced=self.lease_enforced,
            discard=[convert.attempt_to_pb(attempt) for attempt in self.discard],
            stop=[
                task_manager_pb2.StopOrder(attempt=convert.attempt_to_pb(attempt), word=word)
                for attempt, word in self.stop
            ],
        )

    async def ReportAttempts(self, request: task_manager_pb2.ReportAttemptsRequest, context: Any) -> Any:
        if self.down:
            raise Unavailable("down")
        self.reports.extend(request.reports)
        self.late |= {convert.attempt_id(one.attempt): list(one.warnings) for one in request.late_warnings}
        if self.deaf_to_reports:
            raise Unavailable("the answer got lost")
        return task_manager_pb2.ReportAttemptsReply(
            discard=[convert.attempt_to_pb(attempt) for attempt in self.discard]
        )

    def kinds(self, attempt: AttemptId) -> list[str]:
        """What was reported of an attempt, in order."""
        return [report.kind for report in self.reports if convert.attempt_id(report.attempt) == attempt]

    def end_of(self, attempt: AttemptId) -> task_manager_pb2.AttemptReport | None:
        """Its (last) report of an end."""
        ends = [r for r in self.reports if r.kind in _ENDED and convert.attempt_id(r.attempt) == attempt]
        return ends[-1] if ends else None


class FakeResourceManager(ResourceManagerServicer):
    """Remembers registrations and statuses."""

    def __init__(self) -> None:
        self.registered: list[resource_manager_pb2.RegisterNodeRequest] = []
        self.statuses: list[resource_manager_pb2.NodeStatus] = []
        self.known = True

    async def RegisterNode(self, request: resource_manager_pb2.RegisterNodeRequest, context: Any) -> Any:
        self.registered.append(request)
        self.statuses.append(request.status)
        return resource_manager_pb2.RegisterNodeReply(poll_s=60)

    async def ReportStatus(self, request: resource_manager_pb2.ReportStatusRequest, context: Any) -> Any:
        self.statuses.append(request.status)
        return resource_manager_pb2.ReportStatusReply(known=self.known)

    def conditions(self) -> set[str]:
        """The words of the newest status."""
        return {condition.word for condition in self.statuses[-1].conditions} if self.statuses else set()


def an_attempt(task: str = "train", number: int = 1, job: str = "") -> AttemptId:
    return AttemptId(TaskId(job or new_job_id(1_800_000_000.0), task), number)  # type: ignore[arg-type]


def a_launch(
    attempt: AttemptId,
    *,
    incarnation: int,
    env: dict[str, str] | None = None,
    timeout_s: float = 60.0,
    grace_s: float = 2.0,
    script: str | Sequence[str] = "true",
    image: str = "base/python:1",
    owner: str = "ann",
    uid: int = 0,
    **spec: Any,
) -> worker_pb2.LaunchAttempt:
    """A launch as TaskManager sends it; ``env`` holds what the scripted runtime is to do."""
    task = common_pb2.TaskSpec(
        name=attempt.task.name,
        image=image,
        timeout_s=timeout_s,
        grace_s=grace_s,
        env=[common_pb2.EnvVar(name=name, value=value) for name, value in (env or {}).items()],
        resources=common_pb2.Resources(cpu_centi=100, memory_bytes=1 << 28, shm_bytes=1 << 20),
        network=True,
        log_limit_bytes=spec.pop("log_limit_bytes", 1 << 30),
        **spec,
    )
    if isinstance(script, str):
        task.script = script
    else:
        task.argv.words.extend(script)
    return worker_pb2.LaunchAttempt(
        attempt=convert.attempt_to_pb(attempt),
        generation=1,
        owner=common_pb2.Account(name=owner, uid=uid or os.getuid(), gid=uid or os.getgid()),
        job_name="digits",
        spec=task,
        placed_at=1_800_000_000.0,
        incarnation=incarnation,
        lease_s=120,
    )


def scripted(run_s: float = 0.0, **more: object) -> dict[str, str]:
    """Environment for the scripted runtime: ``scripted(5, exit=3, output="hello")``."""
    env = {"HEADWAY_SCRIPTED_RUN_S": str(run_s)}
    env.update({f"HEADWAY_SCRIPTED_{name.upper()}": str(value) for name, value in more.items()})
    return env


@dataclass
class WorkerRig:
    """The parts, and what a test does with the Worker."""

    config: HeadwayConfig
    config_file: Path
    task_manager: FakeTaskManager
    resource_manager: FakeResourceManager
    peer: Peer
    stub: Any = field(init=False)
    process: asyncio.subprocess.Process | None = None
    log_file: Path = field(init=False)

    def __post_init__(self) -> None:
        self.stub = WorkerStub(self.peer.channel)  # type: ignore[no-untyped-call]
        self.log_file = self.config_file.parent / "worker.log"

    @property
    def mount(self) -> Path:
        return Path(self.config.cluster.mount)

    @property
    def folder(self) -> Path:
        return Path(self.config.worker.folder)

    def logs(self, attempt: AttemptId) -> Path:
        """The attempt's folder on the mount."""
        return self.mount / "jobs" / attempt.task.job_id / attempt.task.name / str(attempt.number)

    # -- the Worker's process -------------------------------------------------------------------------

    async def start(self) -> int:
        """Start the Worker as a process of its own and wait for its first heartbeat; its incarnation."""
        before = self.task_manager.incarnation
        with self.log_file.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "headway",
                "serve",
                "worker",
                "--config",
                str(self.config_file),
                stdout=log,
                stderr=log,
            )
        await eventually(lambda: self.task_manager.incarnation > before, within_s=30, what="a first heartbeat")
        await eventually(self.answers, within_s=30, what="the Worker answers")
        return self.task_manager.incarnation

    async def answers(self) -> bool:
        with suppress(HeadwayError):
            await self.peer.call(self.stub.GetStatus, worker_pb2.GetStatusRequest(), deadline_s=2)
            return True
        return False

    async def kill(self) -> None:
        """kill -9."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def terminate(self) -> int:
        """SIGTERM; the exit status."""
        assert self.process is not None
        self.process.terminate()
        return await asyncio.wait_for(self.process.wait(), 30)

    # -- calls -----------------------------------------------------------------------------------------

    async def launch(self, *launches: worker_pb2.LaunchAttempt) -> list[worker_pb2.LaunchReply.Verdict]:
        reply = await self.peer.call(
            self.stub.Launch, worker_pb2.LaunchRequest(launches=launches), deadline_s=20, idempotent=True
        )
        return list(reply.verdicts)

    async def launch_or_error(self, *launches: worker_pb2.LaunchAttempt) -> list[worker_pb2.LaunchReply.Verdict]:
        """One try; no verdicts where the call itself failed."""
        try:
            reply = await self.peer.call(self.stub.Launch, worker_pb2.LaunchRequest(launches=launches), deadline_s=20)
        except HeadwayError:
            return []
        return list(reply.verdicts)

    async def stop(self, *attempts: AttemptId, word: str = "cancelled") -> None:
        orders = [task_manager_pb2.StopOrder(attempt=convert.attempt_to_pb(attempt), word=word) for attempt in attempts]
        await self.peer.call(self.stub.Stop, worker_pb2.StopRequest(orders=orders), deadline_s=20, idempotent=True)

    async def status(self) -> resource_manager_pb2.NodeStatus:
        reply: resource_manager_pb2.NodeStatus = await self.peer.call(
            self.stub.GetStatus, worker_pb2.GetStatusRequest(), deadline_s=10
        )
        return reply

    async def read(self, attempt: AttemptId, stream: str = "stdout", **more: Any) -> bytes:
        """All bytes of one reading."""
        return b"".join([chunk.data async for chunk in self.chunks(attempt, stream, **more)])

    async def chunks(
        self, attempt: AttemptId, stream: str = "stdout", **more: Any
    ) -> AsyncIterator[worker_pb2.LogChunk]:
        request = worker_pb2.ReadLogRequest(attempt=convert.attempt_to_pb(attempt), stream=stream, **more)
        async for chunk in self.peer.stream(self.stub.ReadLog, request, deadline_s=60):
            yield chunk

    async def ended(self, attempt: AttemptId, within_s: float = 15.0) -> task_manager_pb2.AttemptReport:
        """The report of its end, once it has come."""
        return await eventually(
            lambda: self.task_manager.end_of(attempt), within_s=within_s, what=f"an end of {attempt}"
        )


@asynccontextmanager
async def worker_rig(folder: Path, **settings: object) -> AsyncIterator[WorkerRig]:
    """Fake services that listen, a mount, and a configuration; ``settings`` are keys such as ``worker__runtime``."""
    mount = Path(str(settings.pop("mount", folder / "mount")))
    prepare_local(mount, "headway")
    manager, nodes = FakeTaskManager(), FakeResourceManager()
    service = Service("fakes")
    managers = RpcServer(service, bind=f"127.0.0.1:{free_port()}", token=TOKEN)
    add_TaskManagerServicer_to_server(manager, managers)  # type: ignore[no-untyped-call]
    add_ResourceManagerServicer_to_server(nodes, managers)  # type: ignore[no-untyped-call]
    values: dict[str, dict[str, object]] = {
        "cluster": {"token": TOKEN, "mount": str(mount), "state_dir": str(folder / "state"), "heartbeat_s": 0.5},
        "worker": {
            "node_id": NODE,
            "gpu_socket": "off",  # the place for all users of this machine is none for tests
            "runtime": "scripted",
            "bind": f"127.0.0.1:{free_port()}",
            "disk_low_bytes": 1 << 20,
            "cpus": 64,
            "memory_bytes": 64 << 30,
        },
    }
    for key, value in settings.items():
        section, _, name = key.partition("__")
        values.setdefault(section, {})[name] = value
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(service))
        address = f"127.0.0.1:{managers.port}"
        values["peers"] = {"task_manager": address, "resource_manager": address}
        config_file = folder / "headway.toml"
        config_file.write_text(
            "".join(
                f"[{section}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in keys.items())
                for section, keys in values.items()
            )
        )
        config = load(config_file, env={}).config
        peer = Peer("Worker", config.worker.bind, token=TOKEN)
        rig = WorkerRig(config, config_file, manager, nodes, peer)
        stack.push_async_callback(peer.close)
        stack.push_async_callback(rig.kill)
        yield rig
