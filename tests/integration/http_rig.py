"""A real HttpServer and a real JobManager on real ports, with neighbours that do what a test says."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import grpc
import httpx
from pydantic import BaseModel

import httpserver.app
import job_manager.app
from headway.config import HeadwayConfig
from headway.errors import HeadwayError, InvalidInput, NotFound, Unavailable
from headway.ids import JobId
from headway.lifecycle import Service
from headway.model.retention import RetentionRules
from headway.mount import Layout, prepare_local
from headway.rpc.server import RpcServer
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.rpc.v1 import worker_pb2 as wk
from headway.rpc.v1.resource_manager_pb2_grpc import (
    ResourceManagerServicer,
    add_ResourceManagerServicer_to_server,
)
from headway.rpc.v1.task_manager_pb2_grpc import add_TaskManagerServicer_to_server
from headway.rpc.v1.worker_pb2_grpc import WorkerServicer, add_WorkerServicer_to_server
from httpserver import schemas
from httpserver.cluster import scheduling, usage
from httpserver.jobs import decisions
from httpserver.parts import Parts
from task_manager.answers.usage_queries import UsageQueries
from tests.support.fake_task_manager import FakeTaskManager
from tests.support.ports import free_ports
from tests.support.running import running
from tests.support.waiting import eventually

TOKEN = "a token of the cluster"
PASSWORD = "correct horse battery"


class FakeAttempts(FakeTaskManager):
    """Also answers what pages ask: attempts as a test put them, a queue, where a log is."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts: dict[tuple[str, str, int], tm.AttemptView] = {}
        self.worker_address = ""
        self.secrets: tuple[str, ...] = ()  # that each task names
        self.entries: list[tm.QueueEntry] = []
        self.changes: asyncio.Queue[tm.AttemptChanges] = asyncio.Queue()
        self.lost: list[str] = []
        self.extended: list[tm.ExtendTaskRequest] = []
        self.refusal: HeadwayError | None = None  # of more time
        self.known: set[int] = set()  # commands of which past runs tell
        self.advised = tm.SuggestTimeoutsRequest()
        self.previewed = tm.PreviewQueueRequest()
        self.scheduling = tm.Scheduling(
            policy="aging_sjf", discipline="conservative", configured_policy="aging_sjf",
            configured_discipline="conservative",
        )  # fmt: skip
        self.named: list[set[str]] = []  # tasks of which attempts or places were asked
        self.asked_decisions: list[tm.ListDecisionsRequest] = []
        self.ledger: UsageQueries | None = None  # the real one, on a test's database
        self.breaks_off = False  # past runs, behind the first part
        self.bookings = tm.ListBookingsReply()  # of one moment, as a test put them
        self.hangs = False  # takes what pages ask of a job, and answers none of it
        self.patience_s: list[float] = []  # that those had who were left hanging

    def put(self, job_id: str, task: str, number: int = 1, state: str = "RUNNING", **fields: Any) -> tm.AttemptView:
        """An attempt that exists from now on."""
        view = tm.AttemptView(
            attempt=common.Attempt(task=common.Task(job_id=job_id, name=task), number=number),
            state=state,
            generation=1,
            node_id="node-1",
            placed_at=1_800_000_000.0,
            of_runs=1,
            **fields,
        )
        self.attempts[job_id, task, number] = view
        return view

    async def RemoveJobs(self, request: tm.RemoveJobsRequest, context: Any) -> tm.RemoveJobsReply:
        reply = await super().RemoveJobs(request, context)
        self.attempts = {key: view for key, view in self.attempts.items() if key[0] not in reply.gone}
        return reply

    def _away(self) -> None:
        if self.away:
            raise Unavailable("gone fishing")

    async def _hang(self, context: Any) -> None:
        if self.hangs:
            self.patience_s.append(context.time_remaining())
            await asyncio.Event().wait()  # until the caller gives up

    async def ListAttempts(self, request: tm.ListAttemptsRequest, context: Any) -> AsyncIterator[tm.ListAttemptsReply]:
        self._away()
        self.named.append(set(request.tasks))
        await self._hang(context)
        for (job_id, task, _), view in sorted(self.attempts.items()):
            if job_id == request.job_id and (not request.tasks or task in request.tasks):
                yield tm.ListAttemptsReply(attempts=[view])

    async def LocateAttempt(self, request: tm.LocateAttemptRequest, context: Any) -> tm.LocateAttemptReply:
        self._away()
        numbers = [n for (j, t, n) in self.attempts if (j, t) == (request.task.job_id, request.task.name)]
        number = request.number or max(numbers, default=0)
        view = self.attempts.get((request.task.job_id, request.task.name, number))
        if view is None:
            raise NotFound("There is no such attempt.")
        secrets = self.secrets if request.with_secrets else ()
        return tm.LocateAttemptReply(attempt=view, worker_address=self.worker_address, secrets=secrets)

    async def GetQueue(self, request: tm.GetQueueRequest, context: Any) -> tm.GetQueueReply:
        self._away()
        mine = [
            entry
            for entry in self.entries
            if request.job_id in ("", entry.task.job_id) and request.owner in ("", entry.owner)
        ]
        page = mine[request.offset : request.offset + (request.limit or 100)]
        if request.tasks:
            self.named.append(set(request.tasks))
            await self._hang(context)
            page = [entry for entry in mine if entry.task.name in request.tasks]
        return tm.GetQueueReply(
            entries=page, total_waiting=len(self.entries), total_matching=len(mine), policy="aging_sjf",
            discipline="conservative",
            scheduling=self.scheduling,
            running=self.bookings.bookings[: request.running_limit], running_matching=len(self.bookings.bookings),
        )  # fmt: skip

    async def PreviewDrain(self, request: tm.PreviewDrainRequest, context: Any) -> tm.PreviewDrainReply:
        stranded = tm.PreviewDrainReply.Stranded(
            task=common.Task(job_id="j1", name="big"), owner="ada", job_name="train"
        )
        return tm.PreviewDrainReply(stranded=[stranded], total_stranded=1)

    async def ListBookings(self, request: tm.ListBookingsRequest, context: Any) -> AsyncIterator[tm.ListBookingsReply]:
        self._away()
        yield self.bookings

    async def ExplainTask(self, request: tm.ExplainTaskRequest, context: Any) -> tm.QueueEntry:
        self._away()
        await self._hang(context)
        for entry in self.entries:
            if entry.task == request.task:
                return entry
        raise NotFound("It does not wait.")

    async def SetScheduling(self, request: tm.SetSchedulingRequest, context: Any) -> tm.Scheduling:
        self._away()
        if request.policy == "lottery":
            raise InvalidInput("There is no scheduling policy 'lottery'; there are fifo.")
        if request.HasField("policy"):
            self.scheduling.policy, self.scheduling.policy_set_by = request.policy, request.by
            self.scheduling.policy_set_at = 1.8e9
        if request.HasField("discipline"):
            self.scheduling.discipline, self.scheduling.discipline_set_by = request.discipline, request.by
        return self.scheduling

    async def ListDecisions(self, request: tm.ListDecisionsRequest, context: Any) -> tm.ListDecisionsReply:
        self._away()
        self.asked_decisions.append(request)
        reply = tm.ListDecisionsReply(kept_days=7, next_before=4)
        one = reply.passes.add(id=5, at=1.8e9, policy="fifo", discipline="easy", started_in_all=1, place=2, key=9.5)
        one.started.add(task=common.Task(job_id="j1", name="b"), node_id="n1", ahead=True, sentence="b was ahead.")
        one.reasons.add(word="waiting_for_gpu", sentence="It asks for 1 GPU, 0 free.")
        return reply

    async def GetUsage(self, request: tm.GetUsageRequest, context: Any) -> tm.GetUsageReply:
        self._away()
        assert self.ledger is not None
        return await self.ledger.usage(request)

    async def ListRuns(self, request: tm.ListRunsRequest, context: Any) -> AsyncIterator[tm.ListRunsReply]:
        self._away()
        assert self.ledger is not None
        async for part in self.ledger.runs(request):
            yield part
            if self.breaks_off:
                raise Unavailable("killed on the way")

    async def WatchAttempts(self, request: tm.WatchAttemptsRequest, context: Any) -> AsyncIterator[tm.AttemptChanges]:
        yield tm.AttemptChanges()
        while True:
            yield await self.changes.get()

    async def SuggestTimeouts(self, request: tm.SuggestTimeoutsRequest, context: Any) -> tm.SuggestTimeoutsReply:
        self._away()
        self.advised = request
        reply = tm.SuggestTimeoutsReply()
        for asked in request.asked:
            reply.index.append(1 if asked.command_print in self.known else 0)
        if any(reply.index):
            reply.advice.add(basis="command", suggested_timeout_s=720, timeout_s=60, succeeded=12, sentence="12 runs …")
        return reply

    async def PreviewQueue(self, request: tm.PreviewQueueRequest, context: Any) -> tm.PreviewQueueReply:
        """The first task of each set starts at once, the others wait for GPUs."""
        self._away()
        self.previewed = request
        reply = tm.PreviewQueueReply(at=1.8e9, policy="aging_sjf", discipline="conservative", total_waiting=4)
        for asked in request.sets:
            starts = reply.sets.add().starts
            for number, task in enumerate(asked.tasks):
                if number == 0:
                    starts.add(task=task.task.name, at_once=True, estimated_start=1.8e9, sentence="At once.")
                    continue
                waits = [common.WaitReason(word="waiting_for_gpu", sentence="It asks for 1 GPU, 0 free.")]
                starts.add(
                    task=task.task.name, position=number, estimated_start=1.8e9 + 60, promise_from=1.8e9 + 30,
                    estimate_rough=True, reasons=waits, sentence="Later.",
                )  # fmt: skip
        return reply

    async def ExtendTask(self, request: tm.ExtendTaskRequest, context: Any) -> tm.ExtendTaskReply:
        if self.refusal is not None:
            raise self.refusal
        if request.task.name == "blocked":
            raise NotFound("The queue knows no such task.")
        self.extended.append(request)
        view = self.put(request.task.job_id, request.task.name, timeout_s=60 + request.seconds, deadline=2e9)
        view.extensions.add(at=1.8e9, by=request.by, seconds=request.seconds, forced=request.force)
        return tm.ExtendTaskReply(attempt=view, delivered=True, sentence="It has more.")

    async def DeclareNodeLost(self, request: tm.DeclareNodeLostRequest, context: Any) -> tm.DeclareNodeLostReply:
        self.lost.append(request.node_id)
        return tm.DeclareNodeLostReply(attempts_lost=3)


class FakeNodes(ResourceManagerServicer):
    """Nodes as a test put them."""

    def __init__(self) -> None:
        self.nodes: dict[str, rm.Node] = {}
        self.changes: asyncio.Queue[rm.NodesChanged] = asyncio.Queue()
        self.asked: list[Any] = []
        self.usage: rm.GetNodeUsageReply | None = None  # what a machine used; None: one point
        self.returned: list[rm.ReturnGpuRequest] = []

    def put(self, node_id: str = "node-1", **status: Any) -> rm.Node:
        """A healthy node with two GPUs."""
        gpus = [rm.Gpu(uuid=f"GPU-{node_id}-{i}", model="A100", memory_bytes=40 << 30, index=i) for i in range(2)]
        capacity = rm.Capacity(cpu_centi=800, memory_bytes=32 << 30, gpus=gpus, runtime="scripted")
        node = rm.Node(
            id=node_id,
            incarnation=1,
            health="READY",
            admission="OPEN",
            registered_at=1.0,
            seen_at=2.0,
            status=rm.NodeStatus(node_id=node_id, capacity=capacity, **status),
        )
        self.nodes[node_id] = node
        return node

    async def ListNodes(self, request: rm.ListNodesRequest, context: Any) -> rm.ListNodesReply:
        return rm.ListNodesReply(nodes=[n for n in self.nodes.values() if request.node_id in ("", n.id)])

    async def GetNodeUsage(self, request: rm.GetNodeUsageRequest, context: Any) -> rm.GetNodeUsageReply:
        self.asked.append(request)
        if self.usage is not None:
            return self.usage
        return rm.GetNodeUsageReply(points=[rm.UsagePoint(at=request.since, cpu_used=0.5, live_attempts=1)])

    async def SetAdmission(self, request: rm.SetAdmissionRequest, context: Any) -> rm.SetAdmissionReply:
        self.asked.append(request)
        node = self.nodes[request.node_id]
        node.admission = {1: "CORDONED", 2: "OPEN", 3: "DRAINING"}[request.action]
        if request.HasField("until_at"):
            node.drain.until_at, node.drain.by = request.until_at, request.by
        return rm.SetAdmissionReply(node=node, changed="It was CORDONED." if request.by == "boss" else "")

    async def ReplaceNode(self, request: rm.ReplaceNodeRequest, context: Any) -> rm.ReplaceNodeReply:
        self.asked.append(request)
        return rm.ReplaceNodeReply()

    async def ReturnGpu(self, request: rm.ReturnGpuRequest, context: Any) -> rm.ReturnGpuReply:
        self.returned.append(request)
        clean = request.gone or not request.uuid.endswith("-1")
        return rm.ReturnGpuReply(returned=clean, sentence=f"{request.uuid} {'is back' if clean else 'stays out'}.")

    async def ForgetNode(self, request: rm.ForgetNodeRequest, context: Any) -> rm.ForgetNodeReply:
        self.nodes.pop(request.node_id, None)
        return rm.ForgetNodeReply()

    async def WatchNodes(self, request: rm.WatchNodesRequest, context: Any) -> AsyncIterator[rm.NodesChanged]:
        yield rm.NodesChanged(reset=True, nodes=list(self.nodes.values()))
        while True:
            yield await self.changes.get()


class FakeWorker(WorkerServicer):
    """Logs that grow as a test says. ``break_after``: so many bytes into a stream the call fails, once."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, str, int, str], bytearray] = {}
        self.samples: dict[tuple[str, str], bytearray] = {}
        self.older = False  # it knows no samples
        self.ended: set[tuple[str, str, int]] = set()
        self.grown = asyncio.Condition()
        self.break_after: int | None = None
        self.requests: list[wk.ReadLogRequest] = []
        self.sent = 0  # bytes

    async def write(self, job_id: str, task: str, data: bytes, *, number: int = 1, stream: str = "stdout") -> None:
        """Bytes that the task prints."""
        async with self.grown:
            self.logs.setdefault((job_id, task, number, stream), bytearray()).extend(data)
            self.grown.notify_all()

    async def end(self, job_id: str, task: str, number: int = 1) -> None:
        """No byte will follow."""
        async with self.grown:
            self.ended.add((job_id, task, number))
            self.grown.notify_all()

    async def measure(self, job_id: str, task: str, data: bytes) -> None:
        """Bytes of its samples."""
        async with self.grown:
            self.samples.setdefault((job_id, task), bytearray()).extend(data)
            self.grown.notify_all()

    async def ReadSamples(self, request: wk.ReadSamplesRequest, context: Any) -> AsyncIterator[wk.SamplesChunk]:
        if self.older:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        task, at = request.attempt.task, request.offset
        kept = self.samples.get((task.job_id, task.name))
        if kept is None:
            raise NotFound("Nothing was measured.")
        while True:
            data, ended = bytes(kept[at:]), (task.job_id, task.name, request.attempt.number) in self.ended
            yield wk.SamplesChunk(data=data, offset=at, ended=ended)
            at += len(data)
            if ended or not request.follow:
                return
            async with self.grown:
                await self.grown.wait()

    async def ReadLog(self, request: wk.ReadLogRequest, context: Any) -> AsyncIterator[wk.LogChunk]:
        self.requests.append(request)
        task = request.attempt.task
        key = (task.job_id, task.name, request.attempt.number)
        log = self.logs.setdefault((*key, request.stream), bytearray())
        at = max(0, len(log) - request.tail) if request.HasField("tail") else request.offset
        size = len(log)
        sent, left = False, request.limit or 1 << 60
        while True:
            data = bytes(log[at : at + min(1000, left)])
            ended = key in self.ended and at + len(data) >= len(log)
            if data or not sent or ended:
                if self.break_after is not None and at + len(data) > self.break_after:
                    self.break_after = None
                    raise Unavailable("the worker was killed")
                yield wk.LogChunk(data=data, offset=at, size=max(size, len(log)), ended=ended)
                sent = True
            at, left = at + len(data), left - len(data)
            self.sent += len(data)
            if ended or not left or (not request.follow and at >= size):
                return
            async with self.grown:
                if at >= len(log) and key not in self.ended:
                    await self.grown.wait()


@lru_cache
def _documented() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    paths = json.loads(Path(httpserver.app.__file__).with_name("openapi.json").read_text("utf-8"))["paths"]
    found = []
    for template, operations in paths.items():
        pattern = re.escape(template).replace(r"\{path\}", ".*").replace(r"\{ref\}", ".*")
        found.append((re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", pattern)), operations))
    return found


@lru_cache
def _model(name: str) -> type[BaseModel]:
    """Each room has its own module of them."""
    rooms = sorted(Path(httpserver.app.__file__).parent.glob("*/schemas.py"))
    modules = [
        schemas,
        decisions,
        scheduling,
        usage,
        *(importlib.import_module(f"httpserver.{path.parent.name}.schemas") for path in rooms),
    ]
    found: type[BaseModel] = next(getattr(module, name) for module in modules if hasattr(module, name))
    return found


async def as_documented(answer: httpx.Response) -> None:
    """Every JSON answer that any test gets must be what the OpenAPI document says of it: so a client that was
    generated from the document understands it."""
    media = answer.headers.get("content-type", "").partition(";")[0]
    if media == "application/problem+json":
        if answer.request.method == "HEAD":
            return
        schemas.Problem.model_validate_json(await answer.aread())
        return
    path = answer.request.url.raw_path.partition(b"?")[0].decode()
    method = answer.request.headers.get("x-http-method-override", answer.request.method).lower()
    said = next((ops[method] for p, ops in _documented() if method in ops and p.fullmatch(path)), None)
    if said is None:
        return
    described = said["responses"].get(str(answer.status_code))
    assert described is not None, (
        f"{answer.request.method} {path} answered {answer.status_code}, which is not documented"
    )
    if media != "application/json":
        assert media in described.get("content", ("",)), (path, media)
        return
    name = described["content"][media]["schema"]["$ref"].rpartition("/")[2]
    model = _model(name)
    body = await answer.aread()
    shown = json.loads(model.model_validate_json(body).model_dump_json(exclude_unset=name == "JobFile"))
    assert shown == json.loads(body), f"{path} does not answer a whole {name}"


@dataclass
class Rig:
    """Everything a test touches."""

    url: str
    parts: Parts
    service: Service
    tasks: FakeAttempts
    nodes: FakeNodes
    worker: FakeWorker
    layout: Layout
    config: HeadwayConfig
    folder: Path
    clients: AsyncExitStack
    job_manager: Service
    secrets: dict[str, str] = field(default_factory=dict)

    async def account(self, name: str, **grants: Any) -> str:
        """An account's bearer token; made when it isn't there."""
        if name not in self.secrets:
            if self.parts.accounts.get(name) is None:
                await self.parts.accounts.create(name, PASSWORD, by="test", **grants)
            self.secrets[name] = (await self.parts.accounts.open_session(name)).token
        return self.secrets[name]

    async def client(self, name: str = "", **grants: Any) -> httpx.AsyncClient:
        """Signed in with a bearer token; without a name not signed in."""
        headers = {"Authorization": f"Bearer {await self.account(name, **grants)}"} if name else {}
        return await self._client(headers)

    async def browser(self, name: str) -> httpx.AsyncClient:
        """Signed in with the cookie, sending what a browser sends from the page itself."""
        headers = {"Cookie": f"headway_session={await self.account(name)}"}
        return await self._client(headers)

    async def _client(self, headers: dict[str, str]) -> httpx.AsyncClient:
        client = httpx.AsyncClient(
            base_url=f"{self.url}/api/v1",
            headers=headers,
            timeout=20,
            trust_env=False,
            event_hooks={"response": [as_documented]},
        )
        await self.clients.enter_async_context(client)
        return client

    def store_log(self, job_id: str, task: str, data: bytes, *, number: int = 1, stream: str = "stdout") -> Path:
        """What the worker's copy would have left on the mount."""
        folder = self.layout.job(JobId(job_id)) / task / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{stream}.log"
        path.write_bytes(data)
        return path


async def a_machine(rig: Rig, *images: rm.EngineImage, node_id: str = "node-1", architecture: str = "amd64") -> None:
    """A node with a real engine that has these images; HttpServer has heard of it."""
    node = rig.nodes.put(node_id, engine_images=images)
    node.status.capacity.runtime, node.status.capacity.architecture = "docker", architecture
    rig.nodes.changes.put_nowait(rm.NodesChanged(nodes=[node]))
    await eventually(lambda: node in rig.parts.hub.nodes(), what="HttpServer has heard of the machine")


def a_job_file(*names: str, **fields: Any) -> dict[str, Any]:
    """A job of independent tasks."""
    return {
        "version": 1,
        "name": "test",
        "defaults": {"image": "base", "command": "true", "timeout": "1m"},
        "tasks": [{"name": name} for name in names or ("a",)],
        **fields,
    }


async def submit(client: httpx.AsyncClient, *names: str, **fields: Any) -> str:
    """Submits and answers the id."""
    answer = await client.post("/jobs", json=a_job_file(*names, **fields))
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


@asynccontextmanager
async def a_rig(
    folder: Path, *, queued_tasks_per_user: int = 0, rules: RetentionRules | None = None, **http: Any
) -> AsyncIterator[Rig]:
    """Starts everything; ``http`` are keys of the section httpserver."""
    layout = prepare_local(folder / "mount", "headway")
    web, rpc, jobs, tasks, nodes, worker = free_ports(6)
    config = HeadwayConfig.model_validate(
        {
            "cluster": {"token": TOKEN, "mount": str(folder / "mount"), "state_dir": str(folder / "state")},
            "httpserver": {
                "port": web,
                "grpc_bind": f"127.0.0.1:{rpc}",
                "database": str(folder / "http.db"),
                "first_admin_file": str(folder / "first-admin"),
                "secret_key_file": str(folder / "registry-key"),
                **http,
            },
            "peers": {
                "job_manager": f"127.0.0.1:{jobs}",
                "task_manager": f"127.0.0.1:{tasks}",
                "resource_manager": f"127.0.0.1:{nodes}",
            },
        }
    )
    neighbours, job_service, service = Service("neighbours"), Service("job-manager"), Service("httpserver")
    fake_tasks, fake_nodes, fake_worker = FakeAttempts(), FakeNodes(), FakeWorker()
    fake_tasks.worker_address = f"127.0.0.1:{worker}"
    for port, add, servicer in (
        (tasks, add_TaskManagerServicer_to_server, fake_tasks),
        (nodes, add_ResourceManagerServicer_to_server, fake_nodes),
        (worker, add_WorkerServicer_to_server, fake_worker),
    ):
        add(servicer, RpcServer(neighbours, bind=f"127.0.0.1:{port}", token=TOKEN))
    await job_manager.app.build(
        job_service,
        database=str(folder / "jobs.db"),
        bind=f"127.0.0.1:{jobs}",
        token=TOKEN,
        task_manager=f"127.0.0.1:{tasks}",
        queued_tasks_per_user=queued_tasks_per_user,
        http_server=f"127.0.0.1:{rpc}",
        rules=rules,
    )
    parts, server = await httpserver.app.build(service, config)
    async with AsyncExitStack() as stack:
        for each in (neighbours, job_service, service):
            await stack.enter_async_context(running(each))
        clients = await stack.enter_async_context(AsyncExitStack())
        yield Rig(
            url=f"http://127.0.0.1:{server.port}",
            parts=parts,
            service=service,
            tasks=fake_tasks,
            nodes=fake_nodes,
            worker=fake_worker,
            layout=layout,
            config=config,
            folder=folder,
            clients=clients,
            job_manager=job_service,
        )
